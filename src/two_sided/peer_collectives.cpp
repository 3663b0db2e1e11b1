#include "two_sided/peer_collectives.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "core/current_error.hpp"
#include "core/mpi_check.hpp"
#include "two_sided/peer_board_making.hpp"
#include "two_sided/peer_move.hpp"
#include "two_sided/peer_ranks.hpp"
#include "two_sided/peer_reduce.hpp"

namespace partita {
namespace {

/// A blocking call behind nonblocking ones.
class BehindQueue final : public Waiting {
 public:
  explicit BehindQueue(const PeerQueue& queue) : queue_(queue) {}
  std::string explain() const override {
    return "a collective waits for the nonblocking ones before it: " + queue_.explain_first();
  }
  int waits_for() const override { return queue_.waits_for(); }

 private:
  const PeerQueue& queue_;
};

void check_failure(const PeerPlace& place) {
  if (!place.failure) return;
  throw Error(ErrorClass::other, "an earlier collective on the communicator has failed: {}", place.failure->sentence());
}

/// Whether nonblocking calls are before the next one.
bool has_queue(const PeerPlace& place) {
  return place.queue != nullptr && !place.queue->is_empty();
}

void check_given_up(const PeerBoard& board) {
  if (const int rank = board.who_gave_up(); rank >= 0) {
    throw Error(ErrorClass::other, "rank {} of the communicator has given up a collective on it, after an error", rank);
  }
}

}  // namespace

PeerCollectives::Begun PeerCollectives::begin(Communicator& communicator) {
  if (!services_.sizes) return Begun::none;
  PeerPlace& place = opened(communicator);
  if (!has_queue(place)) {
    check_failure(place);
    if (!place.has_tried) {
      try {
        place.board = make_board(communicator);
        place.has_tried = true;
      } catch (const std::exception&) {
        place.failure = current_error();
        throw;
      }
    }
    if (place.board == nullptr) return Begun::none;
    check_given_up(*place.board);
    if (place.board->have_calls_ended(place.board->call() + 1)) return Begun::none;
  }
  if (services_.requests.device_memory.in_use()) return Begun::may_ask;
  leave(communicator);
  return Begun::left;
}

void PeerCollectives::leave(Communicator& communicator) {
  const PeerPlace& place = place_of(communicator);
  if (has_queue(place)) return place.queue->add_no();
  place.board->begin();
  place.board->leave();
}

void PeerCollectives::end_calls(Communicator& communicator) {
  const PeerPlace& place = place_of(communicator);
  if (place.queue != nullptr) return place.queue->end_calls();
  place.board->end_calls(place.board->call());
}

/// Who does not wait any longer must not be in a later call than the others.
void PeerCollectives::await_queue(PeerQueue& queue) {
  try {
    services_.wait_until(BehindQueue(queue), [&] { return queue.is_empty(); });
  } catch (const std::exception&) {
    const auto exclusive = services_.requests.progress.exclusive();
    queue.give_up();
    throw;
  }
}

template <class Call, class Description>
bool PeerCollectives::made(Communicator& communicator, const Description& description) {
  const PeerPlace& place = place_of(communicator);
  if (has_queue(place)) {
    await_queue(*place.queue);
    check_failure(place);
    if (place.board == nullptr) return false;
    check_given_up(*place.board);
    if (place.board->have_calls_ended(place.board->call() + 1)) return false;
  }
  PeerBoard& board = *place.board;
  board.begin();
  const PeerContext context{services_,  mappings_, communicator, communicator.members(services_.requests.world),
                            place.rank, &board,    times_,       true};
  Call call(context, description);
  if (call.make()) return true;
  reasons_.tell(description.call, call.why_not());
  return false;
}

bool PeerCollectives::make(Communicator& communicator, const PeerParts& parts) {
  return made<PeerMove>(communicator, parts);
}

bool PeerCollectives::make(Communicator& communicator, const PeerShares& shares) {
  return made<PeerReduce>(communicator, shares);
}

bool PeerCollectives::may_queue(Communicator& communicator) {
  if (!services_.sizes) return false;
  const PeerPlace& place = opened(communicator);
  if (place.queue != nullptr || place.failure) return true;
  return place.has_tried ? place.board != nullptr : are_near(communicator);
}

/// What is wrong behind calls that are in the queue, the request will say.
PeerQueue& PeerCollectives::queue_of(const std::shared_ptr<Communicator>& communicator) {
  PeerPlace& place = place_of(*communicator);
  if (!has_queue(place)) {
    check_failure(place);
    if (place.queue != nullptr) place.queue->check();
    if (place.board != nullptr) check_given_up(*place.board);
  }
  if (place.queue == nullptr) {
    place.queue = std::make_unique<PeerQueue>(services_, reasons_, place, communicator->handle,
                                              communicator->members(services_.requests.world), place.rank);
  }
  return *place.queue;
}

void PeerCollectives::count(Communicator& communicator) {
  PeerBoard* const board = place_of(communicator).board.get();
  if (board == nullptr) return;
  board->begin();
  board->leave();
}

std::unique_ptr<PeerRequest> PeerCollectives::request_on(std::shared_ptr<Communicator> communicator) {
  const int rank = place_of(*communicator).rank;
  return std::make_unique<PeerRequest>(PeerRequest::Site{services_, mappings_, reasons_, rank},
                                       std::move(communicator));
}

PeerPlace& PeerCollectives::opened(Communicator& communicator) const {
  if (communicator.part == nullptr) {
    const World& world = services_.requests.world;
    const std::vector<int>& members = communicator.members(world);
    communicator.part = std::make_unique<PeerPlace>(
        static_cast<int>(members.size()), static_cast<int>(std::ranges::find(members, world.rank()) - members.begin()));
  }
  return place_of(communicator);
}

/// Whether all ranks are of this node, and not too many.
bool PeerCollectives::are_near(Communicator& communicator) const {
  const World& world = services_.requests.world;
  int is_inter = 0;
  PARTITA_MPI(Comm_test_inter(communicator.handle, &is_inter));
  const std::vector<int>& members = communicator.members(world);
  return is_inter == 0 && members.size() <= most_peer_ranks && std::ranges::all_of(members, [&](int world_rank) {
           return world_rank != MPI_UNDEFINED && world.on_my_node(world_rank);
         });
}

std::unique_ptr<PeerBoard> PeerCollectives::make_board(Communicator& communicator) {
  if (!are_near(communicator)) return nullptr;
  BoardMaking making(services_, communicator.members(services_.requests.world), place_of(communicator).rank);
  services_.wait_until(making, [&] { return making.step(communicator.handle); });
  reasons_.tell("a collective", making.why_not());
  return making.take();
}

}  // namespace partita
