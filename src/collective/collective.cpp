#include "collective/collective.hpp"

#include <algorithm>
#include <utility>

#include "collective/turn.hpp"
#include "core/current_error.hpp"
#include "partitioned/partition_range.hpp"

namespace partita::collective {

namespace {

/// What the other ranks must have made, too.
std::string purpose_of(const CollectiveArguments& arguments) {
  return fmt::format("{} {}", arguments.is_partitioned ? "partitioned" : "persistent", name_of(arguments.problem.kind));
}

/// Where the buffers lie, and so what the collective has of its own.
memory::Place home_of(const CollectiveArguments& arguments) {
  for (const std::vector<Block>* blocks : {&arguments.sent, &arguments.received}) {
    for (const Block& block : *blocks) {
      if (!memory::is_host(block.place.kind)) return {memory::Kind::device, block.place.device};
    }
  }
  return {};
}

/// The bytes of the largest copy from one place with gaps to another.
std::int64_t bytes_between_gaps(const Schedule& schedule, const CollectiveMemory& memory) {
  std::int64_t most = 0;
  for (const Action& action : schedule.actions) {
    if (action.deed != Deed::copy) continue;
    if (memory.spot(action.from, 0).layout != nullptr && memory.spot(action.to, 0).layout != nullptr) {
      most = std::max(most, action.from.bytes);
    }
  }
  return most;
}

std::unique_ptr<GpuWork> gpu_work(const RequestServices& services, const CollectiveArguments& arguments,
                                  const Schedule& schedule, const CollectiveMemory& memory) {
  const Home& home = memory.home();
  if (!home.is_gpu()) return nullptr;
  std::optional<GpuReduction> reduction;
  if (arguments.reduction.exists()) {
    reduction = gpu_reduction(arguments.reduction);
  }
  return std::make_unique<GpuWork>(services.host_blocks, services.device_memory, home.place.device, reduction,
                                   bytes_between_gaps(schedule, memory));
}

}  // namespace

Collective::Collective(const RequestServices& services, CollectiveArguments arguments)
    : Operation(arguments.is_partitioned ? Facets{.markable = arguments.sent.empty() ? nullptr : this,
                                                  .awaitable = arguments.received.empty() ? nullptr : this,
                                                  .kernel_usable = &device_}
                                         : Facets{},
                arguments.communicator),
      services_(services),
      arguments_(std::move(arguments)),
      device_(services, *this),
      algorithm_(choose(arguments_.problem, arguments_.algorithm, arguments_.tuning)),
      schedule_(algorithm_.write(arguments_.problem)),
      memory_({services.host_blocks, services.device_memory, home_of(arguments_)}, arguments_.partitions,
              arguments_.form, arguments_.sent, arguments_.received, schedule_.slot_bytes),
      gpu_(gpu_work(services, arguments_, schedule_, memory_)),
      meeting_(services, {arguments_.problem.rank, arguments_.communicator, arguments_.world_ranks, arguments_.link,
                          purpose_of(arguments_), &places_, arguments_.is_partitioned}),
      legs_of_(schedule_.actions.size()),
      deeds_(arguments_, schedule_, memory_, gpu_.get(), legs_of_),
      courses_(*this, schedule_, arguments_.partitions, side_by_side(schedule_, gpu_ != nullptr), deeds_),
      epoch_(services.settings.first_epoch),
      plan_(arguments_.partitions, arguments_.partitions, arguments_.partitions, 0) {
  make_legs();
}

Collective::~Collective() {
  services_.progress.dismiss(*this);
  if (gpu_ != nullptr) gpu_->close();
}

void Collective::make_legs() {
  for (std::size_t a = 0; a < schedule_.actions.size(); ++a) {
    const Action& action = schedule_.actions[a];
    if (!action.has_peer()) continue;
    const auto terms = [&](const Region& region) {
      return LegTerms{action.peer,
                      arguments_.world_ranks[static_cast<std::size_t>(action.peer)],
                      arguments_.communicator,
                      arguments_.link,
                      region,
                      purpose_of(arguments_),
                      &places_};
    };
    std::unique_ptr<Leg>& added = (action.is_empty() ? empty_legs_ : legs_).emplace_back();
    if (action.deed == Deed::send) {
      auto leg = std::make_unique<SendLeg>(services_, memory_, terms(action.from));
      if (!action.is_empty()) legs_of_.sends[a] = leg.get();
      added = std::move(leg);
    } else {
      auto leg = std::make_unique<ReceiveLeg>(services_, memory_, terms(action.to));
      if (!action.is_empty()) legs_of_.receives[a] = leg.get();
      added = std::move(leg);
    }
  }
}

void Collective::seek_peers() {
  seek_in_turn(*arguments_.communicator, places_, [this](bool& is_known) {
    const auto seek = [&](Leg& leg) {
      leg.seek_peer(services_.matcher);
      is_known = true;
    };
    auto leg = legs_.begin();
    auto empty_leg = empty_legs_.begin();
    for (const Action& action : schedule_.actions) {
      if (action.has_peer()) seek(**(action.is_empty() ? empty_leg : leg)++);
    }
    for (const auto& each : meeting_.legs()) seek(*each);
  });
}

bool Collective::matched() const {
  throw_if_failed();
  return all_have_met();
}

bool Collective::all_have_met() const {
  return empty_legs_have_met() && std::ranges::all_of(legs_, [](const auto& leg) { return leg->half().matched(); });
}

bool Collective::empty_legs_have_met() const {
  if (empty_legs_have_met_.load(std::memory_order_acquire)) return true;
  if (!std::ranges::all_of(empty_legs_, [](const auto& leg) { return leg->half().matched(); })) return false;
  empty_legs_have_met_.store(true, std::memory_order_release);
  return true;
}

/// Nothing has ended that the next epoch needs.
void Collective::check_startable() const {
  throw_if_over();
  for (const auto& leg : legs_) {
    if (leg->half().ending.loses(next(leg->half().epoch()))) throw leg->half().why_lost(explain());
  }
}

void Collective::start() {
  if (active()) {
    throw Error(ErrorClass::request, "the request is active already; complete it before it starts again. {}",
                explain());
  }
  try {
    check_startable();
  } catch (const std::exception&) {
    end_epoch(current_error());  // the others may have started, and wait for this rank
    throw;
  }
  if (const auto mistake = device_.untold_mistake()) {
    abandon(mistake);
    throw Error(*mistake);
  }
  if (gpu_ != nullptr) gpu_->open();
  deeds_.restart();
  courses_.restart(!arguments_.is_partitioned);
  for (ReceiveLeg* leg : legs_of_.receives) {
    if (leg != nullptr) leg->forget_seen();
  }
  try {
    for (const auto& leg : legs_) leg->half().start();
  } catch (const std::exception&) {
    // Some legs have begun an epoch that the others will not.
    end_epoch(current_error());
    throw;
  }
  epoch_ = next(epoch_);
  complete_.store(false, std::memory_order_relaxed);
  told_count_.store(0, std::memory_order_relaxed);
  if (device_.exists()) device_.side().start(epoch_);
  active_.store(true, std::memory_order_release);
  services_.progress.activate(*this);
  if (device_.exists()) device_.enter_epoch();
  meeting_.start();
  if (arguments_.is_partitioned) return;
  const Marking marking(marking_);
  courses_.walk_all();  // as a mark does
}

void Collective::mark(std::int64_t first, std::int64_t last) {
  check_partitions(first, last, arguments_.partitions);
  const Marking marking(marking_);
  if (!active()) {
    throw Error(ErrorClass::request, "the request is inactive; expected is an active one (call Start first)");
  }
  if (device_.exists()) {
    throw Error(ErrorClass::request,
                "the request has a device request, so kernels mark its partitions; free that before the host marks");
  }
  const std::int64_t end = courses_.mark({first, last + 1});
  if (end <= last) {
    throw Error(ErrorClass::arg, "partition {} was marked in this epoch already; expected is once per epoch", end);
  }
}

bool Collective::arrived(std::int64_t partition) {
  check_partition(partition, arguments_.partitions);
  throw_if_failed();
  if (!active()) {
    throw_if_over();  // what has not arrived by then never will
    return true;
  }
  if (courses_.is_over(partition)) return true;
  const bool lost = is_lost();
  services_.progress.poll();
  if (courses_.is_over(partition)) return true;
  if (lost) done();  // says why, if it matters
  return courses_.is_over(partition);
}

ActiveStep::Outcome Collective::step() noexcept {
  bool moved = false;
  try {
    enter_gpu();
    moved = courses_.walk_all();
    if (failed_.load(std::memory_order_acquire)) return Outcome::idle;
    if (gpu_ != nullptr && !moved) gpu_->check();
    if (everything_is_over()) {
      complete_.store(true, std::memory_order_release);
      return Outcome::idle;
    }
  } catch (const std::exception&) {
    could_not_go_on();
    return Outcome::idle;
  }
  return moved ? Outcome::moved : Outcome::waiting;
}

/// Under the engine's lock. Marks that have not returned still look at their courses, which the next epoch changes.
bool Collective::everything_is_over() {
  return courses_.all_are_over() && marking_.load(std::memory_order_acquire) == 0 && empty_legs_have_met() &&
         std::ranges::all_of(legs_, [](const auto& leg) { return leg->is_over(); });
}

bool Collective::is_lost() const {
  return std::ranges::any_of(legs_, [](const auto& leg) { return leg->half().is_lost(); });
}

bool Collective::done() {
  enter_gpu();
  throw_if_failed();
  return device_.exists() ? device_done() : has_completed();
}

/// Whether everything of the open epoch was done here and has left.
bool Collective::has_completed() {
  if (complete_.load(std::memory_order_acquire)) return true;
  const bool lost = is_lost();
  if (!lost && !courses_.all_are_over()) return false;
  // A last look, in the place of a step.
  const auto exclusive = services_.progress.exclusive();
  if (complete_.load(std::memory_order_acquire)) return true;
  courses_.walk_all();
  throw_if_failed();
  if (everything_is_over()) {
    services_.progress.dismiss(*this);
    complete_.store(true, std::memory_order_release);
    return true;
  }
  for (const auto& leg : legs_) {
    if (lost && leg->half().is_lost() && !leg->is_over()) throw leg->half().why_lost(explain());
  }
  return false;
}

bool Collective::prepared() {
  if (!active()) {
    throw Error(ErrorClass::request, "the request is inactive; expected is an active one (call Start first)");
  }
  if (!arguments_.is_partitioned) return matched();  // no marks are to come
  enter_gpu();
  throw_if_failed();
  const bool lost = is_lost();
  const bool prepared = meeting_.is_over() && empty_legs_have_met() &&
                        std::ranges::all_of(legs_, [](const auto& leg) { return leg->is_prepared(); });
  if (lost && !prepared) done();  // says why
  if (prepared && device_.exists() && facets().markable != nullptr) device_.tell_ready();
  return prepared;
}

void Collective::close() {
  device_.leave_epoch();
  for (const auto& leg : legs_) {
    Half& half = leg->half();
    if (!half.active()) continue;  // of a start that has failed
    half.record(Trace::Event::completed);
    half.set_active(false);
  }
  active_.store(false, std::memory_order_release);
}

void Collective::fill_status(MPI_Status* status) const {
  set_status(status, MPI_ANY_SOURCE, MPI_ANY_TAG, 0);
}

std::vector<Half*> Collective::halves() {
  std::vector<Half*> halves;
  halves.reserve(legs_.size() + empty_legs_.size());
  for (const auto* legs : {&legs_, &empty_legs_}) {
    for (const auto& leg : *legs) halves.push_back(&leg->half());
  }
  return halves;
}

std::vector<Half*> Collective::lingering_halves() {
  std::vector<Half*> halves;
  halves.reserve(meeting_.legs().size());
  for (const auto& leg : meeting_.legs()) halves.push_back(&leg->half());
  return halves;
}

}  // namespace partita::collective
