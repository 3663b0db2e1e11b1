#include "link/direct/shared_copy.hpp"

#include <algorithm>
#include <limits>
#include <type_traits>

namespace partita::link::direct {
namespace {

/// A look of the receiver's copies a chunk, so it is over soon. A chunk is a system call, whose own cost smaller chunks
/// would pay more often. Where a run is shorter than two of them the halves are worth a call each all the same.
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

std::int64_t chunk_bytes_of(std::int64_t size_bytes) {
  if (!worth_sharing(size_bytes)) return std::max<std::int64_t>(size_bytes, 1);
  constexpr std::int64_t most_chunks = std::numeric_limits<std::uint16_t>::max();
  const std::int64_t half = (size_bytes / 2 + page_bytes - 1) / page_bytes * page_bytes;
  return std::max(std::min(half, longest_chunk_bytes), (size_bytes + most_chunks - 1) / most_chunks);
}

}  // namespace

static_assert(std::atomic_ref<CopyProgress::Word>::is_always_lock_free, "processes share the words");
static_assert(std::has_unique_object_representations_v<CopyProgress::Word>, "they are compared bit by bit");

bool worth_sharing(std::int64_t run_bytes) {
  return run_bytes >= 2 * shortest_chunk_bytes;
}

Chunks::Chunks(std::int64_t size_bytes) : size_bytes_(size_bytes), chunk_bytes_(chunk_bytes_of(size_bytes)) {}

Range Chunks::bytes(Range chunks) const {
  return {chunks.begin * chunk_bytes_, std::min(chunks.end * chunk_bytes_, size_bytes_)};
}

void CopyProgress::offer(Epoch epoch, std::int32_t chunks, std::int32_t claimed) const {
  // Releases to the loads in claim. In one order with SharedPuts::given_up_: whoever gives the epoch up sees the offer,
  // or whoever offers sees that it was given up.
  word_.store({epoch, static_cast<std::uint16_t>(chunks - claimed), static_cast<std::uint16_t>(chunks)},
              std::memory_order_seq_cst);
}

Range CopyProgress::claim(Epoch epoch, std::int32_t share) const {
  Word seen = word_.load(std::memory_order_acquire);
  while (seen.epoch == epoch && seen.unclaimed > 0) {
    Word claimed = seen;
    claimed.unclaimed = static_cast<std::uint16_t>(seen.unclaimed - part_of(seen.unclaimed, share));
    if (word_.compare_exchange_weak(seen, claimed, std::memory_order_acq_rel, std::memory_order_acquire)) {
      return {claimed.unclaimed, seen.unclaimed};
    }
  }
  return {};
}

bool CopyProgress::add_copied(Epoch epoch, std::int32_t count) const {
  Word seen = word_.load(std::memory_order_relaxed);
  while (seen.epoch == epoch) {
    Word added = seen;
    added.uncopied = static_cast<std::uint16_t>(seen.uncopied - count);
    // Pairs with the load in is_complete, by way of the changes that follow in the word, and with revoke.
    if (word_.compare_exchange_weak(seen, added, std::memory_order_acq_rel, std::memory_order_relaxed)) return true;
  }
  return false;
}

std::int32_t CopyProgress::revoke(Epoch epoch) const {
  Word seen = word_.load(std::memory_order_seq_cst);  // in one order with offer
  while (seen.epoch == epoch && seen.uncopied > 0) {
    // Pairs with add_copied: what is counted was read before.
    if (word_.compare_exchange_weak(seen, {no_epoch, 0, 0}, std::memory_order_acq_rel, std::memory_order_acquire)) {
      return seen.unclaimed;
    }
  }
  return 0;
}

bool CopyProgress::is_complete(Epoch epoch) const {
  const Word seen = word_.load(std::memory_order_acquire);
  return seen.epoch == epoch && seen.uncopied == 0;
}

std::size_t CopyBoard::size_bytes(const Plan& plan) {
  return sizeof(Head) + static_cast<std::size_t>(plan.transport_partitions()) * sizeof(Entry);
}

void CopyBoard::join(Range run, Epoch epoch) const {
  // Pair with the load in find: whoever comes by them to the first finds this epoch there.
  for (std::int64_t t = run.begin + 1; t < run.end; ++t) {
    place(t).store(word(epoch, run.begin), std::memory_order_release);
  }
}

void CopyBoard::arrive(Range run, Epoch epoch) const {
  // Pair with the load in find.
  for (std::int64_t t = run.begin; t < run.end; ++t) place(t).store(word(epoch, t), std::memory_order_release);
}

CopyBoard::Place CopyBoard::find(std::int32_t t, Epoch epoch) const {
  const std::uint64_t seen = place(t).load(std::memory_order_acquire);
  if (static_cast<Epoch>(seen >> 32) != epoch) return {};
  const auto other = static_cast<std::int32_t>(seen);
  return {true, other == t, std::min(other, t)};
}

Range CopyBoard::run_from(std::int64_t first, Epoch epoch) const {
  const std::uint64_t seen = place(first).load(std::memory_order_relaxed);
  if (static_cast<Epoch>(seen >> 32) != epoch) return {};
  return {first, static_cast<std::int32_t>(seen)};
}

SharedPuts::SharedPuts(const Plan& plan, const std::byte* data, CopyBoard board, RemoteBytes receiver,
                       std::uint64_t& pulled)
    : plan_(plan), data_(data), board_(board), receiver_(std::move(receiver)), pulled_(pulled) {
  board_.sender_data() = reinterpret_cast<std::uint64_t>(data);
}

void SharedPuts::put(Range run, Epoch epoch) {
  const Range bytes = bytes_of(plan_, run);
  const Chunks chunks(bytes.size());
  if (chunks.count() > 1) return share(run, bytes, chunks, epoch);
  receiver_.write(data_, bytes);
  board_.arrive(run, epoch);
}

void SharedPuts::share(Range run, Range bytes, const Chunks& chunks, Epoch epoch) {
  const CopyProgress progress = board_.progress(run.begin);
  const std::int32_t count = chunks.count();

  Range claimed{count - part_of(count, senders_share), count};
  left_to_receiver_.fetch_add(static_cast<std::uint64_t>(claimed.begin), std::memory_order_relaxed);
  board_.begin(run, epoch);
  progress.offer(epoch, count, static_cast<std::int32_t>(claimed.size()));
  // As long as nothing of what was claimed here is counted, the copy cannot complete.
  if (given_up_.load(std::memory_order_seq_cst) == epoch) return take_back(run.begin, epoch);
  board_.join(run, epoch);
  std::int32_t copied = 0;
  while (claimed.size() > 0) {
    const Range part = chunks.bytes(claimed);
    receiver_.write(data_, {bytes.begin + part.begin, bytes.begin + part.end});
    copied += static_cast<std::int32_t>(claimed.size());
    claimed = progress.claim(epoch, senders_share);
    left_to_receiver_.fetch_sub(static_cast<std::uint64_t>(claimed.size()), std::memory_order_relaxed);
  }
  progress.add_copied(epoch, copied);
}

bool SharedPuts::finished() {
  // Pairs with the addition in SharedArrivals::pull_chunk. Read before what it is compared with, which the puts raise
  // first.
  const std::uint64_t pulled = std::atomic_ref(pulled_).load(std::memory_order_acquire);
  return left_to_receiver_.load(std::memory_order_relaxed) == pulled;
}

void SharedPuts::give_up(Epoch epoch) {
  given_up_.store(epoch, std::memory_order_seq_cst);
  for (std::int32_t t = 0; t < plan_.transport_partitions(); ++t) take_back(t, epoch);
}

/// The run from `first` on, if it was offered in `epoch` and is not copied yet. Several threads at once.
void SharedPuts::take_back(std::int64_t first, Epoch epoch) {
  const std::int32_t unclaimed = board_.progress(first).revoke(epoch);
  left_to_receiver_.fetch_sub(static_cast<std::uint64_t>(unclaimed), std::memory_order_relaxed);
}

SharedArrivals::SharedArrivals(const Plan& plan, std::byte* data, CopyBoard board,
                               std::shared_ptr<const RemoteProcess> sender, std::uint64_t& pulled)
    : plan_(plan), data_(data), board_(board), sender_(std::move(sender)), pulled_(pulled) {}

bool SharedArrivals::arrived(std::int32_t t, Epoch epoch) {
  const CopyBoard::Place place = board_.find(t, epoch);
  if (!place.put || place.arrived) return place.arrived;
  const CopyProgress progress = board_.progress(place.first);
  return progress.is_complete(epoch) || (pull_chunk(place.first, epoch) && progress.is_complete(epoch));
}

std::int64_t SharedArrivals::first_missing(Range run, Epoch epoch) {
  std::int64_t t = run.begin;
  while (t < run.end && arrived(static_cast<std::int32_t>(t), epoch)) {
    // The end of the run that begins here; of others this is not behind `t`.
    t = std::max(t + 1, board_.run_from(t, epoch).end);
  }
  return std::min(t, run.end);
}

/// Copies a chunk of the run from `first` on, if one is left; whether one was, and counts.
bool SharedArrivals::pull_chunk(std::int64_t first, Epoch epoch) {
  if (sender_gone_.load(std::memory_order_relaxed)) return false;
  // Read before the claim: what a claim of this epoch succeeds for is the run that began here in this epoch.
  const Range run = board_.run_from(first, epoch);
  if (run.size() <= 0) return false;
  const CopyProgress progress = board_.progress(first);
  const Range claimed = progress.claim(epoch, one_chunk);
  if (claimed.size() == 0) return false;

  // Copied or not, the sender's bytes are not read any more; a failure is this side's alone. Pairs with the load in
  // SharedPuts::finished. The last touch of the sender's memory.
  const auto let_go = [this] { std::atomic_ref(pulled_).fetch_add(1, std::memory_order_release); };
  const Range bytes = bytes_of(plan_, run);
  const Range part = Chunks(bytes.size()).bytes(claimed);
  try {
    const bool counts = copy({bytes.begin + part.begin, bytes.begin + part.end}) && progress.add_copied(epoch, 1);
    let_go();
    return counts;
  } catch (...) {
    let_go();
    throw;
  }
}

/// False if the sender's process has ended.
bool SharedArrivals::copy(Range bytes) {
  const std::uint64_t from = board_.sender_data() + static_cast<std::uint64_t>(bytes.begin);
  const bool copied = sender_->read(from, data_ + bytes.begin, static_cast<std::size_t>(bytes.size()));
  if (!copied) sender_gone_.store(true, std::memory_order_relaxed);
  return copied;
}

}  // namespace partita::link::direct
