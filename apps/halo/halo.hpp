// The halo of a rank's block of a 2-D grid, one cell wide, in several ways. In queues it is partita::halo, whose are
// the directions, the neighbours and the cells to exchange of the other ways, too: those pack them into messages.
#pragma once

#include <mpi.h>

#include <array>
#include <cstddef>
#include <memory>
#include <partita/halo_block.hpp>

namespace partita {

/// A block of rows x columns cells of 8 bytes inside a frame one cell wide, which the exchange fills. `frame` is the
/// frame's upper left cell, and rows lie `stride` cells apart.
struct framed_block {
  void* frame = nullptr;
  int rows = 0, columns = 0;
  std::ptrdiff_t stride = 0;
};

/// Two blocks of one shape that take turns: one is computed from the other.
using framed_pair = std::array<framed_block, 2>;

/// How the messages travel; all start their receives before anything is packed.
enum class halo_way {
  traditional,    ///< persistent requests of the MPI
  queue_regular,  ///< partita::halo in a queue of the host (cpu-free-stream-triggered-mpi, figure 3)
  queue_ready,    ///< the same with ready sends: receives are started one exchange ahead
  partitioned,    ///< partitions leave as they are packed, and are unpacked as they arrive
};

/// What the ranks have to know of a halo.
struct halo_shape {
  int rows = 0, columns = 0;        ///< of this rank's block
  halo_neighbours<2> neighbours{};  ///< this rank itself, or MPI_PROC_NULL, which leaves the frame there as it is
  int partitions = 1;  ///< wanted of each edge in halo_way::partitioned, see partitions_for; corners have one
};

/// What the message in one direction holds, and in how many partitions of one size halo_way::partitioned sends it. The
/// neighbour there has the same.
struct halo_extent {
  int cells = 0, partitions = 1;
};
halo_extent extent_of(const halo_shape& shape, std::size_t direction);

/// Exchanges the frames of two blocks. One thread at a time. Errors of Partita's calls are partita::error where the
/// communicator's handler returns.
class framed_halo {
 public:
  /// Collective over `comm`, which is known to Partita and stays the caller's. Each of two neighbours has the other
  /// among its own, in opposite directions, and wants as many partitions. From here on the frames of `blocks` are the
  /// halo's to write, and neighbours in queues write them where they lie: large ones fastest in memory of
  /// MPI_Alloc_mem.
  framed_halo(MPI_Comm comm, const halo_shape& shape, const framed_pair& blocks, halo_way way);
  /// One way of exchanging (messages.hpp); those of halo_way are made in mpi.cpp and partita.cpp.
  class exchanger;
  framed_halo(MPI_Comm comm, std::unique_ptr<exchanger> way);
  /// Collective: waits until all ranks have freed their requests, since memory into which a neighbour may write has to
  /// stay until then. Only the error handler hears of an error. Not collective where an exchange has thrown, or where
  /// an exception ends the halo: then nothing more is sent, and the memory of the messages is never freed.
  ~framed_halo();
  framed_halo(const framed_halo&) = delete;
  framed_halo& operator=(const framed_halo&) = delete;

  /// Fills the frame of `block`, one of the two, which take turns from the first one on, with the cells that the
  /// neighbours have at their rims. Collective among neighbours; returns when the frame is filled and the block may be
  /// written.
  void exchange(const framed_block& block);

 private:
  MPI_Comm comm_;
  int exceptions_before_;  ///< under way when this was made
  bool sound_ = true;      ///< no exchange has thrown
  std::unique_ptr<exchanger> exchanger_;
};

}  // namespace partita
