// One offered message, on the rank that sends it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "core/active_steps.hpp"
#include "core/error.hpp"
#include "core/layout.hpp"
#include "two_sided/host_image.hpp"
#include "two_sided/looks_in_turn.hpp"
#include "two_sided/offer_record.hpp"
#include "two_sided/offer_services.hpp"
#include "two_sided/offer_slot.hpp"
#include "two_sided/staging_room.hpp"

namespace partita {

/// Elements without gaps in the memory of a GPU, and who is to get them.
struct OfferedMemory {
  std::byte* buffer = nullptr;
  std::int64_t count = 0;
  Layout layout;
  int device = -1;
  int receiver = -1;            ///< its world rank
  bool is_synchronous = false;  ///< the send ends when it is received, and no earlier
  /// What peers map it by; none where it is to be asked for, since the program may have others there meanwhile.
  std::optional<memory::DevicePiece> name{};

  std::int64_t size_bytes() const { return count * layout.size_bytes(); }
};

/// The engine stages it where its receiver wishes that, for which it looks while there are such wishes. Any thread,
/// unless said otherwise.
class SentOffer final : private ActiveStep, private LookedAt {
 public:
  /// Names what is offered: where that passes descriptors, the record must not overtake them. `slot` is this one's
  /// until it goes; `sent` has what the engine looks at. Throws Error.
  SentOffer(const OfferServices& services, StagingRoom& room, LooksInTurn& sent, OfferedMemory memory,
            std::uint64_t number, OfferSlot& slot);
  /// The receiver needs nothing of it. Blocks until no copy of it is under way.
  ~SentOffer();
  SentOffer(const SentOffer&) = delete;
  SentOffer& operator=(const SentOffer&) = delete;

  /// The offer stands. Nobody knows of it before record() has been sent.
  void open();
  /// What is sent in place of the bytes.
  OfferRecord::Bytes record() const;
  OfferSlot& slot() const { return slot_; }

  /// Whether the program's memory is its own again, and where the send is synchronous somebody has received it. Who
  /// asks waits: where nobody claims it for some time, and there is room, it is staged. Throws Error.
  bool settled();
  /// Takes it back, if the receiver does not use it. Returns whether it may go.
  bool withdraw();
  /// Whether nobody uses it any more.
  bool is_over() const;
  /// Its world rank, which must act.
  int receiver() const { return memory_.receiver; }
  std::string explain() const;

 private:
  Outcome step() noexcept override;
  bool try_to_hold() override { return mutex_.try_lock(); }
  bool look_and_let_go() noexcept override;
  bool count(OfferWord::Step step);
  void proceed();
  void stage_for_nobody();
  void begin_staging();
  void finish_staging();
  void fail();

  const OfferServices& services_;
  StagingRoom& room_;
  LooksInTurn& sent_;
  const OfferedMemory memory_;
  OfferSlot& slot_;
  OfferCounts::Counts& counts_of_receiver_;
  OfferRecord record_;
  std::mutex mutex_;                  ///< of the next ones
  std::unique_ptr<HostImage> image_;  ///< null while it is not staged
  bool has_room_ = false;             ///< it takes some of the room
  std::optional<Error> failure_;
  std::optional<std::chrono::steady_clock::time_point> waited_since_;
};

}  // namespace partita
