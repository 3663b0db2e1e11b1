// The ways in which the ranks exchange the blocks of a hop; each is a class of one file, and they share everything
// else.
#pragma once

#include <mpi.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "apps/fft/work.hpp"

namespace fft {

/// Moves the blocks of one hop, again and again. In each round the calls are, in this order: start, packed for each
/// slice in turn, await for each slice in turn, finish.
class Exchange {
 public:
  virtual ~Exchange() = default;
  /// The buffer of what is received may be overwritten from now on.
  virtual void start() = 0;
  /// This slice of all blocks lies in the buffer of what is sent.
  virtual void packed(int slice) = 0;
  /// When it returns this slice of all blocks lies in the buffer of what is received.
  virtual void await(int slice) = 0;
  /// When it returns the buffer of what is sent may be overwritten.
  virtual void finish() = 0;
  /// The links over which the blocks go, as Partita writes them ("direct, mpi"), behind the first round; empty where
  /// none is known.
  virtual std::string links() const { return {}; }
};

/// How the blocks of the exchange `name`, or of its staged twin, lie in the buffers. Throws std::logic_error where
/// there is none of this name.
Spacing spacing_of(std::string_view name);

/// Makes the exchange of a hop among its peers, whose ranks in `peers` are their numbers. Collective over `peers`.
using ExchangeMaker = std::function<std::unique_ptr<Exchange>(MPI_Comm peers, const Hop& hop, const Buffers& buffers)>;
/// That of the exchange `name`.
ExchangeMaker exchange_maker(std::string_view name);

/// All blocks at once, when the last slice is packed: MPI_Alltoall (mpi.cpp).
std::unique_ptr<Exchange> exchange_by_alltoall(MPI_Comm peers, const Hop& hop, const Buffers& buffers);
/// MPI_Alltoallv (mpi.cpp).
std::unique_ptr<Exchange> exchange_by_alltoallv(MPI_Comm peers, const Hop& hop, const Buffers& buffers);
/// Slice by slice, while the next ones are transformed and packed: MPIX_Palltoallv_init (partita.cpp).
std::unique_ptr<Exchange> exchange_by_partitions(MPI_Comm peers, const Hop& hop, const Buffers& buffers);
/// The same over link mpi, which moves GPU memory through host memory.
std::unique_ptr<Exchange> exchange_by_partitions_staged(MPI_Comm peers, const Hop& hop, const Buffers& buffers);

/// What `make` makes on a communicator of `peers` that Partita does not know, and which is freed with it: no collective
/// of the MPI's on it goes by peer memory (staged.cpp). Collective over `peers`.
std::unique_ptr<Exchange> exchange_on_unknown_peers(
    MPI_Comm peers, const std::function<std::unique_ptr<Exchange>(MPI_Comm unknown_peers)>& make);

}  // namespace fft
