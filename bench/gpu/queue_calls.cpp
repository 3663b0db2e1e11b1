// queue.enqueue: what the calls that enqueue cost the host, beside the launch of an empty kernel.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/gpu/benchmarks.hpp"
#include "bench/gpu/measurement.hpp"
#include "bench/gpu/queue_kernels.hpp"
#include "bench/gpu/queue_requests.hpp"
#include "bench/gpu/table.hpp"

namespace partita::bench::gpu {

namespace {

/// The messages of a halo in three dimensions, corners included.
constexpr int messages = 26;

/// Microseconds of `calls`, which are `count` calls.
template <class Calls>
double us_of_each(int count, const Calls& calls) {
  const std::int64_t begin_ns = now_ns();
  calls();
  return static_cast<double>(now_ns() - begin_ns) / 1000 / count;
}

enum class Timed : std::uint8_t { start, wait, start_all, wait_all };

/// An epoch of all messages, sends on rank 0 and receives on rank 1, of which one kind of call is timed. The stream has
/// ended before, so that no call waits for it.
class EnqueueCost final : public OneWayMeasurement {
 public:
  EnqueueCost(Job& job, std::string name, const Case& c, Timed timed)
      : OneWayMeasurement(job, std::move(name), c),
        timed_(timed),
        buffer_(static_cast<std::size_t>(c.size_bytes) * messages),
        queue_(stream_.get()) {
    for (int i = 0; i < messages; ++i) {
      messages_.push_back(std::make_unique<PersistentMessage>(
          job.is_first() ? Way::send : Way::receive, buffer_.data() + i * c.size_bytes, c.size_bytes, job.peer(), i));
      handles_.push_back(messages_.back()->handle());
    }
    match(handles_);
  }

  double sample(const Round&) override {
    job_.barrier();
    const bool together = timed_ == Timed::start_all || timed_ == Timed::wait_all;
    const double start_us = together ? us_of_each(1, [&] { queue_.start_all(handles_); }) : us_of_each(messages, [&] {
      for (const Partita_Request each : handles_) queue_.start(each);
    });
    const double wait_us = together ? us_of_each(1, [&] { queue_.wait_all(handles_); }) : us_of_each(messages, [&] {
      for (const Partita_Request each : handles_) queue_.wait(each);
    });
    queue_.finish();
    return timed_ == Timed::start || timed_ == Timed::start_all ? start_us : wait_us;
  }
  LinkUsed link_used() override { return messages_.front()->link_used(); }

 private:
  Region region() const override { return {buffer_.data(), buffer_.size(), messages}; }

  Timed timed_;
  DeviceBuffer buffer_;
  std::vector<std::unique_ptr<PersistentMessage>> messages_;
  std::vector<Partita_Request> handles_;
  StreamQueue queue_;
};

/// As many launches of an empty kernel as there are messages.
class LaunchCost final : public GpuMeasurement {
 public:
  using GpuMeasurement::GpuMeasurement;
  void prepare(std::uint64_t) override {}
  bool compare(std::uint64_t) const override { return true; }  // it moves nothing
  double sample(const Round&) override {
    job_.barrier();
    const double us = us_of_each(messages, [&] {
      for (int i = 0; i < messages; ++i) launch_nothing(stream_.get());
    });
    stream_.synchronize();
    return us;
  }
};

std::vector<Contender> make_queue_calls_contenders(Job& job, const Subjects&, const Case& c) {
  const std::string reference = "launch";
  std::vector<Contender> contenders;
  contenders.push_back({reference, reference, std::make_unique<LaunchCost>(job, reference, c)});
  for (const auto& [name, timed] : {std::pair("start", Timed::start), std::pair("wait", Timed::wait),
                                    std::pair("startall", Timed::start_all), std::pair("waitall", Timed::wait_all)}) {
    contenders.push_back({name, reference, std::make_unique<EnqueueCost>(job, name, c, timed)});
  }
  return contenders;
}

/// Messages that one block moves, and larger ones. The waits of still larger ones are two launches each.
void set_queue_calls_defaults(Options& options) {
  options.min_bytes = 16 << 10;
  options.max_bytes = 256 << 10;
  options.partitions = {1};
  options.iterations = 200;
  options.warmup = 20;
}

}  // namespace

Benchmark queue_enqueue_benchmark() {
  return {.name = queue_enqueue_naming.name,
          .what = queue_enqueue_naming.what,
          .unit = "us",
          .timed_in_batches = false,
          .compares_subjects = false,
          .on_gpu = true,
          .lacks = without(
              {"--link", "--transport-partitions", "--blocks", "--block-threads", "--nccl", "--nvshmem", "--batch"}),
          .set_defaults = set_queue_calls_defaults,
          .contenders = make_queue_calls_contenders,
          .metric_title = "x_launch_time",
          .metric = times_larger};
}

}  // namespace partita::bench::gpu
