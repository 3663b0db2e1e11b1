// The way `shared copy`: a copy that both ranks make, chunk by chunk, the sender's thread from the moment it puts, the
// receiver's threads while they look for the arrival (docs/design/link.md, "Shared copies").
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "link/direct/remote_process.hpp"
#include "link/direct/way.hpp"

namespace partita::link::direct {

/// Whether a run of so many bytes is so large that a second core pays.
bool worth_sharing(std::int64_t run_bytes);

/// How the `size_bytes` of a run are cut: into one at most where they are not worth sharing. Both ranks cut alike.
class Chunks {
 public:
  explicit Chunks(std::int64_t size_bytes);

  std::int32_t count() const { return static_cast<std::int32_t>((size_bytes_ + chunk_bytes_ - 1) / chunk_bytes_); }
  /// The bytes of the chunks [chunks.begin, chunks.end).
  Range bytes(Range chunks) const;

 private:
  std::int64_t size_bytes_;
  std::int64_t chunk_bytes_;
};

/// How far the copy of a run has come: a word of the receiver's block that both ranks change. Chunks are claimed from
/// the last one down. Epoch and counts change in one step, so whoever comes late from an epoch before finds nothing to
/// claim.
class CopyProgress {
 public:
  struct alignas(8) Word {
    Epoch epoch;
    std::uint16_t unclaimed;  ///< chunks
    std::uint16_t uncopied;
  };

  explicit CopyProgress(Word& word) : word_(word) {}

  /// The sender's bytes of `epoch` are complete, in so many chunks; the last `claimed` of them (at least one) are the
  /// caller's, who keeps the copy from completing by them. All of the epoch before are copied. Releases the bytes.
  void offer(Epoch epoch, std::int32_t chunks, std::int32_t claimed) const;
  /// Claims 1 / `share` of what is left, rounded up; nothing if all chunks are claimed or `epoch` is not offered.
  /// Acquires the sender's bytes.
  Range claim(Epoch epoch, std::int32_t share) const;
  /// `count` > 0 of the chunks of `epoch` that the caller has claimed are copied; false if `epoch` was revoked
  /// meanwhile. Releases them. The sender claims nothing after this: with the last chunk the receiver's request, and
  /// the word with it, may go.
  bool add_copied(Epoch epoch, std::int32_t count) const;
  /// The sender gives `epoch` up: unless all chunks are copied already, they never will be, since whoever still reads
  /// the sender's bytes may read what comes after them. Returns how many nobody has claimed. Acquires what was copied.
  std::int32_t revoke(Epoch epoch) const;
  /// Whether all chunks of `epoch` are copied. Acquires them.
  bool is_complete(Epoch epoch) const;

 private:
  std::atomic_ref<Word> word_;
};

/// What the two ranks share of a request, in the receiver's block, zeroed: the progress of each run at its first
/// transport partition, and beside it a word of each transport partition that says in which run of which epoch it lies.
/// The sender alone writes these. Who waits for a run looks at those of its first only.
class CopyBoard {
 public:
  explicit CopyBoard(std::byte* block) : block_(block) {}
  static std::size_t size_bytes(const Plan& plan);

  /// The address of the packed data in the sender's process; written once, before the first put.
  std::uint64_t& sender_data() const { return reinterpret_cast<Head*>(block_)->sender_data; }
  /// How far the copy of the run is whose first transport partition is `first`.
  CopyProgress progress(std::int64_t first) const { return CopyProgress(entry(first).progress); }

  /// Announces `run` at its first transport partition, before its progress is offered.
  void begin(Range run, Epoch epoch) const { place(run.begin).store(word(epoch, run.end), std::memory_order_release); }
  /// Lets the others of `run` point to the first, once its progress is offered.
  void join(Range run, Epoch epoch) const;
  /// All bytes of `run` lie at the receiver. Releases them.
  void arrive(Range run, Epoch epoch) const;

  /// Where a transport partition is in an epoch.
  struct Place {
    bool put = false;
    bool arrived = false;    ///< its run was copied before it was announced; else look at the run's progress
    std::int64_t first = 0;  ///< of its run
  };
  /// Acquires what announced it.
  Place find(std::int32_t t, Epoch epoch) const;
  /// The run that begins with `first`; of no transport partition if that one begins none in `epoch`.
  Range run_from(std::int64_t first, Epoch epoch) const;

 private:
  /// Epoch in the high half. In the low half: of the first of a run the run's end, of the others the first; of one that
  /// has arrived its own number.
  using Word = std::atomic_ref<std::uint64_t>;
  static std::uint64_t word(Epoch epoch, std::int64_t other) {
    return std::uint64_t{epoch} << 32 | static_cast<std::uint64_t>(other);
  }
  struct Entry {
    CopyProgress::Word progress;
    std::uint64_t place;
  };
  struct alignas(sizeof(Entry)) Head {  // so that no entry lies in two cache lines
    std::uint64_t sender_data;
  };
  Entry& entry(std::int64_t t) const { return reinterpret_cast<Entry*>(block_ + sizeof(Head))[t]; }
  Word place(std::int64_t t) const { return Word(entry(t).place); }

  std::byte* block_;
};

class SharedPuts final : public Puts {
 public:
  /// `pulled` counts, in memory of the sender's, the chunks that the receiver has ever claimed and let go of.
  SharedPuts(const Plan& plan, const std::byte* data, CopyBoard board, RemoteBytes receiver, std::uint64_t& pulled);

  /// Copies what the receiver does not claim; nothing of an epoch that was given up. Throws Error.
  void put(Range run, Epoch epoch) override;
  /// Whether the receiver, too, has let go of what it claimed; acquires its word that the bytes may be written again.
  bool finished() override;
  /// What the receiver has not copied yet of `epoch` does not arrive any more, nor what is put from here on. Puts may
  /// run meanwhile; no other epoch of the request is open.
  void give_up(Epoch epoch) override;

 private:
  void share(Range run, Range bytes, const Chunks& chunks, Epoch epoch);
  void take_back(std::int64_t first, Epoch epoch);

  Plan plan_;
  const std::byte* data_;
  CopyBoard board_;
  RemoteBytes receiver_;
  std::uint64_t& pulled_;
  std::atomic<Epoch> given_up_{no_epoch};
  std::atomic<std::uint64_t> left_to_receiver_{0};  ///< chunks offered, ever, less those that this side has claimed
};

class SharedArrivals final : public Arrivals {
 public:
  SharedArrivals(const Plan& plan, std::byte* data, CopyBoard board, std::shared_ptr<const RemoteProcess> sender,
                 std::uint64_t& pulled);

  /// Whether transport partition `t` has arrived; if not, copies one chunk of its run, where one is left. Throws Error,
  /// but not where the sender's process has ended: whoever waits hears of that elsewhere.
  bool arrived(std::int32_t t, Epoch epoch) override;
  /// Asks of each run once.
  std::int64_t first_missing(Range run, Epoch epoch) override;
  ReceiverFacts facts() const override { return {.landings = {data_, data_}}; }

 private:
  bool pull_chunk(std::int64_t first, Epoch epoch);
  bool copy(Range bytes);

  Plan plan_;
  std::byte* data_;
  CopyBoard board_;
  std::shared_ptr<const RemoteProcess> sender_;
  std::uint64_t& pulled_;
  std::atomic<bool> sender_gone_{false};
};

}  // namespace partita::link::direct
