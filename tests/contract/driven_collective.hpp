// Persistent collectives by kernels of the library's, on bytes in GPU memory, on CUDA and on the fake GPU alike: how
// they are made, what a rank sends, and what comes of it.
#pragma once

#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "collective/problem.hpp"
#include "contract/gpu_program.hpp"
#include "support/errors.hpp"
#include "support/gpu_memory.hpp"
#include "support/job.hpp"

namespace partita::test {

using Bytes = std::vector<std::uint8_t>;
using collective::Kind;

inline constexpr Kind driven_kinds[] = {Kind::allreduce, Kind::allgather, Kind::reduce_scatter_block, Kind::alltoall,
                                        Kind::bcast};
/// By which kernels move it.
inline std::vector<const char*> algorithms_of(Kind kind) {
  std::vector<const char*> all{"packets", "buffers"};
  if (kind == Kind::allreduce) all.push_back("two-shot");
  return all;
}
inline bool scatters(Kind kind) {
  return kind == Kind::reduce_scatter_block || kind == Kind::alltoall;
}
inline bool gathers(Kind kind) {
  return kind == Kind::allgather || kind == Kind::alltoall;
}

/// What is asked of one collective. The root of a broadcast is the last rank.
struct DrivenShape {
  Kind kind{};
  MPI_Count count = 1;  ///< elements of a block
  std::size_t element_bytes = 1;
  MPI_Datatype datatype = MPI_BYTE;
  MPI_Op op = MPI_OP_NULL;
  const char* algorithm = "auto";
  bool in_place = false;
  std::size_t shift_bytes =
      0;  ///< so far behind a boundary the send buffer begins, and the receive buffer thrice as far
  MPI_Comm comm = MPI_COMM_WORLD;

  std::size_t block_bytes() const { return static_cast<std::size_t>(count) * element_bytes; }
  std::size_t sent_bytes() const { return block_bytes() * (scatters(kind) ? static_cast<std::size_t>(ranks()) : 1); }
  std::size_t received_bytes() const { return block_bytes() * (gathers(kind) ? static_cast<std::size_t>(ranks()) : 1); }
  /// In place the receive buffer holds what is sent, too.
  std::size_t buffer_bytes() const { return std::max(sent_bytes(), received_bytes()); }
  int root() const { return ranks() - 1; }
  bool is_in_place() const { return in_place && kind != Kind::bcast; }
};

/// One that is matched, with buffers of its own. What goes wrong with a peer's free is not tested here: all ranks free
/// together.
class DrivenCollective {
 public:
  explicit DrivenCollective(const DrivenShape& shape)
      : shape_(shape),
        sent_(shape.buffer_bytes() + shape.shift_bytes),
        received_(shape.buffer_bytes() + 3 * shape.shift_bytes) {
    MPI_Info info = MPI_INFO_NULL;
    PMPI_Info_create(&info);
    PMPI_Info_set(info, "partita_driver", "device");
    PMPI_Info_set(info, "partita_algorithm", shape.algorithm);
    EXPECT_OK(init(info));
    PMPI_Info_free(&info);
    EXPECT_OK(Partita_Match(&request));
  }
  ~DrivenCollective() {
    harness_barrier();
    EXPECT_OK(Partita_Request_free(&request));
  }
  DrivenCollective(const DrivenCollective&) = delete;
  DrivenCollective& operator=(const DrivenCollective&) = delete;

  const DrivenShape& shape() const { return shape_; }
  /// Where this rank's data lie, and where they come to. A broadcast has one buffer.
  std::uint8_t* sent() const {
    if (shape_.kind == Kind::bcast || !shape_.is_in_place()) return begin_of(sent_, shape_.shift_bytes);
    const bool own_block = shape_.kind == Kind::allgather;
    return out() + (own_block ? static_cast<std::size_t>(rank()) * shape_.block_bytes() : 0);
  }
  std::uint8_t* received() const { return shape_.kind == Kind::bcast ? sent() : out(); }

  /// What lay in the buffers before is spoiled.
  void write(const Bytes& bytes) const {
    const Bytes spoiled(shape_.received_bytes(), 0xa5);
    gpu_copy(received(), spoiled.data(), spoiled.size());
    if (shape_.kind != Kind::bcast || rank() == shape_.root()) gpu_copy(sent(), bytes.data(), bytes.size());
  }
  Bytes read() const {
    Bytes bytes(shape_.received_bytes());
    gpu_copy(bytes.data(), received(), bytes.size());
    return bytes;
  }

  Partita_Request request = PARTITA_REQUEST_NULL;

 private:
  static std::uint8_t* begin_of(const ProgramMemory& memory, std::size_t shift) {
    return reinterpret_cast<std::uint8_t*>(memory.data()) + shift;
  }
  std::uint8_t* out() const { return begin_of(received_, 3 * shape_.shift_bytes); }

  int init(MPI_Info info) {
    const DrivenShape& s = shape_;
    const void* const in = s.is_in_place() ? MPI_IN_PLACE : static_cast<const void*>(sent());
    switch (s.kind) {
      case Kind::allreduce:
        return Partita_Allreduce_init(in, out(), s.count, s.datatype, s.op, s.comm, info, &request);
      case Kind::allgather:
        return Partita_Allgather_init(in, s.count, s.datatype, out(), s.count, s.datatype, s.comm, info, &request);
      case Kind::reduce_scatter_block:
        return Partita_Reduce_scatter_block_init(in, out(), s.count, s.datatype, s.op, s.comm, info, &request);
      case Kind::alltoall:
        return Partita_Alltoall_init(in, s.count, s.datatype, out(), s.count, s.datatype, s.comm, info, &request);
      default:
        return Partita_Bcast_init(sent(), s.count, s.datatype, s.root(), s.comm, info, &request);
    }
  }

  const DrivenShape shape_;
  const ProgramMemory sent_, received_;
};

// ---- Contents of unsigned integers ---------------------------------------------------------------------------------

/// Element `i` of what `from` has for `to` in `epoch`; of those that sum, no sum overflows.
inline std::uint32_t driven_value(int from, int to, std::uint64_t epoch, std::size_t i) {
  const std::uint64_t mixed =
      (static_cast<std::uint64_t>(from) * 131 + static_cast<std::uint64_t>(to)) * 1009 + i * 31 + epoch * 65537;
  return static_cast<std::uint32_t>(mixed * 2654435761U) >> 4;
}

/// For a collective of MPI_UINT32_T, whose op is MPI_SUM where it has one.
inline Bytes driven_contents(const DrivenShape& shape, std::uint64_t epoch) {
  const auto block = static_cast<std::size_t>(shape.count);
  std::vector<std::uint32_t> values(shape.sent_bytes() / sizeof(std::uint32_t));
  for (std::size_t n = 0; n < values.size(); ++n) {
    values[n] = driven_value(rank(), scatters(shape.kind) ? static_cast<int>(n / block) : 0, epoch, n % block);
  }
  Bytes bytes(values.size() * sizeof(std::uint32_t));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}
inline Bytes driven_result(const DrivenShape& shape, std::uint64_t epoch) {
  const auto block = static_cast<std::size_t>(shape.count);
  const int own = scatters(shape.kind) ? rank() : 0;
  std::vector<std::uint32_t> values(shape.received_bytes() / sizeof(std::uint32_t));
  for (std::size_t n = 0; n < values.size(); ++n) {
    if (shape.op == MPI_SUM) {
      for (int from = 0; from < ranks(); ++from) values[n] += driven_value(from, own, epoch, n);
    } else {
      const int from = shape.kind == Kind::bcast ? shape.root() : static_cast<int>(n / block);
      values[n] = driven_value(from, own, epoch, n % block);
    }
  }
  Bytes bytes(values.size() * sizeof(std::uint32_t));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}
inline DrivenShape driven_integers(Kind kind, MPI_Count count, const char* algorithm) {
  DrivenShape shape;
  shape.kind = kind;
  shape.count = count;
  shape.element_bytes = sizeof(std::uint32_t);
  shape.datatype = MPI_UINT32_T;
  shape.op = kind == Kind::allreduce || kind == Kind::reduce_scatter_block ? MPI_SUM : MPI_OP_NULL;
  shape.algorithm = algorithm;
  return shape;
}

/// Where two contents differ first, as a sentence; empty where they do not.
inline std::string first_difference(const Bytes& found, const Bytes& wanted) {
  if (found.size() != wanted.size()) return "other sizes";
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i] == wanted[i]) continue;
    return "byte " + std::to_string(i) + " is " + std::to_string(found[i]) + ", expected " + std::to_string(wanted[i]);
  }
  return {};
}

}  // namespace partita::test
