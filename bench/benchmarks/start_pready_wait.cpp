// start-pready-wait: what the calls of one epoch cost their caller on a matched pair that need not wait for the other
// side.
#include <algorithm>
#include "bench/benchmarks/all.hpp"

#include "bench/lane.hpp"

namespace partita::bench {

/// The functions that callgrind counts (--toggle-collect='partita::bench::counted_*'): all that an epoch's calls
/// execute, and nothing of the harness.
[[gnu::noinline]] void counted_send(Sending& sending, int partitions) {
  sending.start();
  sending.mark(0, partitions);
  sending.release();
  sending.wait();
}

namespace {

/// The sender's calls with the receiver started before and out of the way. Not a latency: the data may still be on its
/// way.
class CallCost final : public LaneMeasurement {
 public:
  CallCost(Job& job, Subject& subject, const Case& c) : LaneMeasurement(job, subject, c), lane_(add_lane(0)) {}

  double sample(const Round& round) override {
    std::int64_t spent_ns = 0;
    for (int i = 0; i < round.batch; ++i) {
      if (lane_.receiving) lane_.receiving->start();
      job_.barrier();
      spent_ns += epoch();
      job_.barrier();
    }
    const double timer_ns = job_.is_first() ? job_.timer.cost_ns : 0;
    return std::max(0.0, static_cast<double>(spent_ns) / round.batch - timer_ns) / 1000;
  }

 private:
  /// Nanoseconds in the sender's calls; 0 on the receiver.
  std::int64_t epoch() {
    if (lane_.receiving) {
      lane_.receiving->wait();
      return 0;
    }
    const std::int64_t begin_ns = now_ns();
    counted_send(*lane_.sending, case_.partitions);
    return now_ns() - begin_ns;
  }

  Lane& lane_;
};

/// The barriers around each epoch would mislead the choice by time.
void batches_of_twenty(Options& options) {
  options.batch = 20;
}

}  // namespace

Benchmark start_pready_wait_benchmark() {
  return {.name = "start-pready-wait",
          .what = "What Start, all Pready and Wait of a send cost the caller, the receiver having started before",
          .unit = "us",
          .lacks = {"--window", "--threads", "--delay", "--compute-us", "--noise-percent"},
          .set_defaults = batches_of_twenty,
          .contenders = one_per_subject<CallCost>,
          .metric_title = "x_persistent",
          .metric = times_faster};
}

}  // namespace partita::bench
