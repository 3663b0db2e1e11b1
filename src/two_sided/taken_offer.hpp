// One offered message, on the rank that receives it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "core/error.hpp"
#include "memory/stream.hpp"
#include "two_sided/host_image.hpp"
#include "two_sided/offer_record.hpp"
#include "two_sided/offer_services.hpp"
#include "two_sided/offer_slot.hpp"
#include "two_sided/peer_mappings.hpp"

namespace partita {

/// The receiver copies out of the sender's memory where it can; else the sender stages. Ended or not, the sender is
/// released with this one. One thread at a time. Members throw Error.
class TakenOffer {
 public:
  /// Where the bytes go.
  struct Place {
    std::byte* on_gpu = nullptr;  ///< where they can be copied to without gaps; null: nowhere
    int device = -1;
    std::int64_t room_bytes = 0;
  };
  /// Throws Error where the offer is not there any more, and where there is not so much room: class `truncate`.
  TakenOffer(const OfferServices& services, PeerMappings& mappings, const OfferRecord& record, const Place& place);
  /// Blocks until no copy is under way.
  ~TakenOffer();
  /// Releases the sender of an offer that nobody takes.
  static void refuse(const OfferServices& services, const OfferRecord& record);
  TakenOffer(const TakenOffer&) = delete;
  TakenOffer& operator=(const TakenOffer&) = delete;

  enum class Outcome : std::uint8_t {
    open,
    in_place,  ///< they lie on the GPU
    in_host,   ///< they lie in host memory
  };
  /// Does what can be done now; where the sender stages, the bytes go to `host`. Does not block for the sender.
  Outcome proceed(std::byte* host);

  std::int64_t size_bytes() const { return record_.size_bytes; }
  int sender() const { return record_.sender; }
  /// Why this rank does not copy them itself; empty where it does, or where they go to host memory.
  const std::string& why_not() const { return why_not_; }
  std::string explain() const;

 private:
  bool count(OfferWord::Step step);
  bool may_copy(const Place& place);
  void begin_copy(const Place& place);
  void wish();
  Error gone() const;
  bool take_staged(std::byte* host);
  void end();

  const OfferServices& services_;
  PeerMappings& mappings_;
  const OfferRecord record_;
  const int receiver_;
  OfferSlot& slot_;
  OfferCounts::Counts& counts_of_sender_;
  std::string why_not_;
  std::shared_ptr<std::byte> mapped_;  ///< null: the sender stages
  GpuLane* lane_ = nullptr;
  std::unique_ptr<memory::Event> event_;
  std::optional<Error> failure_;  ///< of the copy
  const std::byte* image_ = nullptr;
  std::int64_t taken_bytes_ = 0;  ///< of the image
};

}  // namespace partita
