#include "two_sided/peer_queue.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/current_error.hpp"
#include "core/insist.hpp"
#include "core/mpi_check.hpp"

namespace partita {

PeerQueue::PeerQueue(const PeerServices& services, PeerReasons& reasons, MadeBoard& made, MPI_Comm comm,
                     const std::vector<int>& members, int rank)
    : services_(services),
      progress_(services.requests.progress),
      left_comms_(services.left_comms),
      reasons_(reasons),
      made_(made),
      members_(members),
      rank_(rank),
      duplicate_(std::make_unique<Duplicate>()) {
  left_comms_.sweep();
  PARTITA_MPI(Comm_idup(comm, &duplicate_->comm, &duplicate_->request));
}

/// Communicators outlive those that make collectives on them. One that the MPI has not made yet stays to the end of the
/// process.
PeerQueue::~PeerQueue() {
  static std::atomic<Duplicate*> left{nullptr};
  progress_.dismiss(*this);
  if (duplicate_->request == MPI_REQUEST_NULL) {
    left_comms_.add(duplicate_->comm);
  } else {
    Duplicate* const begun = duplicate_.release();
    begun->next = left.exchange(begun);
  }
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

void PeerQueue::end_calls() {
  const std::lock_guard lock(mutex_);
  if (!queue_.empty() && queue_.back().call == nullptr) {
    queue_.back().ends_calls = true;
  } else if (made_.board != nullptr) {
    made_.board->end_calls(made_.board->call());
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
  try {
    if (failure_) throw Error(*failure_);
    if (!is_ready_ && !becomes_ready()) return false;
    if (first.call != nullptr && !first.call->step(made_.board.get(), duplicate_->comm)) return false;
  } catch (const std::exception&) {
    if (first.call != nullptr) first.call->fail_in_queue(current_error());
    if (!is_ready_) made_.failure = current_error();
    fail();
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
  PeerBoard* const board = made_.board.get();
  if (board == nullptr) return;
  board->begin();
  if (entry.ends_calls) board->end_calls(board->call());
  board->leave();
}

bool PeerQueue::becomes_ready() {
  if (duplicate_->request != MPI_REQUEST_NULL) {
    int ended = 0;
    PARTITA_MPI(Test(&duplicate_->request, &ended, MPI_STATUS_IGNORE));
    if (ended == 0) return false;
    // The program's handler hears of an error from whoever completes the request.
    PARTITA_MPI(Comm_set_errhandler(duplicate_->comm, MPI_ERRORS_RETURN));
  }
  if (!made_.has_tried) {
    if (making_ == nullptr) making_ = std::make_unique<BoardMaking>(services_, members_, rank_);
    if (!making_->step(duplicate_->comm)) return false;
    made_.board = making_->take();
    made_.has_tried = true;
    reasons_.tell("a collective", making_->why_not());
    making_ = nullptr;
  }
  is_ready_ = true;
  return true;
}

/// The others may be in a call that this rank has not made: no later one would meet theirs.
void PeerQueue::fail() noexcept {
  if (failure_) return;
  failure_ = current_error();
  if (made_.board != nullptr) made_.board->give_up();
}

void PeerQueue::give_up(PeerQueueEntry& call) noexcept {
  give_up();
  const std::lock_guard lock(mutex_);
  std::erase_if(queue_, [&](const Entry& each) { return each.call == &call; });
  calls_.store(queue_.size(), std::memory_order_release);
}

void PeerQueue::give_up() noexcept {
  if (!failure_) failure_ = Error(ErrorClass::other, "this rank has given up an earlier one on the communicator");
  if (!is_ready_) made_.failure = failure_;
  if (made_.board != nullptr) made_.board->give_up();
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
