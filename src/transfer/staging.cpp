#include "transfer/staging.hpp"

#include <algorithm>

namespace partita {
namespace {

/// So many pieces of a receive are looked at in a step: they arrive more or less in their order, and a link may take
/// its time for each.
constexpr std::int64_t pieces_each_look = 16;

/// Neighbours are copied together up to here.
constexpr std::int64_t copy_bytes = 1024 * 1024;

std::unique_ptr<memory::Copies> copies_of(const Services& services, const Pieces& pieces,
                                          const std::optional<Stage>& stage) {
  if (!stage) return nullptr;
  return std::make_unique<memory::Copies>(services.host_blocks, services.device_memory, stage->device, pieces.count());
}

}  // namespace

// ---- sending -----------------------------------------------------------------------------------------------

StagedPuts::StagedPuts(const Services& services, Owner& owner, const Pieces& pieces, const std::optional<Stage>& stage)
    : progress_(services.progress),
      owner_(owner),
      pieces_(pieces),
      stage_(stage),
      copies_(copies_of(services, pieces, stage)),
      begun_(static_cast<std::size_t>(pieces.count())) {}

StagedPuts::~StagedPuts() {
  progress_.dismiss(*this);
}

void StagedPuts::put(link::Range transports, Epoch epoch) {
  if (!stage_) {
    owner_.put_pieces(pieces_.of(transports), epoch);
    return owner_.count_put(static_cast<std::int32_t>(transports.size()));
  }
  const std::lock_guard lock(mutex_);
  if (is_closed_) return;
  link::Range pieces = pieces_.of(transports);
  while (pieces.size() > 0) {
    const Copy copy = next_copy(pieces, transports, epoch);
    const link::Range bytes = pieces_.bytes(copy.pieces);
    copies_->begin(copy.pieces.end - 1, copy.pieces.end, epoch, stage_->in_host + bytes.begin,
                   stage_->on_gpu + bytes.begin, static_cast<std::size_t>(bytes.size()));
    const std::uint64_t place = begins_.load(std::memory_order_relaxed);
    begun_[place % begun_.size()] = copy;
    begins_.store(place + 1, std::memory_order_release);  // pairs with put_copied()
    pieces.begin = copy.pieces.end;
  }
  progress_.activate(*this);
}

/// The first of `pieces` that are worth a copy. Takes the transport partitions that end with them from `transports`.
StagedPuts::Copy StagedPuts::next_copy(link::Range pieces, link::Range& transports, Epoch epoch) const {
  Copy copy{pieces_.first_of(pieces, copy_bytes), 0, epoch};
  while (transports.size() > 0 && pieces_.of({transports.begin, transports.begin + 1}).end <= copy.pieces.end) {
    ++transports.begin;
    ++copy.transports;
  }
  return copy;
}

ActiveStep::Outcome StagedPuts::step() noexcept {
  try {
    return put_copied();
  } catch (const std::exception&) {
    put_no_more();
    owner_.could_not_put();
    return Outcome::idle;
  }
}

void StagedPuts::put_no_more() {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
}

/// Once the owner has counted the last transport partition, the next epoch may begin copies.
ActiveStep::Outcome StagedPuts::put_copied() {
  bool moved = false;
  while (puts_ < begins_.load(std::memory_order_acquire)) {
    const Copy copy = begun_[puts_ % begun_.size()];
    if (!copies_->filled(copy.pieces.end - 1, copy.epoch)) {
      if (!moved) check_copies();
      return moved ? Outcome::moved : Outcome::waiting;
    }
    owner_.put_pieces(copy.pieces, copy.epoch);
    moved = true;
    ++puts_;
    if (copy.transports > 0) owner_.count_put(copy.transports);
  }
  return Outcome::idle;
}

/// Another thread that begins copies at the moment would be told.
void StagedPuts::check_copies() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock.owns_lock()) copies_->check();
}

void StagedPuts::close() {
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    if (copies_ != nullptr) copies_->drain();
  }
  progress_.dismiss(*this);
}

// ---- receiving ---------------------------------------------------------------------------------------------

StagedArrivals::StagedArrivals(const Services& services, Owner& owner, link::Receiver& link,
                               const std::array<std::byte*, 2>& landings, const Pieces& pieces,
                               const std::optional<Stage>& stage)
    : progress_(services.progress),
      owner_(owner),
      link_(link),
      landings_(landings),
      pieces_(pieces),
      on_gpu_(stage ? stage->on_gpu : nullptr),
      copies_(copies_of(services, pieces, stage)),
      begun_(static_cast<std::size_t>(pieces.count()), no_epoch) {}

StagedArrivals::~StagedArrivals() {
  progress_.dismiss(*this);
}

void StagedArrivals::open(Epoch epoch) {
  if (copies_ == nullptr) return;
  const std::lock_guard lock(mutex_);
  epoch_ = epoch;
  next_ = 0;
  arrived_ = 0;
  progress_.activate(*this);
}

bool StagedArrivals::arrived(link::Range transports, Epoch epoch) {
  const link::Range pieces = pieces_.of(transports);
  if (copies_ == nullptr) {
    return link_.first_missing(pieces, epoch) == pieces.end;
  }
  if (filled(pieces, epoch)) return true;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return false;  // another thread is at it
  if (!begin_copies(pieces)) copies_->check();
  return filled(pieces, epoch);
}

bool StagedArrivals::filled(link::Range pieces, Epoch epoch) const {
  return link::first_not(pieces, [&](std::int64_t piece) { return copies_->filled(piece, epoch); }) == pieces.end;
}

/// Begins those of pieces that have arrived, and with the last one its neighbours behind, which have probably come
/// with it; returns whether there was one. Under the lock, as the next ones.
bool StagedArrivals::begin_copies(link::Range pieces) {
  link::Range run;
  bool one = false;
  for (std::int64_t piece = pieces.begin; piece < pieces.end && !is_closed_; ++piece) {
    if (begun_[static_cast<std::size_t>(piece)] == epoch_ || !link_.arrived(static_cast<std::int32_t>(piece), epoch_)) {
      continue;
    }
    one = true;
    const bool joins = run.size() > 0 && run.end == piece && pieces_.bytes(run).size() < copy_bytes;
    if (!joins) {
      begin_copy(run);
      run.begin = piece;
    }
    run.end = piece + 1;
  }
  if (run.size() > 0 && run.end == pieces.end) add_arrived(run);
  begin_copy(run);
  return one;
}

/// Up to what is worth a copy.
void StagedArrivals::add_arrived(link::Range& run) {
  while (run.end < pieces_.count() && pieces_.bytes(run).size() < copy_bytes &&
         begun_[static_cast<std::size_t>(run.end)] != epoch_ &&
         link_.arrived(static_cast<std::int32_t>(run.end), epoch_)) {
    ++run.end;
  }
}

void StagedArrivals::begin_copy(link::Range pieces) {
  if (pieces.size() == 0) return;
  const link::Range bytes = pieces_.bytes(pieces);
  copies_->begin(pieces.begin, pieces.end, epoch_, on_gpu_ + bytes.begin, landings_[epoch_ % 2] + bytes.begin,
                 static_cast<std::size_t>(bytes.size()));
  std::fill(begun_.begin() + pieces.begin, begun_.begin() + pieces.end, epoch_);
}

bool StagedArrivals::begin_next_copies() {
  while (next_ < pieces_.count() && begun_[static_cast<std::size_t>(next_)] == epoch_) ++next_;
  return begin_copies({next_, std::min<std::int64_t>(next_ + pieces_each_look, pieces_.count())});
}

ActiveStep::Outcome StagedArrivals::step() noexcept {
  try {
    return copy_arrived();
  } catch (const std::exception&) {
    owner_.could_not_take();
    return Outcome::idle;
  }
}

ActiveStep::Outcome StagedArrivals::copy_arrived() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return Outcome::waiting;
  const bool begun = begin_next_copies();
  while (arrived_ < pieces_.count() && copies_->filled(arrived_, epoch_)) ++arrived_;
  if (arrived_ == pieces_.count()) return Outcome::idle;
  if (!begun) copies_->check();
  return begun ? Outcome::moved : Outcome::waiting;
}

void StagedArrivals::close() {
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    if (copies_ != nullptr) copies_->drain();
  }
  progress_.dismiss(*this);
}

}  // namespace partita
