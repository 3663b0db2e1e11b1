#include "two_sided/offers.hpp"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>
#include <variant>

#include "core/current_error.hpp"
#include "core/element_block.hpp"
#include "core/log.hpp"
#include "two_sided/offer_promises.hpp"

namespace partita {
namespace {

constexpr std::size_t slots_at_once = 64;
/// So many of what was left a step of the engine looks at, which has others to take.
constexpr std::size_t looks_at_once = 16;

constexpr const char* waits_for_socket = "descriptors of what it would name wait for room in its receiver's socket";

bool is_offered(MessageCall call) {
  switch (call) {
    case MessageCall::isend:
    case MessageCall::issend:
    case MessageCall::irsend:
    case MessageCall::send_init:
    case MessageCall::ssend_init:
    case MessageCall::rsend_init:
      return true;
    default:
      return false;
  }
}

}  // namespace

Offers::Offers(const OfferServices& services)
    : services_(services),
      probed_(services.mark),
      posted_(services.requests.progress, [this] { return services_.counts.any_unmet(); }),
      sent_(services.requests.progress, [this] { return services_.counts.any_wishes(); }) {
  if (!services_.from_bytes) return;
  mappings_ = std::make_unique<PeerMappings>(services_.requests.device_memory);
  services_.requests.progress.add([this] { return free_what_was_left(); });
}

/// All ranks have come to the end: nobody uses what was left.
Offers::~Offers() {
  left_.clear();
  left_count_ = 0;
  for (std::byte* const block : slot_blocks_)
    services_.requests.host_blocks.free_block(block, slots_at_once * sizeof(OfferSlot));
}

void Offers::turn_on() {
  if (!services_.from_bytes) return;
  probed_.open();
  on_.store(true, std::memory_order_relaxed);
}

std::optional<OfferedMemory> Offers::offered(const TwoSidedArguments& arguments, Communicator* communicator,
                                             std::string& why_not) {
  if (!on() || communicator == nullptr || !is_offered(arguments.call) || arguments.rank < 0) return {};
  const RequestServices& requests = services_.requests;
  const memory::Place place =
      place_of_elements(requests.device_memory, arguments.buffer, arguments.count, arguments.datatype);
  if (place.kind != memory::Kind::device) return {};
  OfferedMemory found{arguments.buffer, arguments.count, Layout::of(arguments.datatype), place.device};
  if (!found.layout.contiguous() || !services_.from_bytes || found.size_bytes() < *services_.from_bytes) return {};
  const std::vector<int>& peers = communicator->peers(requests.world);
  if (static_cast<std::size_t>(arguments.rank) >= peers.size()) return {};
  found.receiver = peers[static_cast<std::size_t>(arguments.rank)];
  if (found.receiver == MPI_UNDEFINED || found.receiver == requests.world.rank() ||
      !requests.world.on_my_node(found.receiver))
    return {};
  using Takes = Communicator::Takes;
  if (communicator->offers == Takes::unknown)
    communicator->offers = takes_offers_on(communicator->handle) ? Takes::yes : Takes::no;
  if (communicator->offers == Takes::no) return {};
  found.is_synchronous = arguments.call == MessageCall::issend || arguments.call == MessageCall::ssend_init;
  try {
    services_.counts.of(found.receiver);  // they can be written
    auto named = requests.device_memory.name_to(found.receiver, shifted(found.buffer, found.layout.first_byte()),
                                                static_cast<std::size_t>(found.size_bytes()));
    if (const auto* const obstacle = std::get_if<memory::NotMappable>(&named)) {
      why_not = obstacle->reason;
    } else if (!requests.world.socket().flush(found.receiver)) {
      why_not = waits_for_socket;
    } else {
      if (!is_persistent(arguments.call)) found.name = std::get<memory::DevicePiece>(named);
      return found;
    }
  } catch (const std::exception&) {
    why_not = current_error().sentence();
  }
  tell(why_not);
  return {};
}

/// There is memory for it to be left from here on.
std::unique_ptr<SentOffer> Offers::offer(const OfferedMemory& memory) {
  OfferSlot& slot = take_slot();
  std::unique_ptr<SentOffer> made;
  try {
    made =
        std::make_unique<SentOffer>(services_, staging_room_, sent_, memory, ++offers_ % OfferWord::most_numbers, slot);
    if (services_.requests.world.socket().flush(memory.receiver)) {
      made->open();
      return made;
    }
  } catch (...) {
    made = nullptr;
    give_back(slot);
    throw;
  }
  free(std::move(made));
  tell(waits_for_socket);
  return {};
}

void Offers::give_back(OfferSlot& slot) noexcept {
  const std::lock_guard lock(mutex_);
  free_slots_.push_back(&slot);
}

OfferSlot& Offers::take_slot() {
  const std::lock_guard lock(mutex_);
  if (free_slots_.empty()) {
    free_slots_.reserve(slots_ + slots_at_once);
    left_.reserve(slots_ + slots_at_once);
    slot_blocks_.reserve(slot_blocks_.size() + 1);
    std::byte* const block = services_.requests.host_blocks.allocate_block(slots_at_once * sizeof(OfferSlot));
    slot_blocks_.push_back(block);
    slots_ += slots_at_once;
    for (std::size_t i = 0; i < slots_at_once; ++i) {
      free_slots_.push_back(new (block + i * sizeof(OfferSlot)) OfferSlot);
    }
  }
  OfferSlot* const slot = free_slots_.back();
  free_slots_.pop_back();
  return *slot;
}

/// The slot may serve again at once: who comes late finds another number there.
void Offers::free(std::unique_ptr<SentOffer> offer) noexcept {
  OfferSlot& slot = offer->slot();
  offer.reset();
  give_back(slot);
}

void Offers::leave(std::unique_ptr<SentOffer> offer) noexcept {
  if (offer == nullptr) return;
  if (offer->is_over()) return free(std::move(offer));
  const std::lock_guard lock(mutex_);
  left_.push_back(std::move(offer));
  left_count_.store(left_.size(), std::memory_order_relaxed);
}

/// One at a time, and without the lock: its end waits for the engine's, which whoever calls this holds.
bool Offers::free_what_was_left() {
  if (left_count_.load(std::memory_order_relaxed) == 0) return false;
  std::unique_ptr<SentOffer> over;
  {
    const std::lock_guard lock(mutex_);
    const auto now = std::chrono::steady_clock::now();
    const bool asks_for_the_dead = now >= next_look_at_ranks_;
    if (asks_for_the_dead) next_look_at_ranks_ = now + std::chrono::seconds(1);
    const auto is_to_go = [&](const std::unique_ptr<SentOffer>& offer) {
      return offer->is_over() || (asks_for_the_dead && services_.requests.world.has_ended(offer->receiver()));
    };
    const std::size_t looks = asks_for_the_dead ? left_.size() : std::min(left_.size(), looks_at_once);
    for (std::size_t look = 0; look < looks && over == nullptr; ++look) {
      next_look_ = (next_look_ + 1) % left_.size();
      if (is_to_go(left_[next_look_])) over = std::exchange(left_[next_look_], std::move(left_.back()));
    }
    if (over == nullptr) return false;
    left_.pop_back();
    left_count_.store(left_.size(), std::memory_order_relaxed);
  }
  free(std::move(over));
  return true;
}

void Offers::tell(const std::string& why_not) {
  if (!services_.requests.settings.verbose) return;
  {
    const std::lock_guard lock(mutex_);
    if (!told_.insert(why_not).second) return;
  }
  log("a message in GPU memory goes through host memory: {}", why_not);
}

}  // namespace partita
