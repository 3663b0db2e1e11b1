// A collective whose epochs kernels open, on memory that stands for a GPU's, with threads for kernels.
#pragma once

#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <partita/device.cuh>

#include "support/device_group.hpp"
#include "support/fake_gpu.hpp"
#include "support/job.hpp"

namespace partita::test {

enum class Kind { allreduce, allgather, reduce_scatter, alltoall, bcast };
inline constexpr Kind kinds[] = {Kind::allreduce, Kind::allgather, Kind::reduce_scatter, Kind::alltoall, Kind::bcast};
inline constexpr int partitions = 3;
/// The root of a bcast.
inline int root() {
  return 1 % ranks();
}

inline const char* name_of(Kind kind) {
  constexpr const char* names[] = {"allreduce", "allgather", "reduce_scatter", "alltoall", "bcast"};
  return names[static_cast<int>(kind)];
}

/// Element `element` of what `from` has for `to`, in whatever partition.
inline int value(int from, int to, int epoch, int element) {
  return 1000000 * epoch + 10000 * from + 100 * to + element % 97;
}

/// A collective of ints on GPU memory, whose epochs kernels open.
class Case {
 public:
  Case(Kind kind, int count, bool in_place = false, Gpu gpu = mapped, const char* algorithm = "auto")
      : kind_(kind),
        count_(count),
        in_place_(in_place),
        sent_(gpu, sizeof(int) * static_cast<std::size_t>(partitions * count * ranks()) + 16),
        received_(gpu, sizeof(int) * static_cast<std::size_t>(partitions * count * ranks()) + 16) {
    MPI_Info info = MPI_INFO_NULL;
    PMPI_Info_create(&info);
    PMPI_Info_set(info, "partita_driver", "device");
    PMPI_Info_set(info, "partita_algorithm", algorithm);
    init_code = init(info);
    PMPI_Info_free(&info);
  }
  ~Case() {
    harness_barrier();  // what goes wrong with a peer's free is not tested here
    if (request != PARTITA_REQUEST_NULL) {
      EXPECT_EQ(Partita_Request_free(&request), MPI_SUCCESS);
    }
    harness_barrier();
  }
  Case(const Case&) = delete;
  Case& operator=(const Case&) = delete;

  void create() { ASSERT_EQ(Partita_Prequest_create(&device, request), MPI_SUCCESS); }
  void free_device_request() { EXPECT_EQ(Partita_Prequest_free(&device), MPI_SUCCESS); }

  int call() const {
    switch (kind_) {
      case Kind::allreduce:
        return MPIX_Pallreduce(device);
      case Kind::allgather:
        return MPIX_Pallgather(device);
      case Kind::reduce_scatter:
        return MPIX_Preduce_scatter(device);
      case Kind::alltoall:
        return MPIX_Palltoall(device);
      case Kind::bcast:
        return MPIX_Pbcast(device);
    }
    return -1;
  }
  void write(int epoch) {
    int* const in = sent();
    for (int block = 0; block < (scatters() ? ranks() : 1); ++block) {
      for (int i = 0; i < block_size(); ++i) {
        if (kind_ != Kind::bcast || rank() == root()) in[block * block_size() + i] = value(rank(), block, epoch, i);
      }
    }
  }
  void expect_all(int epoch) const {
    const int blocks = kind_ == Kind::allgather || kind_ == Kind::alltoall ? ranks() : 1;
    const int* const out = kind_ == Kind::bcast ? ints(sent_) : ints(received_);
    for (int block = 0; block < blocks; ++block) {
      for (int i = 0; i < block_size(); ++i) {
        ASSERT_EQ(out[block * block_size() + i], wanted(block, epoch, i))
            << name_of(kind_) << ", epoch " << epoch << ", block " << block << ", element " << i;
      }
    }
  }
  /// Kernels of this rank open and complete so many epochs, from `first` on.
  void run(const GridShape& grid, int first, int epochs) {
    for (int epoch = first; epoch < first + epochs; ++epoch) {
      write(epoch);
      CpuKernel kernel(grid, [&](unsigned) { EXPECT_EQ(call(), PARTITA_DEVICE_SUCCESS) << name_of(kind_); });
      kernel.end();
      expect_all(epoch);
    }
  }

  int init_code = MPI_SUCCESS;
  Partita_Request request = PARTITA_REQUEST_NULL;
  MPIX_Prequest device{};

 private:
  static int* ints(const FakeGpuBuffer& buffer) { return reinterpret_cast<int*>(buffer.data()); }
  bool scatters() const { return kind_ == Kind::reduce_scatter || kind_ == Kind::alltoall; }
  int block_size() const { return partitions * count_; }
  int* sent() const {
    if (!in_place_) return ints(sent_);
    return ints(received_) + (kind_ == Kind::allgather ? rank() * block_size() : 0);
  }
  int wanted(int block, int epoch, int element) const {
    if (kind_ == Kind::bcast) return value(root(), 0, epoch, element);
    if (kind_ == Kind::allgather) return value(block, 0, epoch, element);
    if (kind_ == Kind::alltoall) return value(block, rank(), epoch, element);
    int sum = 0;
    for (int r = 0; r < ranks(); ++r) sum += value(r, kind_ == Kind::allreduce ? 0 : rank(), epoch, element);
    return sum;
  }
  int init(MPI_Info info) {
    void* const in = in_place_ ? MPI_IN_PLACE : static_cast<void*>(ints(sent_));
    int* const out = ints(received_);
    switch (kind_) {
      case Kind::allreduce:
        return Partita_Pallreduce_init(in, out, partitions, count_, MPI_INT, MPI_SUM, MPI_COMM_WORLD, info, &request);
      case Kind::allgather:
        return Partita_Pallgather_init(in, partitions, count_, MPI_INT, out, count_, MPI_INT, MPI_COMM_WORLD, info,
                                       &request);
      case Kind::reduce_scatter:
        return Partita_Preduce_scatter_block_init(in, out, partitions, count_, MPI_INT, MPI_SUM, MPI_COMM_WORLD, info,
                                                  &request);
      case Kind::alltoall:
        return Partita_Palltoall_init(in, partitions, count_, MPI_INT, out, count_, MPI_INT, MPI_COMM_WORLD, info,
                                      &request);
      case Kind::bcast:
        return Partita_Pbcast_init(ints(sent_), partitions, count_, MPI_INT, root(), MPI_COMM_WORLD, info, &request);
    }
    return MPI_ERR_OTHER;
  }

  const Kind kind_;
  const int count_;
  const bool in_place_;
  const FakeGpuBuffer sent_;
  const FakeGpuBuffer received_;
};

/// Not the same on all ranks.
inline GridShape own_grid() {
  constexpr GridShape shapes[] = {{1, 2}, {2, 1}, {1, 1}, {1, 3}};
  return shapes[rank() % 4];
}

}  // namespace partita::test
