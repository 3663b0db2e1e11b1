// One send or receive of a schedule: a half of a transfer, which moves a region of every partition.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "collective/memory.hpp"
#include "transfer/incoming.hpp"
#include "transfer/matcher.hpp"
#include "transfer/outgoing.hpp"

namespace partita::collective {

/// What a leg does for its collective.
struct LegTerms {
  int rank = -1;  ///< of the peer, in the communicator
  int peer = -1;  ///< its world rank
  std::shared_ptr<Communicator> communicator;
  std::string link;
  Region region;
  std::string purpose;  ///< the collective, which is the same on all ranks
  CollectivePlaces* places = nullptr;
  int tag = 0;  ///< legs of different tags never meet
};

/// What both sides have in common. A region that does not lie in a row travels by memory of the leg's own. One of no
/// bytes looks for its peer, and does nothing else.
class Leg : protected Half::User {
 public:
  virtual Half& half() = 0;
  /// Adds its half to `matcher`, and throws as Matcher::add.
  virtual void seek_peer(Matcher& matcher) = 0;
  const Half& half() const { return const_cast<Leg*>(this)->half(); }
  /// Whether nothing of the open epoch is still to be moved. Under the engine's lock.
  virtual bool is_over() = 0;
  /// Whether the other side is ready for what the open epoch sends, or, of a receive, is known.
  virtual bool is_prepared() const = 0;
  /// Whose turn it is, if this leg is not over and waits for its peer; else nothing.
  virtual std::string describe_wait() const = 0;
  std::string explain() const final;
  /// No other epoch opens, and nothing more of an open one moves; where there is a cause, the peer hears it. Under the
  /// engine's lock, as the next.
  void give_up(const std::optional<Error>& cause);
  /// The first epoch that the peer has lost if this side goes on no more.
  Epoch first_lost();
  virtual ~Leg() = default;

 protected:
  Leg(CollectiveMemory& memory, LegTerms terms);
  HalfTerms half_terms(Side side) const;
  std::string peer_name() const;
  void opened_epoch() noexcept final {}
  /// Calls `use` with neighbouring partitions whose regions can be copied at once: all, or one after the other.
  template <class Use>
  void for_each_piece(link::Range partitions, Use use) const {
    if (is_whole_) return use(partitions);
    for (std::int64_t p = partitions.begin; p < partitions.end; ++p) use(link::Range{p, p + 1});
  }
  /// Their bytes in a row.
  std::byte* row(link::Range partitions) const { return data_ + partitions.begin * terms_.region.bytes; }

  CollectiveMemory& memory_;
  const LegTerms terms_;
  const bool is_whole_;  ///< as CollectiveMemory's, of the region
  std::optional<OwnBytes> own_;
  std::byte* const data_;  ///< the partitions' bytes in a row
};

class SendLeg final : public Leg {
 public:
  SendLeg(const Services& services, CollectiveMemory& memory, LegTerms terms);

  Outgoing& half() override { return out_; }
  void seek_peer(Matcher& matcher) override { matcher.add(out_); }
  bool is_over() override { return out_.matched() && out_.all_finished(); }
  bool is_prepared() const override { return out_.matched() && out_.receiver_has_started(); }
  std::string describe_wait() const override;
  /// The regions of neighbouring partitions may travel, together. Any thread.
  void send(link::Range partitions) {
    pack(partitions);
    leave(partitions);
  }
  /// In GPU memory, the same in steps: calls `use` with each Move that is to be made first, if it packs(); then they
  /// leave.
  template <class Use>
  void packing(link::Range partitions, Use use) const {
    for_each_piece(partitions, [&](link::Range piece) {
      const Region regions = terms_.region.times(piece.size());
      use(Move{{row(piece)}, memory_.spot(regions, static_cast<int>(piece.begin)), regions.bytes});
    });
  }
  bool packs() const { return own_.has_value(); }
  void leave(link::Range partitions) {
    out_.record(Trace::Event::marked, partitions);
    out_.complete(partitions);
  }

 private:
  void pack(link::Range partitions);

  Outgoing out_;
};

class ReceiveLeg final : public Leg {
 public:
  ReceiveLeg(const Services& services, CollectiveMemory& memory, LegTerms terms);

  Incoming& half() override { return in_; }
  void seek_peer(Matcher& matcher) override { matcher.add(in_); }
  bool is_over() override { return in_.matched() && in_.all_arrived(); }
  bool is_prepared() const override { return in_.matched(); }
  std::string describe_wait() const override;
  /// The first of neighbouring partitions whose region is not there by now, or partitions.end. Any thread, with
  /// different ones.
  std::int64_t first_missing(link::Range partitions) const;
  /// They are there, and were not taken before: what has landed apart is copied to its place.
  void take(link::Range partitions);
  /// In GPU memory, the same in steps: they were found there; then `use` is called with each Move that is to be made.
  void note(link::Range partitions);
  bool unpacks() const { return own_.has_value() || in_.landing() != data_; }
  template <class Use>
  void unpacking(link::Range partitions, Use use) const {
    for_each_piece(partitions, [&](link::Range piece) {
      const Region regions = terms_.region.times(piece.size());
      const auto first = static_cast<int>(piece.begin);
      const Spot place = own_ ? memory_.spot(regions, first) : Spot{row(piece)};
      use(Move{place, {const_cast<std::byte*>(landed(piece))}, regions.bytes});
    });
  }
  /// An epoch is about to open.
  void forget_seen() { seen_.store(0, std::memory_order_relaxed); }
  /// Whether all partitions of the open epoch were seen to be there. Any thread; asks no link.
  bool has_seen_all() const { return seen_.load(std::memory_order_acquire) == memory_.partitions(); }

 private:
  const std::byte* landed(link::Range partitions) const {
    return in_.landing() + partitions.begin * terms_.region.bytes;
  }

  Incoming in_;
  std::atomic<int> seen_{0};  ///< partitions that were found there
};

}  // namespace partita::collective
