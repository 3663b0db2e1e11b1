#include "apps/halo/turns.hpp"

#include <cstdint>
#include <stdexcept>

namespace partita {
namespace {

std::vector<halo_field> cells_of(const framed_block& block) {
  return {static_cast<std::uint64_t*>(block.frame)};
}

}  // namespace

turning_halos::turning_halos(MPI_Comm comm, const halo_shape& shape, const framed_pair& blocks, halo_sends sends)
    : first_frame_(blocks[0].frame), sends_(sends) {
  const halo_block<2> cells{{shape.rows, shape.columns}, 1, {blocks[0].stride, 1}};
  halos_.push_back(std::make_unique<halo<2>>(communicator(comm), cells, cells_of(blocks[0]), shape.neighbours));
  if (sends == halo_sends::ready) {
    halos_.push_back(std::make_unique<halo<2>>(*halos_.front(), cells_of(blocks[0]), sends));
  }
  halos_.push_back(std::make_unique<halo<2>>(*halos_.front(), cells_of(blocks[1]), sends));
}

void turning_halos::enqueue(queue& order, const framed_block& block, halo_place place) {
  const bool ready = sends_ == halo_sends::ready, first_block = block.frame == first_frame_;
  const std::size_t number = (first_block ? 0 : 1) + (ready && !place.first ? 1 : 0);
  halo<2>& own = *halos_[number];
  const bool started = &own == ahead_;
  if (ready && (place.first ? !first_block : !started)) throw std::logic_error("halo: it is the other block's turn.");
  ahead_ = ready && !place.last ? halos_[first_block ? 2 : 1].get() : nullptr;
  if (!started) own.enqueue_receives(order);
  if (ahead_ != nullptr) ahead_->enqueue_receives(order);
  own.enqueue_sends(order);
  own.enqueue_wait(order);
}

void turning_halos::enqueue_end(queue& order) {
  if (ahead_ == nullptr) return;
  ahead_->enqueue_sends(order);
  ahead_->enqueue_wait(order);
  ahead_ = nullptr;
}

void turning_halos::check_graphs() {
  for (const auto& each : halos_) each->check_graphs();
}

void turning_halos::leave() noexcept {
  for (const auto& each : halos_) each->leave();
}

}  // namespace partita
