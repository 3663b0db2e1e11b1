#include "collective/collective.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "collective/turn.hpp"
#include "core/current_error.hpp"
#include "partitioned/listed.hpp"
#include "partitioned/partition_range.hpp"

namespace partita::collective {

namespace {

/// How often a partition reads what the result of another one lies over: the shares of a reduce_scatter in place whose
/// blocks differ.
std::int64_t reads_under_results(const CollectiveArguments& arguments, const Schedule& schedule) {
  const std::vector<std::int64_t>& blocks = arguments.problem.scattered;
  const bool differ = std::ranges::adjacent_find(blocks, std::ranges::not_equal_to()) != blocks.end();
  if (!arguments.problem.in_place || !differ || arguments.partitions == 1) return 0;
  return std::ranges::count_if(schedule.actions, [](const Action& action) {
    return (action.deed == Deed::copy || action.deed == Deed::reduce) && action.from.buffer == Buffer::sent;
  });
}

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

/// Of the largest copy from one place with gaps to another.
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
      order_(schedule_),
      memory_({services.host_blocks, services.device_memory, home_of(arguments_)}, arguments_.partitions,
              arguments_.form, arguments_.sent, arguments_.received, schedule_.slot_bytes),
      gpu_(gpu_work(services, arguments_, schedule_, memory_)),
      meeting_(services, {arguments_.problem.rank, arguments_.communicator, arguments_.world_ranks, arguments_.link,
                          purpose_of(arguments_), &places_, arguments_.is_partitioned}),
      send_of_(schedule_.actions.size()),
      receive_of_(schedule_.actions.size()),
      reads_under_results_(reads_under_results(arguments_, schedule_)),
      epoch_(services.settings.first_epoch),
      plan_(arguments_.partitions, arguments_.partitions, arguments_.partitions, 0) {
  for (int p = 0; p < arguments_.partitions; ++p) courses_.emplace_back(order_);
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
      if (!action.is_empty()) send_of_[a] = leg.get();
      added = std::move(leg);
    } else {
      auto leg = std::make_unique<ReceiveLeg>(services_, memory_, terms(action.to));
      if (!action.is_empty()) receive_of_[a] = leg.get();
      added = std::move(leg);
    }
  }
}

template <class Body>
void Collective::for_each_leg(Body body) const {
  for (const auto& leg : legs_) body(*leg);
  for (const auto& leg : meeting_.legs()) body(*leg);
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
  for (Course& course : courses_) {
    course.begun.clear();
    course.running.clear();
    course.walk.restart([&](int action) { course.begun.push_back(action); });
    course.marked.store(!arguments_.is_partitioned, std::memory_order_relaxed);
    course.over.store(course.walk.is_over(), std::memory_order_relaxed);
  }
  unread_.store(reads_under_results_ * arguments_.partitions, std::memory_order_relaxed);
  for (ReceiveLeg* leg : receive_of_) {
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
  walk_if_free(0);  // as a mark does
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
  for (std::int64_t p = first; p <= last; ++p) {
    if (!mark_one(p)) {
      throw Error(ErrorClass::arg, "partition {} was marked in this epoch already; expected is once per epoch", p);
    }
  }
}

/// False: it was marked before. The caller is counted in marking_.
bool Collective::mark_one(std::int64_t partition) {
  Course& course = courses_[static_cast<std::size_t>(partition)];
  if (course.marked.exchange(true, std::memory_order_acq_rel)) return false;
  // Whoever walks it now looks once more.
  if (course.calls.fetch_add(1, std::memory_order_acq_rel) == 0) walk(static_cast<int>(partition), course);
  return true;
}

bool Collective::arrived(std::int64_t partition) {
  check_partition(partition, arguments_.partitions);
  throw_if_failed();
  if (!active()) {
    throw_if_over();  // what has not arrived by then never will
    return true;
  }
  const Course& course = courses_[static_cast<std::size_t>(partition)];
  if (course.over.load(std::memory_order_acquire)) return true;
  const bool lost = is_lost();
  services_.progress.poll();
  if (course.over.load(std::memory_order_acquire)) return true;
  if (lost) done();  // says why, if it matters
  return course.over.load(std::memory_order_acquire);
}

/// The calling thread has taken the course: its calls were none.
bool Collective::walk(int partition, Course& course) {
  bool moved = false;
  int seen = 0;
  do {
    seen = course.calls.load(std::memory_order_acquire);
    moved |= walk_on(partition, course);
  } while (!course.calls.compare_exchange_strong(seen, 0, std::memory_order_acq_rel));
  return moved;
}

/// Walks a course that nobody walks and that is not over; returns whether something was done.
bool Collective::walk_if_free(int partition) {
  Course& course = courses_[static_cast<std::size_t>(partition)];
  int none = 0;
  if (course.over.load(std::memory_order_acquire) ||
      !course.calls.compare_exchange_strong(none, 1, std::memory_order_acq_rel)) {
    return false;
  }
  return walk(partition, course);
}

bool Collective::walk_on(int partition, Course& course) {
  bool moved = false;
  bool runs_more = false;
  const auto begin = [&course](int other) { course.begun.push_back(other); };
  try {
    moved = end_running(partition, course);
    for (std::size_t i = 0; i < course.begun.size() && !failed_.load(std::memory_order_acquire);) {
      const int action = course.begun[i];
      const Attempt attempt = try_action(partition, course, action);
      if (attempt.result == Result::waits) {
        ++i;
        continue;
      }
      moved = true;
      course.begun[i] = course.begun.back();
      course.begun.pop_back();
      if (attempt.result == Result::runs) {
        runs_more = true;
        course.running.push_back({action, attempt.ticket});
        course.walk.release(action, [this](int other) { return is_on_stream(other); }, begin);
        continue;
      }
      actions_done_.fetch_add(1, std::memory_order_relaxed);
      course.walk.finish(action, begin);
    }
    if (runs_more) gpu_->flush();
  } catch (const std::exception&) {
    fail_with_current();
  }
  if (course.walk.is_over()) course.over.store(true, std::memory_order_release);
  return moved;
}

/// Finishes what the GPU has ended of it; returns whether there was something.
bool Collective::end_running(int partition, Course& course) {
  bool moved = false;
  for (std::size_t i = 0; i < course.running.size();) {
    const auto [action, ticket] = course.running[i];
    if (!gpu_->ended(ticket)) {
      ++i;
      continue;
    }
    moved = true;
    course.running[i] = course.running.back();
    course.running.pop_back();
    if (SendLeg* const leg = send_of_[static_cast<std::size_t>(action)]) leg->leave(partition);
    actions_done_.fetch_add(1, std::memory_order_relaxed);
    // The others were released when it was begun.
    course.walk.release(
        action, [this](int other) { return !is_on_stream(other); },
        [&course](int other) { course.begun.push_back(other); });
    course.walk.end();
  }
  return moved;
}

/// Whether the stream does it, behind all that was begun before.
bool Collective::is_on_stream(int place) const {
  const auto at = static_cast<std::size_t>(place);
  const Deed deed = schedule_.actions[at].deed;
  return deed == Deed::copy || deed == Deed::reduce || (deed == Deed::send && send_of_[at]->packs());
}

Collective::Attempt Collective::try_action(int partition, Course& course, int place) {
  const auto at = static_cast<std::size_t>(place);
  const Action& action = schedule_.actions[at];
  if (action.deed == Deed::mark) {
    return {course.marked.load(std::memory_order_acquire) ? Result::done : Result::waits};
  }
  if (gpu_ != nullptr) return try_on_gpu(partition, place);
  switch (action.deed) {
    case Deed::receive:
      return {receive_of_[at]->take(partition) ? Result::done : Result::waits};
    case Deed::send:
      send_of_[at]->send(partition);
      break;
    case Deed::copy:
      if (!may_write(action.to)) return {Result::waits};
      memory_.copy(action.from, action.to, partition);
      count_read(action.from);
      break;
    case Deed::reduce:
      arguments_.reduction.apply(memory_.operand(action.from, partition), memory_.operand(action.to, partition),
                                 action.from.bytes, arguments_.problem.unit_bytes);
      count_read(action.from);
      break;
    case Deed::mark:
      break;
  }
  return {Result::done};
}

/// All but the mark.
Collective::Attempt Collective::try_on_gpu(int partition, int place) {
  const auto at = static_cast<std::size_t>(place);
  const Action& action = schedule_.actions[at];
  switch (action.deed) {
    case Deed::receive:
      if (!receive_of_[at]->has_arrived(partition)) return {Result::waits};
      if (const auto move = receive_of_[at]->unpacking(partition)) return {Result::runs, gpu_->copy(*move)};
      break;
    case Deed::send:
      if (const auto move = send_of_[at]->packing(partition)) return {Result::runs, gpu_->copy(*move)};
      send_of_[at]->leave(partition);
      break;
    case Deed::copy: {
      if (!may_write(action.to)) return {Result::waits};
      const Attempt begun{Result::runs, gpu_->copy({memory_.spot(action.to, partition),
                                                    memory_.spot(action.from, partition), action.from.bytes})};
      count_read(action.from);  // what writes there comes behind it on the stream
      return begun;
    }
    case Deed::reduce: {
      const Attempt begun{Result::runs, gpu_->reduce(memory_.gapless(action.from, partition),
                                                     memory_.gapless(action.to, partition), action.from.bytes)};
      count_read(action.from);
      return begun;
    }
    case Deed::mark:
      break;
  }
  return {Result::done};
}

/// Whether no partition will read there what is now to be written over.
bool Collective::may_write(const Region& region) const {
  return region.buffer != Buffer::received || unread_.load(std::memory_order_acquire) == 0;
}

void Collective::count_read(const Region& region) {
  if (reads_under_results_ > 0 && region.buffer == Buffer::sent) unread_.fetch_sub(1, std::memory_order_release);
}

ActiveStep::Outcome Collective::step() noexcept {
  bool moved = false;
  try {
    enter_gpu();
    for (int p = 0; p < arguments_.partitions; ++p) moved |= walk_if_free(p);
    if (failed_.load(std::memory_order_acquire)) return Outcome::idle;
    if (gpu_ != nullptr && !moved) gpu_->check();
    if (everything_is_over()) {
      complete_.store(true, std::memory_order_release);
      return Outcome::idle;
    }
  } catch (const std::exception&) {
    fail_with_current();
    return Outcome::idle;
  }
  return moved ? Outcome::moved : Outcome::waiting;
}

bool Collective::all_are_through() const {
  return std::ranges::all_of(courses_, [](const Course& course) { return course.over.load(); });
}

/// Under the engine's lock. Marks that have not returned still look at their courses, which the next epoch changes.
bool Collective::everything_is_over() {
  return all_are_through() && marking_.load(std::memory_order_acquire) == 0 && empty_legs_have_met() &&
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
  if (!lost && !all_are_through()) return false;
  // A last look, in the place of a step.
  const auto exclusive = services_.progress.exclusive();
  if (complete_.load(std::memory_order_acquire)) return true;
  for (int p = 0; p < arguments_.partitions; ++p) walk_if_free(p);
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

void Collective::throw_if_failed() const {
  for (const auto& leg : legs_) leg->half().throw_if_failed();
  if (!empty_legs_have_met()) {
    for (const auto& leg : empty_legs_) leg->half().throw_if_failed();
  }
  if (const Leg* const leg = meeting_.differing_leg()) leg->half().throw_if_failed();
  if (!failed_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(failure_mutex_);
  if (failure_) throw Error(*failure_);
}

void Collective::throw_if_over() const {
  throw_if_failed();
  if (!given_up()) return;
  throw Error(ErrorClass::request,
              "an earlier epoch of the request ended with an error, so that the epochs of its ranks no longer agree; "
              "free it on all ranks and make it anew. {}",
              explain());
}

bool Collective::failed() const {
  const auto has_failed = [](const auto& leg) { return leg->half().failed(); };
  return failed_.load(std::memory_order_acquire) || std::ranges::any_of(legs_, has_failed) ||
         std::ranges::any_of(empty_legs_, has_failed) || meeting_.differing_leg() != nullptr;
}

void Collective::fail(const Error& error) {
  fail_as("gave its request up", error, Mail::Caller::may_call_the_mpi);
}

/// The peers hear that this rank `what`.
void Collective::fail_as(const char* what, const Error& error, Mail::Caller caller) {
  {
    const std::lock_guard lock(failure_mutex_);
    if (!failure_) failure_ = error;
  }
  failed_.store(true, std::memory_order_release);
  for_each_leg([&](Leg& leg) { leg.half().fail_on_both_sides(what, error, caller); });
}

void Collective::fail_with_current() noexcept {
  const Error error = current_error();
  try {
    fail(error);
  } catch (const std::exception&) {
    // What could be told was.
  }
}

void Collective::abandon(const std::optional<Error>& cause) {
  if (active() || device_.exists() || failed()) end_epoch(cause);
}

/// Nothing more of it moves, its kernels are released, and all peers hear why, if there is a cause. It may have begun
/// on some legs only, or not at all.
void Collective::end_epoch(const std::optional<Error>& cause) {
  const auto exclusive = services_.progress.exclusive();
  if (device_.exists()) device_.side().abort();
  given_up_.store(true, std::memory_order_release);
  services_.progress.dismiss(*this);
  if (gpu_ != nullptr) gpu_->close();
  meeting_.stop();
  for_each_leg([&](Leg& leg) { leg.give_up(cause); });
  close();
}

void Collective::withdraw() {
  services_.progress.dismiss(*this);
  if (gpu_ != nullptr) gpu_->close();
  for (const auto& leg : legs_) leg->half().withdraw();
  device_.drop();
}

void Collective::stop_lingering() {
  meeting_.stop();
  for (const auto& leg : meeting_.legs()) leg->half().withdraw();
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

const char* Collective::kind() const {
  const Kind kind = arguments_.problem.kind;
  return arguments_.is_partitioned ? name_of(kind) : persistent_name_of(kind);
}

std::vector<InfoEntry> Collective::info() const {
  const bool all_matched = all_have_met();
  std::vector<InfoEntry> entries{{"partita_kind", kind()},
                                 {"partita_active", active() ? "true" : "false"},
                                 {"partita_matched", all_matched ? "true" : "false"},
                                 {"partita_algorithm", std::string(algorithm_.name)}};
  if (device_.exists()) entries.push_back({"partita_gpu_copy", "engine"});
  if (!all_matched || legs_.empty()) return entries;
  std::set<std::string> links;
  for (const auto& leg : legs_) links.insert(leg->half().link_name());
  entries.push_back({"partita_link", fmt::format("{}", fmt::join(links, ", "))});
  return entries;
}

std::string Collective::name() const {
  const Problem& problem = arguments_.problem;
  if (!arguments_.is_partitioned) {
    return fmt::format("Persistent {} of {} ranks, algorithm {}, epoch {}", name_of(problem.kind), problem.size,
                       algorithm_.name, epoch_);
  }
  return fmt::format("Partitioned {} of {} ranks, {} partitions, algorithm {}, epoch {}", name_of(problem.kind),
                     problem.size, arguments_.partitions, algorithm_.name, epoch_);
}

std::string Collective::explain() const {
  std::string text = name() + ": ";
  if (!active()) return text + "inactive";
  std::vector<std::int64_t> unmarked;
  std::vector<std::int64_t> open;
  for (std::size_t p = 0; p < courses_.size(); ++p) {
    if (facets().markable != nullptr && !courses_[p].marked) unmarked.push_back(static_cast<std::int64_t>(p));
    if (!courses_[p].over) open.push_back(static_cast<std::int64_t>(p));
  }
  if (arguments_.is_partitioned) {
    text += fmt::format("{} of {} partitions not marked{}, {} not through{}", unmarked.size(), courses_.size(),
                        listed(unmarked), open.size(), listed(open));
  } else {
    text += open.empty() ? "all is done here" : "not through";
  }
  constexpr int most = 8;
  int waits = 0;
  for (const auto* legs : {&legs_, &empty_legs_}) {
    for (const auto& leg : *legs) {
      const std::string wait = leg->describe_wait();
      if (!wait.empty() && ++waits <= most) text += "; " + wait;
    }
  }
  if (const Leg* leg = meeting_.awaited(); leg != nullptr && waits == 0) {
    text += fmt::format("; not all ranks are known to have started this epoch: {}", leg->describe_wait());
  }
  if (waits > most) text += fmt::format("; and {} more", waits - most);
  return text;
}

/// Peers from whom something is missing, one after the other: any of them may have ended. One that only receives is
/// asked as well, since nobody knows what it still needs.
int Collective::waits_for() const {
  const std::size_t empty = legs_.size();
  const std::size_t meeting = empty + empty_legs_.size();
  for (std::size_t n = 0; n <= meeting; ++n) {
    const std::size_t asked = asked_.fetch_add(1, std::memory_order_relaxed) % (meeting + 1);
    const Leg* leg = asked < empty     ? legs_[asked].get()
                     : asked < meeting ? empty_legs_[asked - empty].get()
                                       : meeting_.awaited();
    if (leg == nullptr) continue;
    const Half& half = leg->half();
    const bool only_receives = half.side() == Side::send && !half.is_empty();
    if (only_receives || !leg->describe_wait().empty()) return half.peer();
  }
  return -1;
}

std::uint64_t Collective::how_far() const {
  return actions_done_.load(std::memory_order_relaxed) + meeting_.how_far();
}

}  // namespace partita::collective
