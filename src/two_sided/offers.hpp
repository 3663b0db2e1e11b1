// Messages of the MPI's between GPUs of a node, offered to their receivers (docs/design/gpu-aware.md).
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "two_sided/known_layouts.hpp"
#include "two_sided/looks_in_turn.hpp"
#include "two_sided/message.hpp"
#include "two_sided/offer_services.hpp"
#include "two_sided/offer_slot.hpp"
#include "two_sided/peer_mappings.hpp"
#include "two_sided/probed_messages.hpp"
#include "two_sided/sent_offer.hpp"
#include "two_sided/staging_room.hpp"

namespace partita {

/// Which messages are offered, and what offers of this rank leave behind. Any thread.
class Offers {
 public:
  explicit Offers(const OfferServices& services);
  ~Offers();
  Offers(const Offers&) = delete;
  Offers& operator=(const Offers&) = delete;

  /// Whoever receives in this job knows offers: this rank's program makes the MPI's calls through the drop-in.
  /// Throws Error.
  void turn_on();
  bool on() const { return on_.load(std::memory_order_relaxed); }
  const OfferServices& services() const { return services_; }
  /// Peers' memory that messages have mapped; there is some only where messages may be offers.
  PeerMappings& mappings() { return *mappings_; }
  /// Those of datatypes that are received.
  KnownLayouts& layouts() { return layouts_; }
  /// What probes have found of them.
  ProbedMessages& probed() { return probed_; }
  /// The receives that may get some, while the MPI has them: so that no sender waits for this rank's next call the
  /// engine asks the MPI for them, while some are unmet. Who waits for one asks for it itself.
  LooksInTurn& posted() { return posted_; }

  /// What is offered where a call with these arguments sends a message, a start of it where it is persistent; none
  /// where that is staged: `why_not` is a clause then, empty where nobody would expect an offer.
  std::optional<OfferedMemory> offered(const TwoSidedArguments& arguments, Communicator* communicator,
                                       std::string& why_not);
  /// Offers it; null where descriptors of what it names must wait for room in the receiver's socket, which only that
  /// rank makes: then it is staged. Throws Error.
  std::unique_ptr<SentOffer> offer(const OfferedMemory& memory);
  /// The program has no more to do with it: it goes once the receiver needs nothing of it any more.
  void leave(std::unique_ptr<SentOffer> offer) noexcept;
  /// A step of the progress engine: frees what was left. Returns whether there was something.
  bool free_what_was_left();

  /// The program has promised the MPI something else about messages on the communicator.
  static void forget_promises(Communicator& communicator) { communicator.offers = Communicator::Takes::unknown; }
  /// Tells, once each, why a message in GPU memory goes through host memory.
  void tell(const std::string& why_not);

 private:
  OfferSlot& take_slot();
  void give_back(OfferSlot& slot) noexcept;
  void free(std::unique_ptr<SentOffer> offer) noexcept;

  const OfferServices services_;
  std::unique_ptr<PeerMappings> mappings_;
  KnownLayouts layouts_;
  ProbedMessages probed_;
  LooksInTurn posted_;
  LooksInTurn sent_;  ///< offers of this rank that a receiver may wish staged
  StagingRoom staging_room_;
  std::atomic<bool> on_{false};
  std::atomic<std::uint64_t> offers_{0};  ///< made so far
  std::mutex mutex_;                      ///< of the next ones
  std::vector<OfferSlot*> free_slots_;    ///< has room for all that there are
  std::size_t slots_ = 0;
  std::vector<std::byte*> slot_blocks_;
  std::vector<std::unique_ptr<SentOffer>> left_;
  std::atomic<std::size_t> left_count_{0};
  std::size_t next_look_ = 0;  ///< in what was left, about
  std::chrono::steady_clock::time_point next_look_at_ranks_{};
  std::set<std::string> told_;
};

}  // namespace partita
