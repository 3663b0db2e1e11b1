#include "apps/halo/halo.hpp"

#include <exception>
#include <partita/partita.hpp>
#include <utility>

#include "apps/halo/messages.hpp"

namespace partita {
namespace {

std::unique_ptr<framed_halo::exchanger> make_exchanger(MPI_Comm comm, const halo_shape& shape,
                                                       const framed_pair& blocks, halo_way way) {
  switch (way) {
    case halo_way::traditional:
      return make_traditional_halo(comm, shape);
    case halo_way::queue_regular:
      return make_queue_halo(comm, shape, blocks, halo_sends::regular);
    case halo_way::queue_ready:
      return make_queue_halo(comm, shape, blocks, halo_sends::ready);
    case halo_way::partitioned:
      return make_partitioned_halo(comm, shape);
  }
  return {};
}

}  // namespace

framed_halo::framed_halo(MPI_Comm comm, const halo_shape& shape, const framed_pair& blocks, halo_way way)
    : framed_halo(comm, make_exchanger(comm, shape, blocks, way)) {}

framed_halo::framed_halo(MPI_Comm comm, std::unique_ptr<exchanger> way)
    : comm_(comm), exceptions_before_(std::uncaught_exceptions()), exchanger_(std::move(way)) {}

framed_halo::~framed_halo() {
  if (!sound_ || std::uncaught_exceptions() > exceptions_before_) {
    exchanger_->leave();
    return;
  }
  try {
    exchanger_->free_requests();
    check(MPI_Barrier(comm_));
    exchanger_->free_memory();
  } catch (const error&) {  // the error handler has heard, and the memory stays
  }
}

void framed_halo::exchange(const framed_block& block) {
  sound_ = false;
  exchanger_->exchange(block);
  sound_ = true;
}

}  // namespace partita
