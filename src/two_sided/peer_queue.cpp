#include "two_sided/peer_queue.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

#include "core/current_error.hpp"
#include "core/insist.hpp"

namespace partita {

PeerQueue::PeerQueue(Progress& progress, OwnComms& own_comms, PeerBoard& board, const Communicator& communicator)
    : progress_(progress), own_comms_(own_comms), board_(board), own_(communicator) {}

/// Requests outlive the program's handle of the communicator, and it the queue: no call is in it. The others wait for
/// what this rank has not told yet.
PeerQueue::~PeerQueue() {
  progress_.dismiss(*this);
  for (const Entry& each : queue_) says_no(each);
  own_comms_.leave(own_);
}

void PeerQueue::add(PeerQueueEntry& call) {
  push({&call});
}

/// The others wait for it.
void PeerQueue::add_no() {
  insist([&] { push({}); });
}

void PeerQueue::push(Entry entry) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(entry);
    calls_.store(queue_.size(), std::memory_order_release);
  }
  progress_.activate(*this);
}

void PeerQueue::pop() {
  queue_.pop_front();
  calls_.store(queue_.size(), std::memory_order_release);
}

/// No call that comes behind it may be taken for it: its ranks may be about to agree.
void PeerQueue::end_calls(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  const auto last =
      std::find_if(queue_.rbegin(), queue_.rend(), [](const Entry& each) { return each.call == nullptr; });
  if (last != queue_.rend()) {
    last->ends_calls = true;
  } else {
    board_.end_calls(std::max(number, last_no_));
  }
}

std::optional<PeerQueue::Entry> PeerQueue::first() {
  const std::lock_guard lock(mutex_);
  return queue_.empty() ? std::nullopt : std::optional(queue_.front());
}

/// A call may end, and its request go, once it has left.
ActiveStep::Outcome PeerQueue::step() noexcept {
  bool has_moved = false;
  for (auto entry = first(); entry; entry = first()) {
    if (!takes(*entry)) return has_moved ? Outcome::moved : Outcome::waiting;
    has_moved = true;
  }
  return Outcome::idle;
}

/// Whether it has left the queue.
bool PeerQueue::takes(Entry first) noexcept {
  if (first.call != nullptr) {
    try {
      if (failure_) throw Error(*failure_);
      if (!first.call->step(board_, comm())) return false;
    } catch (const std::exception&) {
      first.call->fail_in_queue(current_error());
      fail();
    }
  }
  {
    const std::lock_guard lock(mutex_);
    if (first.call == nullptr) says_no(queue_.front());
    pop();
  }
  if (first.call != nullptr) first.call->leave_queue();
  return true;
}

void PeerQueue::says_no(Entry entry) {
  board_.begin();
  last_no_ = board_.call();
  if (entry.ends_calls) board_.end_calls(last_no_);
  board_.leave();
}

/// The others may be in a call that this rank has not made: no later one would meet theirs.
void PeerQueue::fail() noexcept {
  if (failure_) return;
  failure_ = current_error();
  board_.give_up();
}

void PeerQueue::give_up(PeerQueueEntry& call) noexcept {
  give_up();
  const std::lock_guard lock(mutex_);
  std::erase_if(queue_, [&](const Entry& each) { return each.call == &call; });
  calls_.store(queue_.size(), std::memory_order_release);
}

void PeerQueue::give_up() noexcept {
  try {
    if (!failure_) failure_ = Error(ErrorClass::other, "this rank has given up an earlier one on the communicator");
  } catch (const std::bad_alloc&) {
    failure_ = out_of_memory(ErrorClass::other);
  }
  board_.give_up();
}

void PeerQueue::check() const {
  if (failure_)
    throw Error(ErrorClass::other, "an earlier collective on the communicator has failed: {}", failure_->sentence());
}

std::string PeerQueue::explain(const PeerQueueEntry& call) const {
  const std::lock_guard lock(mutex_);
  if (!queue_.empty() && queue_.front().call == &call) return call.explain_first();
  return fmt::format("{} on GPU memory waits for a call on its communicator that was made before it: {}", call.name(),
                     first_explains());
}

std::string PeerQueue::explain_first() const {
  const std::lock_guard lock(mutex_);
  return first_explains();
}

std::string PeerQueue::first_explains() const {
  if (queue_.empty()) return "it is about to end";
  const PeerQueueEntry* const first = queue_.front().call;
  return first != nullptr ? first->explain_first() : "this rank is about to leave it to the MPI";
}

int PeerQueue::waits_for() const {
  const std::lock_guard lock(mutex_);
  return queue_.empty() || queue_.front().call == nullptr ? -1 : queue_.front().call->first_waits_for();
}

}  // namespace partita
