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

Fetching::Fetching(const Plan& plan, HoldBoard board, int rank, const ReachProbe& probe, std::uint64_t data)
    : plan_(plan),
      board_(board),
      rank_(rank),
      probe_(probe),
      data_(data),
      fetched_(static_cast<std::size_t>(plan.transport_partitions())) {
  for (auto& epoch : fetched_) epoch.store(no_epoch, std::memory_order_relaxed);
}

void Fetching::look(Epoch epoch, std::byte* landing) {
  const Turn turn(looking_);
  if (!turn.mine()) return;
  const auto now = Clock::now();
  if (now < next_look_) return;
  next_look_ = now + between_looks;
  const std::uint64_t waiting = what_waits(epoch);
  if (waits_too_long(waiting, epoch, now)) fetch(epoch, landing);
}

/// A number that tells one set of waiting partitions from another; 0: none.
std::uint64_t Fetching::what_waits(Epoch epoch) const {
  std::uint64_t mixed = 0;
  for (std::int64_t first = 0; first < plan_.transport_partitions(); first += HoldBoard::bits) {
    const std::uint64_t held = board_.held(plan_, first, epoch);
    if (held != 0) mixed = (mixed ^ (held + static_cast<std::uint64_t>(first))) * 0x9e3779b97f4a7c15U | 1;
  }
  return mixed;
}

bool Fetching::waits_too_long(std::uint64_t waiting, Epoch epoch, Clock::time_point now) {
  const bool nothing_before = seen_ == 0 || seen_epoch_ != epoch;
  if (nothing_before) waiting_since_ = now;
  if (nothing_before || seen_ != waiting) seen_since_ = now;
  seen_ = waiting;
  seen_epoch_ = epoch;
  return waiting != 0 && (now - seen_since_ >= patience || now - waiting_since_ >= longest_wait);
}

void Fetching::fetch(Epoch epoch, std::byte* landing) {
  seen_ = 0;
  if (sender_ == nullptr) sender_ = remote_process(rank_, probe_);
  for (std::int64_t first = 0; first < plan_.transport_partitions(); first += HoldBoard::bits) {
    const std::uint64_t wanted = board_.held(plan_, first, epoch);
    std::uint64_t claimed = wanted == 0 ? 0 : board_.claim(first, wanted, epoch);
    while (claimed != 0) {
      const int begin = std::countr_zero(claimed);
      const int size = std::countr_one(claimed >> begin);
      claimed &= begin + size == HoldBoard::bits ? 0 : ~std::uint64_t{0} << (begin + size);
      fetch_run({first + begin, first + begin + size}, epoch, landing);
    }
  }
}

/// The caller has claimed these.
void Fetching::fetch_run(Range run, Epoch epoch, std::byte* landing) {
  const Range bytes = bytes_of(plan_, run);
  try {
    if (bytes.size() > 0 && !sender_->read(data_ + static_cast<std::uint64_t>(bytes.begin), landing + bytes.begin,
                                           static_cast<std::size_t>(bytes.size()))) {
      return;
    }
  } catch (const Error&) {
    if (!board_.holds(epoch)) return;  // given up: its memory may be gone
    throw;
  }
  // Of an epoch that was given up meanwhile, what was read may have been written since.
  std::atomic_thread_fence(std::memory_order_acquire);
  if (!board_.holds(epoch)) return;
  for (std::int64_t t = run.begin; t < run.end; ++t) {
    fetched_[static_cast<std::size_t>(t)].store(epoch, std::memory_order_release);
  }
  board_.count_fetched(static_cast<std::int32_t>(run.size()));
}

}  // namespace partita::link::direct
