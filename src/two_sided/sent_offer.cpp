#include "two_sided/sent_offer.hpp"

#include <utility>
#include <variant>

#include "core/current_error.hpp"
#include "core/element_block.hpp"

namespace partita {
namespace {

using Phase = OfferWord::Phase;
using Clock = std::chrono::steady_clock;

/// How long a receiver may take that is ready, and whose engine has just gone to sleep; and how long staging takes.
Clock::duration patience(std::int64_t size_bytes) {
  constexpr std::int64_t receiver_us = 2'000;
  constexpr std::int64_t bytes_per_us = 10'000;  // PCIe at half its speed
  return std::chrono::microseconds(receiver_us + size_bytes / bytes_per_us);
}

}  // namespace

/// A handle is one of memory from the first byte on.
SentOffer::SentOffer(const OfferServices& services, StagingRoom& room, LooksInTurn& sent, OfferedMemory memory,
                     std::uint64_t number, OfferSlot& slot)
    : services_(services),
      room_(room),
      sent_(sent),
      memory_(std::move(memory)),
      slot_(slot),
      counts_of_receiver_(services.counts.of(memory_.receiver)) {
  const RequestServices& requests = services_.requests;
  record_.number = number;
  record_.sender = requests.world.rank();
  record_.size_bytes = memory_.size_bytes();
  record_.slot = requests.host_memory.export_to(memory_.receiver, reinterpret_cast<std::byte*>(&slot));
  record_.gpu_memory = memory_.name;
  if (!memory_.name) {
    auto named = requests.device_memory.name_to(memory_.receiver, shifted(memory_.buffer, memory_.layout.first_byte()),
                                                static_cast<std::size_t>(record_.size_bytes));
    if (const auto* const piece = std::get_if<memory::DevicePiece>(&named)) record_.gpu_memory = *piece;
  }
}

/// Whoever finds the record counts it as met, so that it counts before.
void SentOffer::open() {
  slot_.word.offer(record_.number);
  counts_of_receiver_.unmet.fetch_add(1, std::memory_order_relaxed);
  sent_.add(*this);
}

SentOffer::~SentOffer() {
  sent_.remove(*this);
  std::unique_lock(mutex_).unlock();  // who has held it has let it go
  services_.requests.progress.dismiss(*this);
  image_ = nullptr;
  if (has_room_) room_.give_back(record_.size_bytes);
}

/// Returns whether the step was made.
bool SentOffer::count(OfferWord::Step step) {
  if (step.met) counts_of_receiver_.unmet.fetch_sub(1, std::memory_order_relaxed);
  if (step.wishes != 0) services_.counts.own().wishes.fetch_add(step.wishes, std::memory_order_relaxed);
  return step.made;
}

OfferRecord::Bytes SentOffer::record() const {
  return record_.written(services_.mark);
}

bool SentOffer::settled() {
  const std::lock_guard lock(mutex_);
  proceed();
  if (failure_) throw Error(*failure_);
  const OfferWord::Standing standing = slot_.word.standing();
  switch (standing.phase) {
    case Phase::ended:
      return true;
    case Phase::staged:
      return !memory_.is_synchronous || standing.receiver >= 0;
    case Phase::open: {
      const Clock::time_point now = Clock::now();
      if (!waited_since_) waited_since_ = now;
      if (now - *waited_since_ > patience(record_.size_bytes)) stage_for_nobody();
      return false;
    }
    default:
      return false;
  }
}

bool SentOffer::look_and_let_go() noexcept {
  const std::lock_guard lock(mutex_, std::adopt_lock);
  const Phase before = slot_.word.standing().phase;
  proceed();
  const Phase phase = slot_.word.standing().phase;
  if (phase != Phase::open && phase != Phase::claimed && phase != Phase::wished) sent_.remove(*this);
  return phase != before;
}

/// What is staged, or cannot be, needs no more steps: the receiver has all that it gets.
ActiveStep::Outcome SentOffer::step() noexcept {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return Outcome::waiting;
  proceed();
  return slot_.word.standing().phase == Phase::staging ? Outcome::waiting : Outcome::idle;
}

void SentOffer::proceed() {
  if (slot_.word.standing().phase == Phase::wished && count(slot_.word.stage())) begin_staging();
  if (slot_.word.standing().phase == Phase::staging) finish_staging();
}

void SentOffer::stage_for_nobody() {
  if (!room_.take(record_.size_bytes)) return;
  has_room_ = count(slot_.word.stage());
  if (has_room_) return begin_staging();
  room_.give_back(record_.size_bytes);  // a receiver has just come
}

/// Nothing is left to be wished.
void SentOffer::begin_staging() {
  sent_.remove(*this);
  try {
    image_ =
        std::make_unique<HostImage>(services_.lanes, memory_.device, memory_.buffer, memory_.count, memory_.layout);
    image_->begin_fetch();
  } catch (const std::exception&) {
    fail();
    return;
  }
  services_.requests.progress.activate(*this);
}

/// Later, where the descriptor of the image has to wait.
void SentOffer::finish_staging() {
  try {
    if (!image_->settled()) return;
    slot_.image = services_.requests.host_memory.export_to(memory_.receiver, image_->bytes());
    if (!services_.requests.world.socket().flush(memory_.receiver)) return;
    slot_.word.finish_staging(true);
  } catch (const std::exception&) {
    fail();
  }
}

void SentOffer::fail() {
  failure_ = current_error();
  slot_.word.finish_staging(false);
}

bool SentOffer::withdraw() {
  return count(slot_.word.withdraw());
}

bool SentOffer::is_over() const {
  const Phase phase = slot_.word.standing().phase;
  return phase == Phase::ended || phase == Phase::withdrawn;
}

std::string SentOffer::explain() const {
  switch (slot_.word.standing().phase) {
    case Phase::claimed:
      return fmt::format("is copied by the GPU of rank {}", memory_.receiver);
    case Phase::wished:
    case Phase::staging:
      return fmt::format("is staged for rank {}", memory_.receiver);
    default:
      return fmt::format("waits for rank {} to receive it", memory_.receiver);
  }
}

}  // namespace partita
