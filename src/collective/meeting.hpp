// How the members of a collective learn that all of them have started an epoch.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collective/leg.hpp"
#include "transfer/matcher.hpp"

namespace partita::collective {

struct MeetingTerms {
  int rank = 0;  ///< in the communicator
  std::shared_ptr<Communicator> communicator;
  std::vector<int> world_ranks;  ///< of its members
  std::string link;
  std::string purpose;  ///< as LegTerms'
  CollectivePlaces* places = nullptr;
  /// Else nobody asks: there are no rounds, and the legs are empty. They look for their peers all the same, since all
  /// collectives have them: ranks that have made different ones hear so even where nothing else of these meets.
  bool is_held = true;
};

/// In each epoch every member sends a byte 1, 2, 4, … ranks on, each after it has got that of the same number of ranks
/// before: whoever has got all of them knows that all have started (the dissemination barrier of Hensgen, Finkel and
/// Manber). The engine's steps move it on from the start of the epoch, whether anybody waits for it or not. Only
/// Pbuf_prepare waits; the data of an epoch may be through long before. Members throw Error.
class Meeting final : private ActiveStep {
 public:
  Meeting(const Services& services, const MeetingTerms& terms);
  ~Meeting();

  /// This rank has started one epoch more.
  void start();
  /// Whether all members have started the epoch that this rank started last. Makes progress. Throws where it will not
  /// know any more.
  bool is_over();
  /// Whether other members wait for what this rank passes on: it has started an epoch of which it does not know yet
  /// that all have. Takes the engine's lock.
  bool is_awaited() const;
  /// The request gives its epoch up, or is freed and nobody waits for it: no step is taken any more.
  void stop();

  /// One that has met the leg of another collective; null where none has yet. Any thread.
  const Leg* differing_leg() const;
  /// Grows while something arrives. Any thread.
  std::uint64_t how_far() const { return arrivals_.load(std::memory_order_relaxed); }
  /// From whom the next message comes; none where all have started.
  const Leg* awaited() const;
  const std::vector<std::unique_ptr<Leg>>& legs() const { return legs_; }

 private:
  struct Round {
    SendLeg* to;
    ReceiveLeg* from;
  };

  bool all_have_left() const;
  bool has_caught_up() const;
  const Leg* lost_leg() const;
  void open_epoch();
  bool go_on();
  bool go_on_or_fail(const Leg* lost);
  void fail(const Error& error);
  Outcome step() noexcept override;

  const Services& services_;
  CollectiveMemory memory_;
  std::vector<std::unique_ptr<Leg>> legs_;
  std::vector<Round> rounds_;
  mutable std::atomic<bool> legs_have_met_{false};
  std::atomic<std::uint64_t> started_{0};   ///< epochs, by this rank
  std::atomic<std::uint64_t> met_{0};       ///< by all ranks
  std::atomic<std::uint64_t> arrivals_{0};  ///< in all epochs
  std::size_t round_ = 0;                   ///< the one that the open epoch is in; under the engine's lock, as the next
  std::uint64_t opened_ = 0;                ///< epochs of the legs
  std::optional<Error> failure_;
  bool stopped_ = false;  ///< under the engine's lock
};

}  // namespace partita::collective
