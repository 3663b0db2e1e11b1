#include "link/direct/shared_copy.hpp"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "link/direct/remote_copy.hpp"

namespace partita::link {
namespace {

/// A look of the receiver's copies a chunk, so it is over soon. A chunk is a system call, whose own cost smaller chunks
/// would pay more often. Where a transfer is shorter than two of them the halves are worth a call each all the same.
constexpr std::int64_t longest_chunk_bytes = 128 * 1024;
constexpr std::int64_t shortest_chunk_bytes = 16 * 1024;
constexpr std::int64_t page_bytes = 4096;

/// The sender claims half of what is left: few system calls where the receiver does not look, and work enough for a
/// receiver that does.
constexpr std::int32_t senders_share = 2;

/// The receiver takes one chunk a look.
constexpr std::int32_t one_chunk = std::numeric_limits<std::int32_t>::max();

std::int32_t part_of(std::int32_t chunks, std::int32_t share) {
  return chunks / share + (chunks % share == 0 ? 0 : 1);
}

}  // namespace

static_assert(std::atomic_ref<CopyProgress::Word>::is_always_lock_free, "processes share the words");
static_assert(std::has_unique_object_representations_v<CopyProgress::Word>, "they are compared bit by bit");

bool worth_sharing(const Plan& plan) {
  return plan.total_bytes() / plan.transport_partitions() >= 2 * shortest_chunk_bytes;
}

Chunks::Chunks(std::int64_t size_bytes) : size_bytes_(size_bytes) {
  constexpr std::int64_t most_chunks = std::numeric_limits<std::uint16_t>::max();
  const std::int64_t half = (size_bytes / 2 + page_bytes - 1) / page_bytes * page_bytes;
  chunk_bytes_ = std::max(std::clamp(half, shortest_chunk_bytes, longest_chunk_bytes),
                          (size_bytes + most_chunks - 1) / most_chunks);
}

Range Chunks::bytes(Range chunks) const {
  return {chunks.begin * chunk_bytes_, std::min(chunks.end * chunk_bytes_, size_bytes_)};
}

void CopyProgress::offer(Epoch epoch, std::int32_t claimed) const {
  // Releases to the loads in claim. In one order with SharedPuts::given_up_: whoever gives the epoch up sees the offer,
  // or whoever offers sees that it was given up.
  word_.store({epoch, static_cast<std::uint16_t>(claimed), 0}, std::memory_order_seq_cst);
}

Range CopyProgress::claim(Epoch epoch, std::int32_t chunks, std::int32_t share) const {
  Word seen = word_.load(std::memory_order_acquire);
  while (seen.epoch == epoch && seen.claimed < chunks) {
    Word claimed = seen;
    claimed.claimed = static_cast<std::uint16_t>(seen.claimed + part_of(chunks - seen.claimed, share));
    if (word_.compare_exchange_weak(seen, claimed, std::memory_order_acq_rel, std::memory_order_acquire)) {
      return {seen.claimed, claimed.claimed};
    }
  }
  return {};
}

bool CopyProgress::add_copied(Epoch epoch, std::int32_t count) const {
  Word seen = word_.load(std::memory_order_relaxed);
  while (seen.epoch == epoch) {
    Word added = seen;
    added.copied = static_cast<std::uint16_t>(seen.copied + count);
    // Pairs with the load in complete, by way of the changes that follow in the word, and with revoke.
    if (word_.compare_exchange_weak(seen, added, std::memory_order_acq_rel, std::memory_order_relaxed)) return true;
  }
  return false;
}

std::int32_t CopyProgress::revoke(Epoch epoch, std::int32_t chunks) const {
  Word seen = word_.load(std::memory_order_seq_cst);  // in one order with offer
  while (seen.epoch == epoch && seen.copied < chunks) {
    // Pairs with add_copied: what is counted was read before.
    if (word_.compare_exchange_weak(seen, {no_epoch, 0, 0}, std::memory_order_acq_rel, std::memory_order_acquire)) {
      return chunks - seen.claimed;
    }
  }
  return 0;
}

bool CopyProgress::complete(Epoch epoch, std::int32_t chunks) const {
  const Word seen = word_.load(std::memory_order_acquire);
  return seen.epoch == epoch && seen.copied == chunks;
}

std::size_t CopyBoard::size_bytes(const Plan& plan) {
  return sizeof(std::uint64_t) + static_cast<std::size_t>(plan.transport_partitions()) * sizeof(CopyProgress::Word);
}

SharedPuts::SharedPuts(const Plan& plan, CopyBoard board, const std::byte* data, RemoteBytes receiver,
                       std::uint64_t& pulled)
    : plan_(plan), board_(board), data_(data), receiver_(std::move(receiver)), pulled_(pulled) {
  board_.sender_data() = reinterpret_cast<std::uint64_t>(data);
}

void SharedPuts::put(std::int32_t t, Epoch epoch) {
  const Range bytes = plan_.bytes(t);
  const Chunks chunks(bytes.size());
  const CopyProgress progress = board_.progress(t);
  const std::int32_t count = chunks.count();

  Range claimed{0, part_of(count, senders_share)};
  left_to_receiver_.fetch_add(static_cast<std::uint64_t>(count - claimed.size()), std::memory_order_relaxed);
  progress.offer(epoch, static_cast<std::int32_t>(claimed.size()));
  // As long as nothing of what was claimed here is counted, the copy cannot complete.
  if (given_up_.load(std::memory_order_seq_cst) == epoch) return take_back(t, epoch);
  std::int32_t copied = 0;
  while (claimed.size() > 0) {
    const Range part = chunks.bytes(claimed);
    const std::int64_t first = bytes.begin + part.begin;
    receiver_.process->write(receiver_.address + static_cast<std::uint64_t>(first), data_ + first,
                             static_cast<std::size_t>(part.size()));
    copied += static_cast<std::int32_t>(claimed.size());
    claimed = progress.claim(epoch, count, senders_share);
    left_to_receiver_.fetch_sub(static_cast<std::uint64_t>(claimed.size()), std::memory_order_relaxed);
  }
  progress.add_copied(epoch, copied);
}

bool SharedPuts::finished() const {
  // Pairs with the addition in SharedPulls::pull. Read before what it is compared with, which the puts raise first.
  const std::uint64_t pulled = std::atomic_ref(pulled_).load(std::memory_order_acquire);
  return left_to_receiver_.load(std::memory_order_relaxed) == pulled;
}

void SharedPuts::give_up(Epoch epoch) {
  given_up_.store(epoch, std::memory_order_seq_cst);
  for (std::int32_t t = 0; t < plan_.transport_partitions(); ++t) take_back(t, epoch);
}

/// Of transport partition `t`, if it was offered and is not copied yet. Several threads at once.
void SharedPuts::take_back(std::int32_t t, Epoch epoch) {
  const std::int32_t unclaimed = board_.progress(t).revoke(epoch, Chunks(plan_.bytes(t).size()).count());
  left_to_receiver_.fetch_sub(static_cast<std::uint64_t>(unclaimed), std::memory_order_relaxed);
}

SharedPulls::SharedPulls(const Plan& plan, CopyBoard board, std::byte* data, RemoteBytes sender, std::uint64_t& pulled)
    : plan_(plan), board_(board), data_(data), sender_(std::move(sender)), pulled_(pulled) {}

bool SharedPulls::arrived(std::int32_t t, Epoch epoch) {
  const Range bytes = plan_.bytes(t);
  const Chunks chunks(bytes.size());
  const CopyProgress progress = board_.progress(t);
  if (progress.complete(epoch, chunks.count())) return true;
  if (sender_gone_.load(std::memory_order_relaxed)) return false;

  const Range claimed = progress.claim(epoch, chunks.count(), one_chunk);
  if (claimed.size() == 0) return false;
  const Range part = chunks.bytes(claimed);
  return pull(t, {bytes.begin + part.begin, bytes.begin + part.end}, epoch) && progress.complete(epoch, chunks.count());
}

/// Copies the claimed chunk of `t` that is [bytes.begin, bytes.end) of the packed data; whether it counts.
bool SharedPulls::pull(std::int32_t t, Range bytes, Epoch epoch) {
  // Copied or not, the sender's bytes are not read any more; a failure is this side's alone. Pairs with the load in
  // SharedPuts::finished. The last touch of the sender's memory.
  const auto let_go = [this] { std::atomic_ref(pulled_).fetch_add(1, std::memory_order_release); };
  try {
    const bool counts = copy(bytes) && board_.progress(t).add_copied(epoch, 1);
    let_go();
    return counts;
  } catch (...) {
    let_go();
    throw;
  }
}

/// False if the sender's process has ended.
bool SharedPulls::copy(Range bytes) {
  const std::uint64_t from = board_.sender_data() + static_cast<std::uint64_t>(bytes.begin);
  const bool copied = sender_.process->read(from, data_ + bytes.begin, static_cast<std::size_t>(bytes.size()));
  if (!copied) sender_gone_.store(true, std::memory_order_relaxed);
  return copied;
}

}  // namespace partita::link
