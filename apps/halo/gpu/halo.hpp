// The halo (apps/halo/halo.hpp) of blocks in GPU memory, exchanged in the order of a CUDA stream.
#pragma once

#include <mpi.h>

#include <memory>

#include "apps/halo/messages.hpp"
#include "apps/halo/turns.hpp"
#include "apps/support/cuda_memory.hpp"

namespace partita {

/// How the messages travel; all start their receives before anything is packed.
enum class gpu_halo_way {
  staged,         ///< persistent requests of the MPI on host memory, to and from which the stream copies
  traditional,    ///< requests of one partition on GPU memory, which the host starts, marks and awaits
  queue_regular,  ///< partita::halo in a queue of the stream (cpu-free-stream-triggered-mpi, figure 3)
  queue_ready,    ///< the same with ready sends: receives are started one exchange ahead
  in_kernel,      ///< partitions that one kernel opens, packs, marks, awaits and unpacks
};

/// Collective at both ends as framed_halo is. One thread at a time. Throws partita::error or std::runtime_error.
class gpu_halo {
 public:
  /// For in_kernel, and for what is captured into graphs, the GPUs of neighbours map each other's memory. The memory of
  /// `blocks`, and `stream`, outlive the halo.
  gpu_halo(MPI_Comm comm, const halo_shape& shape, const framed_pair& blocks, gpu_halo_way way,
           const apps::Stream& stream);

  /// Puts an exchange of the frame of `block` into the stream, behind what is there. A series begins with the first
  /// block. Where hosts take part (staged, traditional) it blocks until what was received is being unpacked; the others
  /// return at once, and may be captured into a graph.
  void exchange(const framed_block& block, halo_place place);
  /// Blocks until the stream has ended. Throws what went wrong in it.
  void finish();

  /// One way of exchanging; they are made in mpi.cpp and partita.cpp.
  class exchanger;

 private:
  gpu_halo(MPI_Comm comm, std::unique_ptr<exchanger> made);

  exchanger& exchanger_;  ///< halo_'s
  framed_halo halo_;
};

class gpu_halo::exchanger : public framed_halo::exchanger {
 public:
  explicit exchanger(const apps::Stream& stream) : stream_(stream) {}

  void set_place(halo_place place) { place_ = place; }
  virtual void finish() { stream_.synchronise(); }

 protected:
  const apps::Stream& stream() const { return stream_; }
  halo_place place() const { return place_; }
  void pack(const halo_messages& messages, const framed_block& block) const;
  void unpack(const halo_messages& messages, const framed_block& block) const;

 private:
  const apps::Stream& stream_;
  halo_place place_;
};

/// Memory of GPUs, and page-locked memory of the host, for halo_messages.
halo_memory memory_of_gpu();
halo_memory memory_of_host();

std::unique_ptr<gpu_halo::exchanger> make_staged_gpu_halo(MPI_Comm comm, const halo_shape& shape,
                                                          const apps::Stream& stream);
std::unique_ptr<gpu_halo::exchanger> make_traditional_gpu_halo(MPI_Comm comm, const halo_shape& shape,
                                                               const apps::Stream& stream);
std::unique_ptr<gpu_halo::exchanger> make_queue_gpu_halo(MPI_Comm comm, const halo_shape& shape,
                                                         const framed_pair& blocks, halo_sends sends,
                                                         const apps::Stream& stream);
std::unique_ptr<gpu_halo::exchanger> make_in_kernel_gpu_halo(MPI_Comm comm, const halo_shape& shape,
                                                             const apps::Stream& stream);

}  // namespace partita
