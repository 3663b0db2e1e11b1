// Queues of CUDA streams, over any link: the stream and the progress engine meet at two words. docs/design/queues.md,
// "Queues of CUDA streams".
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/active_steps.hpp"
#include "core/watch.hpp"
#include "memory/blocks.hpp"
#include "queue/kinds.hpp"
#include "queue/shared_word.hpp"
#include "queue/stream_looks.hpp"
#include "queue/stream_runs.hpp"

namespace partita {

/// Starts and waits that the program has enqueued, as tasks of the progress engine, which takes them in order: a start
/// once the stream has come to it, a wait as soon as it can. The stream stands at a wait until that is over. What the
/// stream runs by itself is no task; only that the stream has passed the waits is one, for many of them together. What
/// the program's thread does is in stream_queue.cpp, and what a step of the engine does in stream_tasks.cpp.
class StreamQueue final : public Queue, private ActiveStep, private EarlyMarks {
 public:
  StreamQueue(const QueueServices& services, std::unique_ptr<memory::Stream> stream)
      : services_(services),
        requests_(*services.requests),
        stream_(std::move(stream)),
        runs_(*stream_),
        looks_(requests_, stream_->device()),
        words_(requests_.host_memory, 2 * bytes_of_line),
        reached_(requests_.device_memory, stream_->device(), words_.address()),
        released_(requests_.device_memory, stream_->device(), words_.address() + bytes_of_line) {}
  ~StreamQueue() override { requests_.progress.dismiss(*this); }

  void finish() override;
  bool may_be_under_way() const override;
  void end_soon() noexcept override;
  void let_go() noexcept override;
  void give_up() noexcept override;
  void look_at_stream(int device) noexcept override;
  std::string explain() const override;
  int waits_for() const override { return -1; }

 private:
  using Clock = WaitLimits::Clock;
  struct Range {
    std::int64_t first;
    std::int64_t last;
  };
  struct Part {
    Operation* operation;
    std::vector<Range> marks{};         ///< of the host, for a start
    bool over = false;                  ///< of a wait, as the next
    std::optional<Error> why_failed{};  ///< until it is given up
    std::uint32_t behind = 0;           ///< StreamWait.behind, of one that the stream has to pass
  };
  enum class Kind { start, wait, pass };
  struct Task {
    Kind kind;
    std::uint32_t place;  ///< where the stream comes to it
    bool holds;           ///< the stream waits here until it has run
    std::vector<Part> parts;
  };

  void prepare() override;
  bool may_make_device_requests() const override { return !captured_; }
  void check_runnable(const Operation& operation, std::size_t place) const override {
    runs_.check_runnable(operation, place, captured_);
  }
  void check_waitable(const Operation& operation, std::size_t place) const override {
    runs_.check_waitable(operation, place, captured_);
  }
  void run_starts(std::span<Operation* const> operations) override;
  void run_waits(std::span<Operation* const> operations) override;
  void enqueue(Kind kind, bool holds, std::span<Operation* const> operations);
  void enqueue(Kind kind, bool holds, std::vector<Part> parts);
  void start_by_stream(Operation& operation, memory::MessageRun& together);
  template <class Lose>
  void launch(const memory::MessageRun& together, std::span<Operation* const> operations, Lose lose);
  void see_waits_pass();
  std::size_t under_way() const {
    return tasks_ahead_.load(std::memory_order_relaxed) +
           (runs_.waits() + waits_ahead_.load(std::memory_order_relaxed)) / 2;  // four launches at most, with the start
  }
  void count_ahead(const Task& task, int change);
  bool is_under_way() const;
  std::vector<StreamWait> stream_waits() const;
  std::vector<StreamLooks::Words> words_of_runs();

  bool keep(const QueueUse& use, std::int64_t first, std::int64_t last) override;

  Outcome step() noexcept override;
  Task* head();
  bool run(Task& task);
  static Error finalised() {
    return Error(ErrorClass::other, "Partita was finalised before the queue's work was done");
  }
  void throw_if_lost(const Task& task) const;
  void start(const Task& task, Part& part);
  bool try_to_complete(const Task& task, Part& part);
  void pass(Part& part);
  bool watch(Task& task);
  void fail(Part& part, Error error) noexcept;
  void give_up_failed(Task& task) noexcept;
  void end(Task& task);
  void release(std::uint32_t place);
  std::optional<std::uint32_t> standing_place() const;
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
  StreamLooks looks_;
  bool captured_ = false;    ///< the stream is being captured, as prepare() has found
  bool runs_ahead_ = false;  ///< the stream was asked to run something by itself, and for no place since
  const memory::HostBlock words_;
  SharedWord reached_;                   ///< where the stream is; it writes, the engine reads
  SharedWord released_;                  ///< up to where the stream may go; written under the lock, the stream waits
  std::atomic<std::uint32_t> asked_{0};  ///< the last place that the stream was asked to come to

  mutable std::mutex mutex_;
  std::deque<Task> tasks_;                   ///< the step takes the first one; under the lock, but for what is in it
  std::atomic<std::size_t> tasks_ahead_{0};  ///< so many; written under the lock
  std::atomic<std::size_t> waits_ahead_{
      0};                ///< so many waits do those tell of that the stream runs by itself; likewise
  bool prompt_ = false;  ///< under the lock
  struct Look {
    std::uint64_t steps;
    std::uint32_t place;
    Clock::time_point since;
    Clock::time_point last;
  };
  std::optional<Look> look_;             ///< of look_at_stream(), where the stream stood; under the lock
  std::atomic<std::uint64_t> steps_{0};  ///< so many steps were taken
  std::atomic<std::uint64_t> taken_{0};  ///< so many tasks have run
  std::atomic<bool> stands_{false};      ///< the stream stands at the first task, whose limit is watched
  std::atomic<bool> broken_{false};
  std::atomic<bool> is_let_go_{false};  ///< at the end of the program

  // The step alone uses these.
  std::optional<Error> why_broken_;
  std::optional<Clock::time_point> watched_since_;  ///< the first task
  WaitLimits limits_;
  Clock::time_point next_gpu_check_{};
};

}  // namespace partita
