#include "link/direct/fetching.hpp"

#include <bit>
#include <utility>

#include "core/error.hpp"

namespace partita::link::direct {
namespace {

/// Taken by one thread at most, until its end.
class Turn {
 public:
  explicit Turn(std::atomic<bool>& taken) : taken_(taken), mine_(!taken.exchange(true, std::memory_order_acquire)) {}
  ~Turn() {
    if (mine_) taken_.store(false, std::memory_order_release);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  bool mine() const { return mine_; }

 private:
  std::atomic<bool>& taken_;
  bool mine_;
};

}  // namespace

Fetching::Fetching(const Plan& plan, HoldBoard board, int rank, const ReachProbe& probe, std::uint64_t data,
                   std::array<std::byte*, 2> landings)
    : plan_(plan),
      board_(board),
      rank_(rank),
      probe_(probe),
      data_(data),
      landings_(landings),
      fetched_(static_cast<std::size_t>(plan.transport_partitions())) {
  for (auto& epoch : fetched_) epoch.store(no_epoch, std::memory_order_relaxed);
}

/// Numbers of epochs come again. Twice in 2^32 of them all is forgotten, so that none is taken for the one before.
void Fetching::open(Epoch epoch) {
  if (((epoch ^ open_) >> 31) != 0) {
    for (auto& last : fetched_) last.store(no_epoch, std::memory_order_relaxed);
  }
  open_ = epoch;
  waited_epoch_.store(no_epoch, std::memory_order_relaxed);
}

/// Any of several threads may set the time, and the poll of one may not be counted.
bool Fetching::wait_is_long(Epoch epoch) {
  if (waited_epoch_.load(std::memory_order_relaxed) != epoch) {
    waited_since_.store(0, std::memory_order_relaxed);
    polls_.store(0, std::memory_order_relaxed);
    waited_epoch_.store(epoch, std::memory_order_relaxed);
  }
  const std::uint32_t polls = polls_.load(std::memory_order_relaxed) + 1;
  polls_.store(polls, std::memory_order_relaxed);
  if (polls % polls_each_clock != 0) return false;
  const Clock::rep now = Clock::now().time_since_epoch().count();
  const Clock::rep since = waited_since_.load(std::memory_order_relaxed);
  if (since == 0) waited_since_.store(now, std::memory_order_relaxed);
  return since != 0 && now - since >= Clock::duration(left_alone).count();
}

void Fetching::look(std::int32_t t, Epoch epoch, Arrivals& arrivals) {
  if (looking_.load(std::memory_order_relaxed)) return;
  const Turn turn(looking_);
  if (!turn.mine()) return;
  if (failure_ != nullptr) std::rethrow_exception(failure_);
  const auto now = Clock::now();
  if (now - last_look_ < between_looks) return;
  const bool looks_seldom = now - last_look_ > seldom;
  const std::uint64_t waiting = what_waits(epoch);
  const bool too_long = waits_too_long(waiting, epoch, now) ||
                        (looks_seldom && waiting != 0 && outlasts_patience(waiting, t, epoch, arrivals));
  if (too_long) fetch(epoch);
  last_look_ = Clock::now();
}

/// Whether `waiting` still waits when that has been too long. For a caller that may not come again soon.
bool Fetching::outlasts_patience(std::uint64_t waiting, std::int32_t t, Epoch epoch, Arrivals& arrivals) const {
  const auto end = Clock::now() + patience;
  while (Clock::now() < end) {
    if (arrivals.arrived(t, epoch)) return false;
  }
  return what_waits(epoch) == waiting;
}

/// As a number.
std::uint64_t Fetching::what_waits(Epoch epoch) const {
  return number_of_waiting(plan_.transport_partitions(),
                           [&](std::int64_t first) { return board_.held(plan_, first, epoch); });
}

bool Fetching::waits_too_long(std::uint64_t waiting, Epoch epoch, Clock::time_point now) {
  const bool nothing_before = seen_ == 0 || seen_epoch_ != epoch;
  if (nothing_before) waiting_since_ = now;
  if (nothing_before || seen_ != waiting) seen_since_ = now;
  seen_ = waiting;
  seen_epoch_ = epoch;
  return waiting != 0 && (now - seen_since_ >= patience || now - waiting_since_ >= longest_wait);
}

/// Some of what waits. The rest, if nothing joins it, goes at the next look.
void Fetching::fetch(Epoch epoch) {
  if (sender_ == nullptr) sender_ = remote_process(rank_, probe_);
  std::int64_t left_bytes = bytes_a_look;
  for (std::int64_t first = 0; left_bytes > 0 && first < plan_.transport_partitions(); first += HoldBoard::bits) {
    std::uint64_t wanted = 0;
    for (std::uint64_t held = board_.held(plan_, first, epoch); left_bytes > 0 && held != 0; held &= held - 1) {
      wanted |= held & (0 - held);
      left_bytes -= plan_.bytes(first + std::countr_zero(held)).size();
    }
    std::uint64_t claimed = wanted == 0 ? 0 : board_.claim(first, wanted, epoch);
    while (claimed != 0) {
      const int begin = std::countr_zero(claimed);
      const int end = begin + std::countr_one(claimed >> begin);
      claimed &= end == HoldBoard::bits ? 0 : ~std::uint64_t{0} << end;
      fetch_run({first + begin, first + end}, epoch);
    }
  }
  seen_ = what_waits(epoch);
}

/// The caller has claimed these.
void Fetching::fetch_run(Range run, Epoch epoch) {
  std::byte* const landing = landings_[epoch % 2];
  const Range bytes = bytes_of(plan_, run);
  try {
    if (bytes.size() > 0 && !sender_->read(data_ + static_cast<std::uint64_t>(bytes.begin), landing + bytes.begin,
                                           static_cast<std::size_t>(bytes.size()))) {
      return;
    }
  } catch (const Error&) {
    if (!board_.holds(epoch)) return;  // given up: its memory may be gone
    failure_ = std::current_exception();
    throw;
  }
  // Where the epoch was given up meanwhile, the bytes may be those that the program wrote after that.
  if (!board_.still_holds(epoch)) return;
  for (std::int64_t t = run.begin; t < run.end; ++t) {
    fetched_[static_cast<std::size_t>(t)].store(epoch, std::memory_order_release);
  }
  board_.count_fetched(static_cast<std::int32_t>(run.size()));
}

}  // namespace partita::link::direct
