// Partitioned requests between neighbours in memory of the fake GPU, whose epochs kernels open unless said otherwise.
#pragma once

#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <partita/device.cuh>

#include <array>
#include <cstdint>
#include <string_view>

#include "support/errors.hpp"
#include "support/fake_gpu.hpp"
#include "support/job.hpp"
#include "support/pattern.hpp"
#include "support/persistent_ring.hpp"

namespace partita::test {

struct PartitionShape {
  int partitions;
  std::int64_t partition_bytes;
  std::int64_t total_bytes() const { return partitions * partition_bytes; }
};

/// One side of a message between neighbours of a ring, in GPU memory.
class OneSide {
 public:
  OneSide(bool sends, int peer, int tag, PartitionShape shape, const char* driver = "device", Gpu gpu = mapped,
          const char* link = "auto")
      : shape_(shape), memory_(gpu, static_cast<std::size_t>(shape.total_bytes())) {
    MPI_Info info = MPI_INFO_NULL;
    MPI_Info_create(&info);
    MPI_Info_set(info, "partita_driver", driver);
    MPI_Info_set(info, "partita_link", link);
    EXPECT_OK((sends ? Partita_Psend_init : init_receive)(memory_.data(), shape.partitions, shape.partition_bytes,
                                                          MPI_BYTE, peer, tag, MPI_COMM_WORLD, info, &request));
    MPI_Info_free(&info);
  }
  OneSide(const OneSide&) = delete;
  OneSide& operator=(const OneSide&) = delete;

  void create() { ASSERT_OK(Partita_Prequest_create(&device, request)); }
  std::byte* data() const { return memory_.data(); }
  /// Writes and marks all partitions, as a kernel; `seed`: of the sender's bytes.
  void send(int seed) const {
    EXPECT_EQ(PARTITA_DEVICE_SUCCESS, MPIX_Pbuf_prepare(device));
    for (int p = shape_.partitions - 1; p >= 0; --p) {
      const std::int64_t first = p * shape_.partition_bytes;
      write_pattern(data() + first, static_cast<std::uint64_t>(seed), first, first + shape_.partition_bytes);
      EXPECT_EQ(PARTITA_DEVICE_SUCCESS, MPIX_Pready(p, device));
    }
  }
  void expect(int seed) const {
    EXPECT_EQ(shape_.total_bytes(),
              first_off_pattern(data(), static_cast<std::uint64_t>(seed), 0, shape_.total_bytes()))
        << "first wrong byte of what was sent as " << seed;
  }
  void fill(int seed) const { write_pattern(data(), static_cast<std::uint64_t>(seed), 0, shape_.total_bytes()); }
  void overwrite() const { fill(12345); }
  void free() {
    if (device.flags != 0) {
      EXPECT_OK(Partita_Prequest_free(&device));
    }
    EXPECT_OK(Partita_Request_free(&request));
  }

  Partita_Request request = PARTITA_REQUEST_NULL;
  MPIX_Prequest device{};

 private:
  static int init_receive(const void* buffer, int partitions, MPI_Count count, MPI_Datatype type, int peer, int tag,
                          MPI_Comm comm, MPI_Info info, Partita_Request* made) {
    return Partita_Precv_init(const_cast<void*>(buffer), partitions, count, type, peer, tag, comm, info, made);
  }

  PartitionShape shape_;
  FakeGpuBuffer memory_;
};

/// Each rank sends to its right neighbour and receives from its left one.
class StreamPartitions : public PersistentRing, public testing::WithParamInterface<PartitionShape> {
 protected:
  /// Matched; the send has its device request.
  struct Pair {
    Pair(int tag, PartitionShape shape, const char* send_driver = "device", const char* recv_driver = "device")
        : in(false, left(), tag, shape, recv_driver), out(true, right(), tag, shape, send_driver) {
      std::array both{in.request, out.request};
      EXPECT_OK(Partita_Matchall(2, both.data()));
      if (std::string_view("device") == send_driver) out.create();
    }
    void free() {
      in.free();
      out.free();
    }
    OneSide in, out;
  };
  static int seed_of(int sender, int epoch) { return epoch * 10 + sender; }

  const ErrorsReturn handler_{MPI_COMM_WORLD};
};

}  // namespace partita::test
