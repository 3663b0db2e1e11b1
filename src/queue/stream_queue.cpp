// Queues of CUDA streams, over any link: the stream and the progress engine meet at two words. docs/design/queues.md,
// "Queues of CUDA streams".
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <ranges>
#include <thread>
#include <utility>
#include <vector>

#include "memory/blocks.hpp"
#include "queue/kinds.hpp"
#include "queue/shared_word.hpp"
#include "queue/stream_runs.hpp"

namespace partita {
namespace {

using namespace std::chrono_literals;
using QueueClock = WaitLimits::Clock;

/// A stream takes about a thousand operations, the program's among them, before it blocks its caller within the driver.
constexpr std::size_t most_tasks = 128;
/// So many waits of what the stream runs itself are looked after together.
constexpr std::size_t most_passed_at_once = 32;
constexpr auto time_between_gpu_checks = 250ms;
constexpr auto time_for_what_can_end = 100ms;

/// Starts and waits that the program has enqueued, as tasks of the progress engine, which takes them in order: a start
/// once the stream has come to it, a wait as soon as it can. The stream stands at a wait until that is over. What the
/// stream runs by itself is no task; only that the stream has passed the waits is one, for many of them together.
class StreamQueue final : public Queue, private ActiveStep, private EarlyMarks {
 public:
  StreamQueue(const QueueServices& services, std::unique_ptr<memory::Stream> stream)
      : services_(services),
        requests_(*services.requests),
        stream_(std::move(stream)),
        runs_(*stream_),
        words_(requests_.host_memory, 2 * bytes_of_line),
        reached_(requests_.device_memory, stream_->device(), words_.address()),
        released_(requests_.device_memory, stream_->device(), words_.address() + bytes_of_line) {}
  ~StreamQueue() override { requests_.progress.dismiss(*this); }

  void finish() override;
  bool may_be_under_way() const override;
  void give_up() noexcept override;
  std::string explain() const override;
  int waits_for() const override { return -1; }

 private:
  struct Range {
    std::int64_t first;
    std::int64_t last;
  };
  struct Part {
    Operation* operation;
    std::vector<Range> marks{};  ///< of the host, for a start
    bool over = false;           ///< of a wait
  };
  enum class Kind { start, wait, pass };
  struct Task {
    Kind kind;
    std::uint32_t place;  ///< where the stream comes to it
    bool holds;           ///< the stream waits here until it has run
    std::vector<Part> parts;
  };

  void prepare() override;
  void check_runnable(const Operation& operation, std::size_t place) const override {
    runs_.check_runnable(operation, place, captured_);
  }
  void check_waitable(const Operation& operation, std::size_t place) const override {
    runs_.check_waitable(operation, place, captured_);
  }
  void run_starts(std::span<Operation* const> operations) override;
  void run_waits(std::span<Operation* const> operations) override;
  void enqueue(Kind kind, bool holds, std::span<Operation* const> operations);
  template <class Lose>
  void launch(const memory::MessageRun& together, std::span<Operation* const> operations, Lose lose);
  void see_waits_pass();
  std::size_t under_way() const;
  bool is_under_way() const;
  bool runs_itself() const;

  bool keep(Operation& operation, std::int64_t first, std::int64_t last) override;

  Outcome step() noexcept override;
  Task* head();
  bool run(Task& task);
  void start(Part& part);
  bool complete(Part& part);
  void pass(Part& part);
  void watch(Task& task);
  void abandon(Part& part, const Error& error) noexcept;
  void end(const Task& task);
  void be_prompt(bool prompt);
  void check_gpu() noexcept;
  void break_down(const Error& error) noexcept;

  bool idle();
  std::uint64_t how_far() const override { return taken_.load(std::memory_order_relaxed) + reached_.load(); }
  template <class Done>
  void await(Done done);

  static constexpr std::size_t bytes_of_line = 128;

  const QueueServices& services_;
  const RequestServices& requests_;
  const std::unique_ptr<memory::Stream> stream_;
  StreamRuns runs_;
  bool captured_ = false;  ///< the stream is being captured, as prepare() has found
  const memory::HostBlock words_;
  SharedWord reached_;                   ///< where the stream is; it writes, the engine reads
  SharedWord released_;                  ///< up to where the stream may go; the engine writes, the stream waits
  std::atomic<std::uint32_t> asked_{0};  ///< the last place that the stream was asked to come to

  mutable std::mutex mutex_;
  std::deque<Task> tasks_;               ///< the step takes the first one; under the lock, but for what is in it
  bool prompt_ = false;                  ///< under the lock
  std::atomic<std::uint64_t> taken_{0};  ///< so many tasks have run
  std::atomic<bool> stands_{false};      ///< the stream stands at the first task, whose limit is watched
  std::atomic<bool> broken_{false};

  // The step alone uses these.
  std::optional<Error> why_broken_;
  std::optional<QueueClock::time_point> watched_since_;  ///< the first task
  WaitLimits limits_;
  QueueClock::time_point next_gpu_check_{};
};

/// May block where much is under way, as the driver would, but lets the stream get on meanwhile.
void StreamQueue::prepare() {
  captured_ = stream_->capturing();
  if (captured_) return;
  if (runs_.waits() >= most_passed_at_once) see_waits_pass();
  await([this] { return under_way() < most_tasks; });
}

/// How many starts and waits the stream may not have passed.
std::size_t StreamQueue::under_way() const {
  const std::lock_guard lock(mutex_);
  std::size_t run_by_stream = runs_.waits();
  for (const Task& task : tasks_) run_by_stream += task.kind == Kind::pass ? task.parts.size() : 0;
  return tasks_.size() + run_by_stream / 4;  // a start and a wait are two launches, mostly of several together
}

/// Blocks until `done` returns true. The time limit counts from where the queue got on last, and only where the stream
/// does not come: a wait at which it stands has a limit of its own. So have the waits that it runs by itself, whose
/// limit may have begun later: behind such the queue's counts twice.
template <class Done>
void StreamQueue::await(Done done) {
  bool is_second = false;
  while (!done()) {
    const std::uint64_t before = how_far();
    const auto got_on = [&] { return how_far() != before; };
    try {
      services_.wait_until(*this, [&] { return done() || got_on(); });
      is_second = false;
    } catch (const WaitError&) {
      if (stands_.load(std::memory_order_relaxed) || got_on()) continue;
      if (is_second || !runs_itself()) throw;
      is_second = true;
    }
  }
}

/// Whether the stream may be within what it runs by itself.
bool StreamQueue::runs_itself() const {
  const std::lock_guard lock(mutex_);
  return !tasks_.empty() && tasks_.front().kind == Kind::pass;
}

/// Kernels mark only what the host has started, so that behind the start of a request that they use the stream waits
/// for the host, though for no peer.
void StreamQueue::run_starts(std::span<Operation* const> operations) {
  std::vector<Operation*> by_engine;
  for (Operation* const each : operations) {
    if (!runs_.takes_start(*each, captured_)) by_engine.push_back(each);
  }
  const bool holds = std::ranges::any_of(by_engine, [](const Operation* each) {
    const KernelUsable* const usable = each->facets().kernel_usable;
    return usable != nullptr && usable->has_device_request();
  });
  enqueue(Kind::start, holds, by_engine);
  memory::MessageRun together(memory::MessageStep::start, requests_.settings.timeout_s);
  for (Operation* const each : operations) {
    if (StreamRuns::has_start(*each)) about(*each, [&] { runs_.start(*each, together); });
  }
  launch(together, operations, StreamRuns::lose_start);
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
      about(*each, [&] { runs_.wait(*each, together); });
    } else {
      by_engine.push_back(each);
    }
  }
  launch(together, operations, [](Operation&) {});
  enqueue(Kind::wait, true, by_engine);
}

/// The requests of waits that the stream runs by itself are the host's again behind this.
void StreamQueue::see_waits_pass() {
  enqueue(Kind::pass, false, runs_.take_waits());
}

/// The task is there before the stream can come to it. No lock is held while the stream is asked, which may block until
/// the engine has let it get on. Where the stream takes nothing more, the task fails as the others do.
void StreamQueue::enqueue(Kind kind, bool holds, std::span<Operation* const> operations) {
  if (operations.empty()) return;
  const std::uint32_t place = asked_ + 1;
  Task task{kind, place, holds, {}};
  task.parts.reserve(operations.size());
  for (Operation* const each : operations) task.parts.push_back({each});
  {
    const std::lock_guard lock(mutex_);
    Task& added = tasks_.emplace_back(std::move(task));
    if (added.kind == Kind::start) {
      for (Part& part : added.parts) part.operation->add_start_ahead(*this);
    }
    be_prompt(true);
  }
  requests_.progress.activate(*this);
  if (broken_.load(std::memory_order_relaxed)) return;
  try {
    stream_->write(reached_.on_gpu(), place);
    asked_ = place;
    if (!holds) return;
    stream_->wait(released_.on_gpu(), place, memory::Until::reached);
    stream_->write(reached_.on_gpu(), place + 1);
    asked_ = place + 1;
  } catch (const Error& error) {
    const auto exclusive = requests_.progress.exclusive();
    break_down(error);
  }
}

/// While something is enqueued the engine's thread looks soon. Called under the lock.
void StreamQueue::be_prompt(bool prompt) {
  if (std::exchange(prompt_, prompt) == prompt) return;
  if (prompt) {
    requests_.progress.want_prompt();
  } else {
    requests_.progress.unwant_prompt();
  }
}

bool StreamQueue::keep(Operation& operation, std::int64_t first, std::int64_t last) {
  const std::lock_guard lock(mutex_);
  if (operation.early_marks() == nullptr) return false;
  for (Task& task : std::views::reverse(tasks_)) {
    if (task.kind != Kind::start) continue;
    const auto found = std::ranges::find(task.parts, &operation, &Part::operation);
    if (found == task.parts.end()) continue;
    found->marks.push_back({first, last});
    return true;
  }
  return false;
}

/// The first task, or null, where the engine rests until one comes.
StreamQueue::Task* StreamQueue::head() {
  const std::lock_guard lock(mutex_);
  if (!tasks_.empty()) return &tasks_.front();
  be_prompt(false);
  return nullptr;
}

ActiveStep::Outcome StreamQueue::step() noexcept {
  bool moved = false;
  for (Task* task = head(); task != nullptr; task = head()) {
    if (!run(*task)) return moved ? Outcome::moved : Outcome::waiting;
    end(*task);
    moved = true;
  }
  return Outcome::idle;
}

/// Whether the task has run.
bool StreamQueue::run(Task& task) {
  const bool has_come = why_broken_.has_value() || has_come_to(reached_.load(), task.place);
  if (task.kind != Kind::wait) {
    if (has_come) {
      for (Part& part : task.parts) task.kind == Kind::start ? start(part) : pass(part);
      return true;
    }
  } else {
    bool over = true;
    for (Part& part : task.parts) over = complete(part) && over;
    if (over) return true;
    if (has_come) watch(task);
  }
  if (!has_come) check_gpu();
  return false;
}

void StreamQueue::start(Part& part) {
  Operation& operation = *part.operation;
  const bool started = !why_broken_ && about(operation, [&] {
    operation.start();
    operation.loop_watch().begin();
  });
  std::vector<Range> marks;
  {
    const std::lock_guard lock(mutex_);
    marks = std::move(part.marks);
    operation.start_has_run();
  }
  if (!started) return;
  for (const auto [first, last] : marks) {
    about(operation, [&] { operation.facets().markable->mark(first, last); });
  }
}

/// Whether the wait for it is over, if need be by an error.
bool StreamQueue::complete(Part& part) {
  if (part.over) return true;
  Operation& operation = *part.operation;
  if (why_broken_) {
    abandon(part, *why_broken_);
    return true;
  }
  try {
    if (operation.open()) {  // a start that failed has opened nothing
      if (!operation.done()) return false;
      operation.close();
    }
  } catch (const std::exception&) {
    abandon(part, current_error());
    return true;
  }
  part.over = true;
  operation.count_enqueued(-1);
  return true;
}

void StreamQueue::abandon(Part& part, const Error& error) noexcept {
  Operation& operation = *part.operation;
  about(operation, [&] {
    if (operation.open()) operation.abandon(error);
    throw Error(error);
  });
  part.over = true;
  operation.count_enqueued(-1);
}

/// The stream has passed a wait that it runs by itself, unless it comes nowhere any more.
void StreamQueue::pass(Part& part) {
  Operation& operation = *part.operation;
  try {
    if (why_broken_) throw Error(*why_broken_);
    operation.facets().stream_runnable->pass_wait();
  } catch (const std::exception&) {
    const Error error = current_error();
    Queue::keep(error, operation);
    about(operation, [&] { operation.abandon(error); });
  }
  operation.count_enqueued(-1);
}

/// The stream stands at the wait: what takes too long, or waits for a rank that has ended, is given up.
void StreamQueue::watch(Task& task) {
  const auto now = QueueClock::now();
  if (!watched_since_) {
    watched_since_ = now;
    limits_.begin(requests_.settings, now);
  }
  stands_.store(true, std::memory_order_relaxed);
  const auto waits = std::ranges::find_if(task.parts, [](const Part& part) { return !part.over; });
  try {
    const double waited_s = std::chrono::duration<double>(now - *watched_since_).count();
    limits_.check(requests_.settings, requests_.world, *waits->operation, now, waited_s);
  } catch (const Error& error) {
    for (Part& part : task.parts) {
      if (!complete(part)) abandon(part, error);  // this thread may have been without a core for as long
    }
  }
}

/// The stream may go on, and sees whatever has been done for the task.
void StreamQueue::end(const Task& task) {
  if (task.holds) released_.store(task.place);
  watched_since_.reset();
  taken_.fetch_add(1, std::memory_order_relaxed);
  stands_.store(false, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  tasks_.pop_front();
}

/// A GPU of which a kernel has failed comes nowhere.
void StreamQueue::check_gpu() noexcept {
  const auto now = QueueClock::now();
  if (now < next_gpu_check_) return;
  next_gpu_check_ = now + time_between_gpu_checks;
  try {
    requests_.device_memory.check(stream_->device());
  } catch (const Error& error) {
    break_down(error);
  }
}

/// What is enqueued fails, and what will be. In a step, or with none running.
void StreamQueue::break_down(const Error& error) noexcept {
  why_broken_ = error;
  broken_.store(true, std::memory_order_relaxed);
  requests_.progress.activate(*this);
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
  if (runs_.waits() > 0) {
    if (stream_->capturing()) {
      throw Error(ErrorClass::arg,
                  "the queue's stream is being captured into a graph, and what was enqueued before may be under way; "
                  "expected is a call before the capture or behind it");
    }
    see_waits_pass();
  }
  await([this] { return idle(); });
}

/// The stream needs the words until it has passed the last place.
void StreamQueue::give_up() noexcept {
  try {
    if (runs_.waits() > 0 && !stream_->capturing()) see_waits_pass();
  } catch (const std::exception&) {
    // The stream takes nothing more; its requests are freed next.
  }
  const auto give_up = QueueClock::now() + time_for_what_can_end;
  while (!idle() && QueueClock::now() < give_up) {
    requests_.progress.poll();
    std::this_thread::yield();
  }
  const bool was_broken = broken_.load(std::memory_order_relaxed);
  {
    const auto exclusive = requests_.progress.exclusive();
    if (!why_broken_) why_broken_ = Error(ErrorClass::other, "Partita was finalised before the queue's work was done");
    step();
    released_.store(asked_);
  }
  while (!was_broken && reached_.load() != asked_ && !broken_.load(std::memory_order_relaxed)) {
    const auto exclusive = requests_.progress.exclusive();
    check_gpu();
    std::this_thread::yield();
  }
  requests_.progress.dismiss(*this);
}

std::string StreamQueue::explain() const {
  const auto exclusive = requests_.progress.exclusive();  // the step uses the operations
  const std::lock_guard lock(mutex_);
  if (tasks_.empty()) return "The stream of the queue has not come to the end of what is enqueued";
  const Task& first = tasks_.front();
  const auto waits = std::ranges::find_if(first.parts, [](const Part& part) { return !part.over; });
  return fmt::format("The stream of the queue {}. {}",
                     has_come_to(reached_.load(), first.place)
                         ? "stands at a start or wait that is not over"
                         : "has not come to a start or wait that is enqueued: work of the program is in front of it",
                     waits == first.parts.end() ? "" : waits->operation->explain());
}

}  // namespace

std::unique_ptr<Queue> make_cuda_queue(const QueueServices& services, void* stream) {
  if (stream == nullptr) {
    throw Error(ErrorClass::arg,
                "argument stream is null; expected is the address of a cudaStream_t for a queue of a CUDA stream");
  }
  return std::make_unique<StreamQueue>(
      services, services.requests->device_memory.stream_of_program(*static_cast<void**>(stream)));
}

}  // namespace partita
