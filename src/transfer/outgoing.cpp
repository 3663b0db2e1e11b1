#include "transfer/outgoing.hpp"

#include <bit>
#include <utility>

#include "core/backoff.hpp"

namespace partita {

namespace {

/// Held for a short time by one of two threads.
class ShortLock {
 public:
  explicit ShortLock(std::atomic<bool>& taken) : taken_(taken) {
    while (taken_.exchange(true, std::memory_order_acquire)) cpu_relax();
  }
  ~ShortLock() { taken_.store(false, std::memory_order_release); }
  ShortLock(const ShortLock&) = delete;
  ShortLock& operator=(const ShortLock&) = delete;

 private:
  std::atomic<bool>& taken_;
};

}  // namespace

Outgoing::Outgoing(const Services& services, User& user, HalfTerms terms)
    : Half(services, user, std::move(terms)), gathering_(shape().partitions()) {
  if (!terms_.packed_apart) return;
  if (in_gpu_memory()) {
    packed_apart_ = allocate_packed_on_gpu();
  } else {
    packed_memory_.resize(static_cast<std::size_t>(shape().total_bytes()));
    packed_apart_ = packed_memory_.data();
  }
}

/// A step, or a look at what waits, may still have it, though nothing of it is left to leave.
Outgoing::~Outgoing() {
  services_.progress.dismiss(*this);
  stop_holding();
}

std::optional<link::Obstacle> Outgoing::connect(const link::Plan& plan, const link::Plan& wire, std::int32_t transfers,
                                                std::unique_ptr<link::Sender>& link, memory::Kind form,
                                                std::string link_name, std::string reason,
                                                std::span<const std::byte> answer) {
  const std::lock_guard lock(setup_mutex());
  link_ = std::move(link);  // it stays where the connection fails: the receiver may write to it
  auto connected = link_->connect(wire, packed_data(form), answer);
  if (auto* obstacle = std::get_if<link::Obstacle>(&connected)) {
    link = std::move(link_);
    return std::move(*obstacle);
  }
  facts_ = std::get<link::SenderFacts>(connected);
  take_match(plan, std::move(link_name), std::move(reason));
  if (const auto stage = this->stage(form); stage || wire != plan) {
    StagedPuts::Owner& owner = *this;
    staged_ = std::make_unique<StagedPuts>(services_, owner, Pieces(plan, wire), stage);
  }
  deferred_ = PartitionSet(plan.transport_partitions());
  gathering_.connect(plan, transfers, staged_ == nullptr ? facts_.hold_board : std::nullopt);
  const std::vector<link::Range> kept = active() ? gathering_.take_kept() : std::vector<link::Range>{};
  pace_.ignore_epoch();
  finish_match();
  // Other threads may complete partitions again, and need not wait for these bytes.
  for (const link::Range run : kept) submit(run);
  return {};
}

void Outgoing::start() {
  start_with([this] { begin(); }, [this] { open(); });
}

void Outgoing::begin() {
  put_count_.store(0, std::memory_order_relaxed);
  const bool may_hold = matched() && gathering_.may_hold() && (gathering_.is_shown() || services_.holds.possible());
  const bool holds = may_hold && holds_next_epoch();
  measures_ = may_hold && !holds;
  if (!is_listed_) return gathering_.begin(holds, epoch());
  const ShortLock lock(looking_);
  epochs_opened_.store(epochs_opened() + 1, std::memory_order_relaxed);
  gathering_.begin(holds, epoch());
}

/// Whether the partitions of the next epoch wait for their neighbours: they are expected soon, and somebody ends the
/// wait where they do not come.
bool Outgoing::holds_next_epoch() {
  if (!pace_.next_epoch_holds(gathering_.holds())) {
    stop_holding();
    return false;
  }
  if (!is_listed_ && !gathering_.is_shown()) {
    services_.holds.add(*this);
    is_listed_ = true;
  }
  return true;
}

void Outgoing::stop_holding() {
  if (!std::exchange(is_listed_, false)) return;
  services_.holds.remove(*this);
}

std::int32_t Outgoing::held_partitions() const {
  return shape().partitions() == 1 ? 0 : shape().partitions();
}

bool Outgoing::go_on(std::int64_t partition, Gathering::Added added) {
  const auto leave_now = [this](link::Range run) { leave(run); };
  const auto hold = [this] { look_after_held(); };
  if (added == Gathering::Added::held) hold();
  if (added == Gathering::Added::completes) gathering_.leave_with(partition, leave_now, hold);
  return added != Gathering::Added::already_there;
}

std::int64_t Outgoing::complete(link::Range range) {
  if (!matched()) {
    const std::lock_guard lock(setup_mutex());
    if (!matched()) return gathering_.keep(range);
  }
  return gathering_.add(range, [this](link::Range run) { leave(run); }, [this] { look_after_held(); });
}

void Outgoing::leave_measured(link::Range run) {
  pace_.before_leaving();
  submit(run);
  pace_.after_leaving();
}

/// Something waits since now: where nobody would end that, it leaves.
void Outgoing::look_after_held() {
  if (gathering_.is_shown()) return pace_.begin_wait();
  if (services_.holds.awake()) return;
  services_.holds.wake();
  leave_held();
}

void Outgoing::leave_held() {
  gathering_.leave_held([this](link::Range run) { submit(run); });
}

std::uint64_t Outgoing::held() {
  const ShortLock lock(looking_);
  return held_in_this_epoch();
}

/// The epoch is part of the number: what a look has seen are not the partitions of another epoch.
std::uint64_t Outgoing::held_in_this_epoch() const {
  const std::uint64_t held = gathering_.holds() ? gathering_.held() : 0;
  return held == 0 ? 0 : (held * 31 + epochs_opened()) | 1;
}

void Outgoing::end_hold(std::uint64_t seen) noexcept {
  try {
    const ShortLock lock(looking_);
    if (held_in_this_epoch() != seen) return;
    pace_.wait_was_too_long();
    leave_held();
  } catch (const std::exception&) {
    // The half has failed, on both sides.
  }
}

/// Where the bytes lie that the link moves from memory of kind `form`.
std::byte* Outgoing::packed_data(memory::Kind form) {
  for (const link::Endpoint& endpoint : endpoints()) {
    if (memory::is_host(endpoint.kind) == memory::is_host(form)) return allocated(endpoint).data;
  }
  throw Error(ErrorClass::internal, "a link was connected for memory that this send does not have");
}

void Outgoing::submit(link::Range run) {
  if (run.size() == 0 || given_up()) return;
  or_fail([&] {
    check_receiver();
    if (link_->ready(epoch())) return put(run);
    record(Trace::Event::deferred, run);
    PartitionSet::for_each_part(run,
                                [this](link::Range part) { deferred_.claim(part.begin, PartitionSet::mask(part)); });
    deferred_count_.fetch_add(static_cast<std::int32_t>(run.size()), std::memory_order_release);
    services_.progress.activate(*this);
  });
}

/// Whether it still takes this epoch: once it is freed, its memory is the program's again.
void Outgoing::check_receiver() const {
  if (is_lost() || peer_freed) throw why_lost();
}

/// What was complete and could not be put is put by nobody else: the half fails, on both sides.
template <class Body>
auto Outgoing::or_fail(Body body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::exception&) {
    throw Error(fail_with_current("could not send"));
  }
}

void Outgoing::put(link::Range run) {
  if (run.size() == 0) return;
  if (in_gpu_memory()) services_.device_memory.make_current(terms_.place.device);
  record(Trace::Event::issued, run);
  if (staged_ != nullptr) return staged_->put(run, epoch());
  link_->put(run, epoch());
  count_put(static_cast<std::int32_t>(run.size()));
}

void Outgoing::put_pieces(link::Range pieces, Epoch epoch) {
  check_receiver();
  link_->put(pieces, epoch);
}

void Outgoing::could_not_put() noexcept {
  try {
    fail_with_current("could not send");
  } catch (const std::exception&) {
    // There is no memory to tell it.
  }
}

bool Outgoing::flush() {
  if (deferred_count_.load(std::memory_order_acquire) == 0) return true;
  // Deferred by a thread that was completing partitions while another gave the epoch up. No flush runs during the
  // latter.
  if (given_up()) return true;
  return or_fail([this] { return flush_deferred(); });
}

ActiveStep::Outcome Outgoing::step() noexcept {
  try {
    return flush() ? Outcome::idle : Outcome::waiting;
  } catch (const std::exception&) {
    return Outcome::idle;  // the half has failed, on both sides
  }
}

bool Outgoing::flush_deferred() {
  const auto leave = [this](link::Range complete) { put(complete); };
  link::Range run;
  for (std::int64_t first = 0; first < plan().transport_partitions(); first += PartitionSet::bits) {
    const std::uint64_t taken = deferred_.take(first);
    if (taken == 0) continue;
    // Whoever has taken them asks: another thread may have put all of the last epoch meanwhile, and these are the next
    // one's, for which an answer from before says nothing. Nor does the end of a receiver matter that has all.
    if (is_lost() || peer_freed) {
      deferred_.claim(first, taken);
      throw why_lost();
    }
    if (!link_->ready(epoch())) {
      deferred_.claim(first, taken);
      put(run);
      return false;
    }
    deferred_count_.fetch_sub(std::popcount(taken), std::memory_order_relaxed);
    PartitionSet::join_all(run, first, taken, leave);
  }
  put(run);
  return deferred_count_.load(std::memory_order_acquire) == 0;
}

void Outgoing::give_up_epoch() {
  if (!matched()) return;
  withdraw();
  deferred_.clear();
  deferred_count_.store(0, std::memory_order_relaxed);
  link_->give_up(epoch());
}

void Outgoing::withdraw() {
  services_.progress.dismiss(*this);
  stop_holding();
  StagedPuts* staged = nullptr;
  {
    const auto exclusive = services_.progress.exclusive();  // a step may make the match
    staged = staged_.get();
  }
  if (staged != nullptr) staged->close();
}

void Outgoing::release_memory() {
  if (link_ != nullptr) link_->release_memory();
}

}  // namespace partita
