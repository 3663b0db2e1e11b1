// What the program's thread does for a queue of a CUDA stream.
#include "queue/stream_queue.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ranges>
#include <set>
#include <thread>

namespace partita {
namespace {

using namespace std::chrono_literals;

/// A stream takes about a thousand operations, the program's among them, before it blocks its caller within the driver.
constexpr std::size_t most_tasks = 128;
/// So many waits of what the stream runs itself are looked after together.
constexpr std::size_t most_passed_at_once = 32;
constexpr auto time_for_what_can_end = 100ms;
/// A thread that waits for a GPU looks at streams much more often.
constexpr auto longest_between_looks = 1s;

}  // namespace

/// May block where much is under way, as the driver would, but lets the stream get on meanwhile.
void StreamQueue::prepare() {
  captured_ = stream_->capturing();
  if (captured_) return;
  if (runs_.waits() >= most_passed_at_once) see_waits_pass();
  await([this] { return under_way() < most_tasks; });
}

/// Blocks until `done` returns true. The time limit counts from where the queue got on last, and only where the stream
/// does not come: a wait at which it stands has a limit of its own. So have the waits that it runs by itself, of which
/// the host sees nothing but what it asks the GPU for, when a limit has passed. Between two ends of them, however many
/// there are, lie less than two limits: that of the wait, and as much for what the program has in front of it.
template <class Done>
void StreamQueue::await(Done done) {
  if (done()) return;
  looks_.begin();
  while (!done()) {
    const std::uint64_t before = how_far();
    const auto got_on = [&] { return how_far() != before; };
    try {
      services_.wait_until(*this, [&] { return done() || got_on(); });
      looks_.begin();
    } catch (const WaitError&) {
      if (stands_.load(std::memory_order_relaxed) || got_on()) continue;
      if (looks_.is_in_vain(words_of_runs())) throw;
    }
  }
}

/// All waits that the stream runs by itself and is not known to have passed, in order: it may be within any of them, in
/// front of tasks or behind some. Under the engine's lock: no wait counts as passed meanwhile.
std::vector<StreamWait> StreamQueue::stream_waits() const {
  const std::lock_guard lock(mutex_);
  std::vector<StreamWait> waits;
  for (const Task& task : tasks_) {
    if (task.kind != Kind::pass) continue;
    for (const Part& part : task.parts) waits.push_back({part.operation, part.behind});
  }
  waits.insert(waits.end(), runs_.waited().begin(), runs_.waited().end());
  return waits;
}

/// Empty where there are no such waits.
std::vector<StreamLooks::Words> StreamQueue::words_of_runs() {
  const auto exclusive = requests_.progress.exclusive();
  std::vector<StreamLooks::Words> words;
  std::set<const Operation*> seen;  // one may have many waits
  for (const StreamWait& each : stream_waits()) {
    if (!seen.insert(each.operation).second) continue;
    const StreamLooks::Words of_one = each.operation->facets().stream_runnable->words_on_gpu();
    if (!of_one.empty()) words.push_back(of_one);
  }
  return words;
}

/// Kernels mark only what the host has started, so that behind the start of a request that they use the stream waits
/// for the host, though for no peer.
void StreamQueue::run_starts(std::span<Operation* const> operations) {
  std::vector<Operation*> by_engine;
  for (Operation* const each : operations) {
    if (!runs_.takes_start(*each, captured_)) by_engine.push_back(each);
  }
  const bool has_runs = !captured_ && by_engine.size() < operations.size();
  if (has_runs) looks_.set_up();
  const bool holds = std::ranges::any_of(by_engine, [](const Operation* each) {
    const KernelUsable* const usable = each->facets().kernel_usable;
    return usable != nullptr && usable->has_device_request();
  });
  enqueue(Kind::start, holds, by_engine);
  runs_ahead_ = runs_ahead_ || has_runs;
  memory::MessageRun together(memory::MessageStep::start, requests_.settings.timeout_s);
  for (Operation* const each : operations) {
    if (StreamRuns::has_start(*each)) start_by_stream(*each, together);
  }
  launch(together, operations, StreamRuns::lose_start);
}

/// The peers hear of a start that there never was, if they would wait for that.
void StreamQueue::start_by_stream(Operation& operation, memory::MessageRun& together) {
  try {
    runs_.start(operation, together);
  } catch (const std::exception&) {
    const Error error = current_error();
    Queue::keep(error, operation);
    if (!operation.facets().stream_runnable->ends_with_a_start()) return;
    const auto exclusive = requests_.progress.exclusive();  // a step may use it
    about(operation, [&] { operation.abandon(error); });
  }
}

/// Where the stream takes nothing more, none of its messages can be trusted any more on either side. `lose` is told of
/// each.
template <class Lose>
void StreamQueue::launch(const memory::MessageRun& together, std::span<Operation* const> operations, Lose lose) {
  try {
    together.launch(*stream_);
  } catch (const std::exception&) {
    const Error error = current_error();
    const auto exclusive = requests_.progress.exclusive();  // a step may use them
    for (Operation* const each : operations) {
      if (!StreamRuns::has_start(*each)) continue;
      lose(*each);
      Queue::keep(error, *each);
      about(*each, [&] { each->abandon(error); });
    }
  }
}

void StreamQueue::run_waits(std::span<Operation* const> operations) {
  std::vector<Operation*> by_engine;
  memory::MessageRun together(memory::MessageStep::wait, requests_.settings.timeout_s);
  for (Operation* const each : operations) {
    if (StreamRuns::has_start(*each)) {
      about(*each, [&] { runs_.wait(*each, asked_, together); });
    } else {
      by_engine.push_back(each);
    }
  }
  launch(together, operations, [](Operation&) {});
  enqueue(Kind::wait, true, by_engine);
}

/// The requests of waits that the stream runs by itself are the host's again behind this.
void StreamQueue::see_waits_pass() {
  std::vector<Part> parts;
  for (const StreamWait& each : runs_.take_waits()) parts.push_back({each.operation, {}, false, {}, each.behind});
  enqueue(Kind::pass, false, std::move(parts));
}

void StreamQueue::enqueue(Kind kind, bool holds, std::span<Operation* const> operations) {
  if (operations.empty()) return;
  std::vector<Part> parts;
  parts.reserve(operations.size());
  for (Operation* const each : operations) parts.push_back({each});
  enqueue(kind, holds, std::move(parts));
}

/// The task is there before the stream can come to it. No lock is held while the stream is asked, which may block until
/// the engine has let it get on. Where the stream takes nothing more, the task fails as the others do.
void StreamQueue::enqueue(Kind kind, bool holds, std::vector<Part> parts) {
  const std::uint32_t place = asked_ + 1;
  Task task{kind, place, holds, std::move(parts)};
  {
    const std::lock_guard lock(mutex_);
    Task& added = tasks_.emplace_back(std::move(task));
    count_ahead(added, 1);
    if (added.kind == Kind::start) {
      for (Part& part : added.parts) part.operation->queue_use().add_start_ahead(*this);
    }
    be_prompt(true);
  }
  requests_.progress.activate(*this);
  if (broken_.load(std::memory_order_relaxed)) return;
  try {
    stream_->write(reached_.on_gpu(), place);
    asked_ = place;
    runs_ahead_ = false;
    if (!holds) return;
    stream_->wait(released_.on_gpu(), place, memory::Until::reached);
    stream_->write(reached_.on_gpu(), place + 1);
    asked_ = place + 1;
  } catch (const Error& error) {
    const auto exclusive = requests_.progress.exclusive();
    break_down(error);
  }
}

/// `change`: 1 or -1. Called under the lock, as the next.
void StreamQueue::count_ahead(const Task& task, int change) {
  const auto add = [change](std::atomic<std::size_t>& to, std::size_t count) {
    const std::size_t before = to.load(std::memory_order_relaxed);
    to.store(change > 0 ? before + count : before - count, std::memory_order_relaxed);
  };
  add(tasks_ahead_, 1);
  if (task.kind == Kind::pass) add(waits_ahead_, task.parts.size());
}

/// While something is enqueued the engine's thread looks soon.
void StreamQueue::be_prompt(bool prompt) {
  if (std::exchange(prompt_, prompt) == prompt) return;
  if (prompt) {
    requests_.progress.want_prompt();
  } else {
    requests_.progress.unwant_prompt();
  }
}

bool StreamQueue::keep(const QueueUse& use, std::int64_t first, std::int64_t last) {
  const std::lock_guard lock(mutex_);
  if (use.early_marks() == nullptr) return false;
  for (Task& task : std::views::reverse(tasks_)) {
    if (task.kind != Kind::start) continue;
    const auto found =
        std::ranges::find(task.parts, &use, [](const Part& part) { return &part.operation->queue_use(); });
    if (found == task.parts.end()) continue;
    found->marks.push_back({first, last});
    return true;
  }
  return false;
}

bool StreamQueue::may_be_under_way() const {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  return !lock.owns_lock() || is_under_way();
}

/// Under the lock.
bool StreamQueue::is_under_way() const {
  return !tasks_.empty() || runs_.waits() > 0 ||
         !(broken_.load(std::memory_order_relaxed) || reached_.load() == asked_.load());
}

bool StreamQueue::idle() {
  {
    const std::lock_guard lock(mutex_);
    if (!is_under_way()) return true;
    if (!tasks_.empty()) return false;  // the step looks after the GPU
  }
  // The stream was let go, and comes to the last place unless the GPU works no longer.
  const auto exclusive = requests_.progress.exclusive();
  check_gpu();
  return false;
}

void StreamQueue::finish() {
  if (runs_.waits() > 0 || runs_ahead_) {
    if (stream_->capturing()) {
      throw Error(ErrorClass::arg,
                  "the queue's stream is being captured into a graph, and what was enqueued before may be under way; "
                  "expected is a call before the capture or behind it");
    }
    see_waits_pass();
  }
  await([this] { return idle(); });
  looks_.end();
}

/// Where the stream stands, if it does. Under the lock.
std::optional<std::uint32_t> StreamQueue::standing_place() const {
  const std::uint32_t released = released_.load();
  const auto holds = [&](const Task& task) { return task.holds && !has_come_to(released, task.place); };
  const auto first = std::ranges::find_if(tasks_, holds);
  if (first == tasks_.end() || !has_come_to(reached_.load(), first->place)) return {};
  return first->place;
}

/// Where steps are taken they look after the limit. Else the engine's lock is held by a thread that waits for the GPU,
/// if not by this one; so nothing is done for any task meanwhile, and what is waited for stands behind all of them.
/// Time in which nobody looks is not counted: the program may have been computing, or without a core.
void StreamQueue::look_at_stream(int device) noexcept {
  const double limit_s =
      is_ending() ? std::chrono::duration<double>(time_for_what_can_end).count() : requests_.settings.timeout_s;
  if (limit_s <= 0 || stream_->device() != device) return;
  const std::lock_guard lock(mutex_);
  const std::optional<std::uint32_t> place = standing_place();
  if (!place) return look_.reset();
  const std::uint64_t steps = steps_.load(std::memory_order_relaxed);
  const auto now = Clock::now();
  if (!look_ || look_->steps != steps || look_->place != *place || now - look_->last > longest_between_looks) {
    look_ = {steps, *place, now, now};
  } else if (std::chrono::duration<double>(now - look_->since).count() >= limit_s) {
    released_.store(asked_);
  } else {
    look_->last = now;
  }
}

void StreamQueue::end_soon() noexcept {
  try {
    if (runs_.waits() > 0 && !stream_->capturing()) see_waits_pass();
  } catch (const std::exception&) {
    // The stream takes nothing more; its requests are freed next.
  }
  const auto give_up = Clock::now() + time_for_what_can_end;
  while (!idle() && Clock::now() < give_up) {
    requests_.progress.poll();
    std::this_thread::yield();
  }
}

/// Without the engine's lock: whoever holds it may wait for a copy behind this stream.
void StreamQueue::let_go() noexcept {
  is_let_go_.store(true, std::memory_order_relaxed);
  release(asked_);
}

/// The stream needs the words until it has passed the last place.
void StreamQueue::give_up() noexcept {
  {
    const auto exclusive = requests_.progress.exclusive();
    if (!why_broken_) why_broken_ = finalised();
    step();
  }
  while (reached_.load() != asked_ && !broken_.load(std::memory_order_relaxed)) {
    const auto exclusive = requests_.progress.exclusive();
    check_gpu();
    std::this_thread::yield();
  }
  requests_.progress.dismiss(*this);
}

/// A wait that the stream runs by itself is held by what its GPU finds: that is asked only where the stream does not
/// stand at a task.
std::string StreamQueue::explain() const {
  const auto exclusive = requests_.progress.exclusive();  // the step uses the operations, and takes tasks away
  const Task* first = nullptr;
  {
    const std::lock_guard lock(mutex_);  // not while an operation asks the GPU
    if (!tasks_.empty()) first = &tasks_.front();
  }
  const std::uint32_t reached = reached_.load();
  const bool stands_at_task = first != nullptr && first->kind != Kind::pass && has_come_to(reached, first->place);
  if (!stands_at_task) {
    if (const auto held = StreamRuns::explain_held(stream_waits(), reached)) return *held;
  }
  if (first == nullptr) return "The stream of the queue has not come to the end of what is enqueued";
  if (first->kind == Kind::pass) {
    return "The stream of the queue has not come to the end of what is enqueued: work of the program is in front of it";
  }
  const auto waits = std::ranges::find_if(first->parts, [](const Part& part) { return !part.over; });
  return fmt::format("The stream of the queue {}. {}",
                     stands_at_task ? "stands at a start or wait that is not over"
                                    : "has not come to a start or wait that is enqueued: work of the program is in "
                                      "front of it",
                     waits == first->parts.end() ? "" : waits->operation->explain());
}

std::unique_ptr<Queue> make_cuda_queue(const QueueServices& services, void* stream) {
  if (stream == nullptr) {
    throw Error(ErrorClass::arg,
                "argument stream is null; expected is the address of a cudaStream_t for a queue of a CUDA stream");
  }
  return std::make_unique<StreamQueue>(
      services, services.requests->device_memory.stream_of_program(*static_cast<void**>(stream)));
}

}  // namespace partita
