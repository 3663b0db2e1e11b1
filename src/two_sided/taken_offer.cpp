#include "two_sided/taken_offer.hpp"

#include <algorithm>
#include <cstring>
#include <utility>
#include <variant>

#include "core/current_error.hpp"

namespace partita {
namespace {

using Phase = OfferWord::Phase;

/// So much is copied in one step: the engine has others to take.
constexpr std::int64_t taken_at_once_bytes = std::int64_t{4} << 20;

OfferSlot& slot_of(const OfferServices& services, const OfferRecord& record) {
  const World& world = services.requests.world;
  if (record.sender == world.rank() || !world.on_my_node(record.sender) ||
      record.slot.offset_bytes % alignof(OfferSlot) != 0) {
    throw wire::malformed("offers a message of rank {} by a word at {}", record.sender, record.slot.offset_bytes);
  }
  return *reinterpret_cast<OfferSlot*>(
      services.requests.host_memory.import(record.sender, record.slot, sizeof(OfferSlot)));
}

/// The sender is released where its counts cannot be mapped.
OfferCounts::Counts& counts_of_sender(const OfferServices& services, const OfferRecord& record) {
  try {
    return services.counts.of(record.sender);
  } catch (const std::exception&) {
    TakenOffer::refuse(services, record);
    throw;
  }
}

}  // namespace

TakenOffer::TakenOffer(const OfferServices& services, PeerMappings& mappings, const OfferRecord& record,
                       const Place& place)
    : services_(services),
      mappings_(mappings),
      record_(record),
      receiver_(services.requests.world.rank()),
      slot_(slot_of(services, record)),
      counts_of_sender_(counts_of_sender(services, record)) {
  if (record_.size_bytes > place.room_bytes) {
    end();
    throw Error(ErrorClass::truncate, "the message of rank {} has {} bytes, and the receive room for {}",
                record_.sender, record_.size_bytes, place.room_bytes);
  }
  if (may_copy(place) && count(slot_.word.claim(record_.number, receiver_))) {
    begin_copy(place);
  } else {
    wish();
  }
}

TakenOffer::~TakenOffer() {
  if (event_ != nullptr) services_.lanes.end(*lane_, std::move(event_));
  end();
}

void TakenOffer::refuse(const OfferServices& services, const OfferRecord& record) {
  const OfferWord::Step step = slot_of(services, record).word.end(record.number, services.requests.world.rank());
  if (step.met) services.counts.own().unmet.fetch_sub(1, std::memory_order_relaxed);
}

/// Returns whether the step was made.
bool TakenOffer::count(OfferWord::Step step) {
  if (step.met) services_.counts.own().unmet.fetch_sub(1, std::memory_order_relaxed);
  if (step.wishes != 0) counts_of_sender_.wishes.fetch_add(step.wishes, std::memory_order_relaxed);
  return step.made;
}

void TakenOffer::end() {
  count(slot_.word.end(record_.number, receiver_));
}

bool TakenOffer::may_copy(const Place& place) {
  if (place.on_gpu == nullptr || !record_.gpu_memory) return false;
  if (mappings_.may_map(record_.sender, place.device)) return true;
  why_not_ = fmt::format("memory of rank {} could not be mapped for GPU {} several times in a row", record_.sender,
                         place.device);
  return false;
}

/// What fails once the copy may have been asked for is an error, and nothing is staged: the event stands for it, too.
/// Where it cannot, the GPU works no longer.
void TakenOffer::begin_copy(const Place& place) {
  if (!record_.gpu_memory) return;
  try {
    mappings_.begin_call();
    auto mapping = mappings_.map(record_.sender, *record_.gpu_memory, place.device);
    if (auto* const mapped = std::get_if<std::shared_ptr<std::byte>>(&mapping)) {
      mapped_ = std::move(*mapped);
      lane_ = &services_.lanes.of(place.device);
      event_ = lane_->take_event();
    } else {
      why_not_ = std::get<memory::NotMappable>(mapping).reason;
    }
  } catch (const std::exception&) {
    why_not_ = current_error().sentence();
  }
  if (event_ == nullptr) {
    mapped_ = nullptr;
    return wish();
  }
  const auto ask = [&](const auto& what) { lane_->ask(GpuLane::Work::copies, *event_, what); };
  try {
    ask([&](memory::Stream& stream) {
      stream.copy(place.on_gpu, mapped_.get(), static_cast<std::size_t>(record_.size_bytes));
    });
  } catch (const std::exception&) {
    failure_ = current_error();
    try {
      ask([](memory::Stream&) {});
    } catch (const std::exception&) {
      lane_->give_back(std::move(event_));
      end();
      throw Error(*failure_);
    }
  }
}

Error TakenOffer::gone() const {
  return {
      ErrorClass::other,
      "the message that rank {} has offered is not there any more: it was given up, after an error or a time limit, "
      "or received before",
      record_.sender};
}

/// The wish is counted before it is made: the sender, who sees it, may count it off before this rank goes on.
void TakenOffer::wish() {
  counts_of_sender_.wishes.fetch_add(1, std::memory_order_relaxed);
  OfferWord::Step step = slot_.word.wish(record_.number, receiver_);
  --step.wishes;
  if (count(step)) return;
  throw gone();
}

TakenOffer::Outcome TakenOffer::proceed(std::byte* host) {
  if (event_ != nullptr) {
    if (!event_->passed()) return Outcome::open;
    end();
    if (failure_) throw Error(*failure_);
    return Outcome::in_place;
  }
  const OfferWord::Standing standing = slot_.word.standing();
  if (standing.number != record_.number || standing.phase == Phase::withdrawn) {
    throw gone();
  }
  if (standing.phase == Phase::failed) {
    throw Error(ErrorClass::other, "rank {} could not copy the message out of its GPU", record_.sender);
  }
  if (standing.phase != Phase::staged || !take_staged(host)) return Outcome::open;
  end();
  return Outcome::in_host;
}

bool TakenOffer::take_staged(std::byte* host) {
  if (image_ == nullptr) {
    image_ = services_.requests.host_memory.import(record_.sender, slot_.image,
                                                   static_cast<std::size_t>(record_.size_bytes));
  }
  const std::int64_t part_bytes = std::min(taken_at_once_bytes, record_.size_bytes - taken_bytes_);
  std::memcpy(host + taken_bytes_, image_ + taken_bytes_, static_cast<std::size_t>(part_bytes));
  taken_bytes_ += part_bytes;
  return taken_bytes_ == record_.size_bytes;
}

std::string TakenOffer::explain() const {
  if (event_ != nullptr) return fmt::format("is copied out of the memory of rank {}", record_.sender);
  return fmt::format("waits for rank {} to stage it", record_.sender);
}

}  // namespace partita
