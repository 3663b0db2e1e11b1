#include "apps/halo/halo.hpp"

#include "apps/halo/messages.hpp"

namespace partita {
namespace {

std::unique_ptr<halo::exchanger> make_exchanger(MPI_Comm comm, const halo_shape& shape, halo_way way) {
  switch (way) {
    case halo_way::traditional:
      return make_traditional_halo(comm, shape);
    case halo_way::queue_regular:
      return make_queue_halo(comm, shape);
    case halo_way::queue_ready:
      return make_ready_queue_halo(comm, shape);
    case halo_way::partitioned:
      return make_partitioned_halo(comm, shape);
  }
  return {};
}

}  // namespace

halo::halo(MPI_Comm comm, const halo_shape& shape, halo_way way) : exchanger_(make_exchanger(comm, shape, way)) {}
halo::~halo() = default;

void halo::exchange(const halo_block& block) {
  exchanger_->exchange(block);
}

}  // namespace partita
