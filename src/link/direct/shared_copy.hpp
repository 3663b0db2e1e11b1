// A copy that both ranks make, chunk by chunk: the sender's thread from the moment it puts, the receiver's threads
// while they look for the arrival (docs/design/link.md, "Shared copies").
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/epoch.hpp"
#include "link/direct/remote_copy.hpp"
#include "link/plan.hpp"

namespace partita::link {

/// Whether the transfers of `plan` are so large that a second core pays.
bool worth_sharing(const Plan& plan);

/// How `size_bytes` > 0 are cut. Both ranks cut alike.
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

/// How far the copy of one transport partition has come: a word of the receiver's block that both ranks change. Epoch
/// and counts change in one step, so whoever comes late from an epoch before finds nothing to claim.
class CopyProgress {
 public:
  struct alignas(8) Word {
    Epoch epoch;
    std::uint16_t claimed;
    std::uint16_t copied;
  };

  explicit CopyProgress(Word& word) : word_(word) {}

  /// The sender's bytes of `epoch` are complete; the first `claimed` chunks (at least one) are the caller's, who keeps
  /// the copy from completing by them. All of the epoch before are copied. Releases the bytes.
  void offer(Epoch epoch, std::int32_t claimed) const;
  /// Claims 1 / `share` of what is left of `chunks`, rounded up; nothing if all are claimed or `epoch` is not offered.
  /// Acquires the sender's bytes.
  Range claim(Epoch epoch, std::int32_t chunks, std::int32_t share) const;
  /// `count` > 0 of the chunks of `epoch` that the caller has claimed are copied; false if `epoch` was revoked
  /// meanwhile. Releases them. The sender claims nothing after this: with the last chunk the receiver's request, and
  /// the word with it, may go.
  bool add_copied(Epoch epoch, std::int32_t count) const;
  /// The sender gives `epoch` up: unless all `chunks` are copied already, they never will be, since whoever still reads
  /// the sender's bytes may read what comes after them. Returns how many nobody has claimed. Acquires what was copied.
  std::int32_t revoke(Epoch epoch, std::int32_t chunks) const;
  /// Whether all `chunks` of `epoch` are copied. Acquires them.
  bool complete(Epoch epoch, std::int32_t chunks) const;

 private:
  std::atomic_ref<Word> word_;
};

/// What the two ranks share of a request, in the receiver's block: zeroed, and mapped by both.
class CopyBoard {
 public:
  CopyBoard() = default;
  explicit CopyBoard(std::byte* block) : block_(block) {}
  static std::size_t size_bytes(const Plan& plan);

  /// Of the packed data in the sender's process; written once, before the first offer.
  std::uint64_t& sender_data() const { return *reinterpret_cast<std::uint64_t*>(block_); }
  CopyProgress progress(std::int32_t t) const {
    return CopyProgress(reinterpret_cast<CopyProgress::Word*>(block_ + sizeof(std::uint64_t))[t]);
  }

 private:
  std::byte* block_ = nullptr;
};

/// The other rank's memory, by the kernel.
struct RemoteBytes {
  std::shared_ptr<const RemoteProcess> process;
  std::uint64_t address = 0;  ///< of the packed data there
};

/// The sending half of a request.
class SharedPuts {
 public:
  /// `pulled` counts, in memory of the sender's, the chunks that the receiver has ever claimed and let go of.
  SharedPuts(const Plan& plan, CopyBoard board, const std::byte* data, RemoteBytes receiver, std::uint64_t& pulled);

  /// Copies what the receiver does not claim; nothing of an epoch that was given up. Any thread, with different `t`.
  /// Throws Error.
  void put(std::int32_t t, Epoch epoch);
  /// Whether the receiver, too, has let go of what it claimed; acquires its word that the bytes may be written again.
  bool finished() const;
  /// What the receiver has not copied yet of `epoch` does not arrive any more, nor what is put from here on. Puts may
  /// run meanwhile; no other epoch of the request is open.
  void give_up(Epoch epoch);

 private:
  void take_back(std::int32_t t, Epoch epoch);

  Plan plan_;
  CopyBoard board_;
  const std::byte* data_;
  RemoteBytes receiver_;
  std::uint64_t& pulled_;
  std::atomic<Epoch> given_up_{no_epoch};
  std::atomic<std::uint64_t> left_to_receiver_{0};  ///< chunks offered, ever, less those that this side has claimed
};

/// The receiving half.
class SharedPulls {
 public:
  /// `sender.address` is not used: it lies on the board.
  SharedPulls(const Plan& plan, CopyBoard board, std::byte* data, RemoteBytes sender, std::uint64_t& pulled);

  /// Whether transport partition `t` has arrived; if not, copies one chunk, where one is left. Several threads at once.
  /// Throws Error, but not where the sender's process has ended: whoever waits hears of that elsewhere.
  bool arrived(std::int32_t t, Epoch epoch);

 private:
  bool pull(std::int32_t t, Range bytes, Epoch epoch);
  bool copy(Range bytes);

  Plan plan_;
  CopyBoard board_;
  std::byte* data_;
  RemoteBytes sender_;
  std::uint64_t& pulled_;
  std::atomic<bool> sender_gone_{false};
};

}  // namespace partita::link
