#include "link/hold_board.hpp"

#include <algorithm>
#include <cstddef>

namespace partita::link {
namespace {

constexpr std::size_t line_bytes = 64;
constexpr int half_bits = HoldBoard::bits / 2;

/// What the receiver counts has a line of its own. All that the sender writes lies together, in one line where there
/// are few partitions: a look takes no more than that from who marks.
struct Head {
  alignas(line_bytes) std::atomic<std::int32_t> fetched;
  alignas(line_bytes) std::atomic<Epoch> holding;
};

constexpr std::size_t first_word = offsetof(Head, holding) + sizeof(std::uint64_t);

Head& head(std::byte* block) {
  return *reinterpret_cast<Head*>(block);
}

std::size_t words(std::int32_t partitions) {
  return (static_cast<std::size_t>(partitions) + HoldBoard::bits - 1) / HoldBoard::bits;
}

std::atomic<std::uint64_t>* words_behind_head(std::byte* block) {
  return reinterpret_cast<std::atomic<std::uint64_t>*>(block + first_word);
}

std::uint64_t tagged(Epoch epoch, std::uint64_t bits) {
  return std::uint64_t{epoch} << half_bits | bits;
}

Epoch tag_of(std::uint64_t word) {
  return static_cast<Epoch>(word >> half_bits);
}

constexpr std::uint64_t low_half = 0xffffffffU;

/// The lowest `count` bits, 1 to all.
std::uint64_t lowest(std::int64_t count) {
  return ~std::uint64_t{0} >> (HoldBoard::bits - count);
}

}  // namespace

std::size_t HoldBoard::size_bytes(std::int32_t partitions) {
  // Both halves of a word of transport partitions exist, also where the last is not used.
  const std::size_t used = first_word + (1 + 2) * words(partitions) * sizeof(std::uint64_t);
  return (used + line_bytes - 1) / line_bytes * line_bytes;
}

std::atomic<std::uint64_t>* HoldBoard::complete_bits() const {
  return words_behind_head(block_);
}

std::atomic<std::uint64_t>& HoldBoard::left_word(std::int64_t half) const {
  return words_behind_head(block_)[words(partitions_) + static_cast<std::size_t>(half)];
}

void HoldBoard::begin(Epoch epoch) const {
  const auto halves = static_cast<std::int64_t>(2 * words(partitions_));
  for (std::int64_t half = 0; half < halves; ++half) {
    left_word(half).store(tagged(epoch, 0), std::memory_order_relaxed);
  }
  // Mostly it is: its line stays shared, then.
  if (fetched() != 0) head(block_).fetched.store(0, std::memory_order_relaxed);
  head(block_).holding.store(epoch, std::memory_order_release);
}

void HoldBoard::end() const {
  // Before the program writes the buffer again: who has read of that finds this.
  head(block_).holding.exchange(no_epoch, std::memory_order_seq_cst);
}

bool HoldBoard::holds(Epoch epoch) const {
  return head(block_).holding.load(std::memory_order_acquire) == epoch;
}

bool HoldBoard::still_holds(Epoch epoch) const {
  return head(block_).holding.fetch_or(0, std::memory_order_acq_rel) == epoch;
}

std::int32_t HoldBoard::fetched() const {
  return head(block_).fetched.load(std::memory_order_acquire);
}

void HoldBoard::count_fetched(std::int32_t count) const {
  head(block_).fetched.fetch_add(count, std::memory_order_release);
}

std::uint64_t HoldBoard::left_of(std::int64_t half, Epoch epoch) const {
  const std::uint64_t word = left_word(half).load(std::memory_order_acquire);
  return tag_of(word) == epoch ? word & low_half : low_half;
}

std::uint64_t HoldBoard::left(std::int64_t first, Epoch epoch) const {
  const std::int64_t half = first / half_bits;
  return left_of(half, epoch) | left_of(half + 1, epoch) << half_bits;
}

std::uint64_t HoldBoard::claim(std::int64_t first, std::uint64_t wanted, Epoch epoch) const {
  std::uint64_t claimed = 0;
  for (int upper = 0; upper < 2; ++upper) {
    const std::uint64_t wish = wanted >> (upper * half_bits) & low_half;
    if (wish == 0) continue;
    std::atomic<std::uint64_t>& word = left_word(first / half_bits + upper);
    std::uint64_t before = word.load(std::memory_order_relaxed);
    while (tag_of(before) == epoch &&
           !word.compare_exchange_weak(before, before | wish, std::memory_order_acq_rel, std::memory_order_relaxed)) {
    }
    if (tag_of(before) == epoch) claimed |= (wish & ~before) << (upper * half_bits);
  }
  return claimed;
}

bool HoldBoard::is_complete(Range send_partitions) const {
  for (std::int64_t p = send_partitions.begin; p < send_partitions.end;) {
    const std::int64_t end = std::min(send_partitions.end, p / bits * bits + bits);
    const std::uint64_t mask = lowest(end - p) << (p % bits);
    if ((complete_bits()[p / bits].load(std::memory_order_acquire) & mask) != mask) return false;
    p = end;
  }
  return true;
}

std::uint64_t HoldBoard::held(const Plan& plan, std::int64_t first, Epoch epoch) const {
  const std::int64_t end = std::min<std::int64_t>(first + bits, plan.transport_partitions());
  const std::uint64_t left = this->left(first, epoch);
  if (plan.transport_partitions() == plan.send_partitions()) {
    return complete_bits()[first / bits].load(std::memory_order_acquire) & ~left & lowest(end - first);
  }
  std::uint64_t held = 0;
  for (std::int64_t t = first; t < end; ++t) {
    const std::uint64_t bit = std::uint64_t{1} << (t - first);
    if ((left & bit) == 0 && is_complete(plan.send_run(t))) held |= bit;
  }
  return held;
}

}  // namespace partita::link
