// latency: half the round trip of a ping-pong, as osu_latency_persistent measures it, over persistent requests.
#include "bench/benchmarks/all.hpp"
#include "bench/lane.hpp"

namespace partita::bench {

namespace {

/// Both ranks start each receive before the peer can send into it, so that no subject meets unexpected messages.
class PingPong final : public LaneMeasurement {
 public:
  PingPong(Job& job, Subject& subject, const Case& c)
      : LaneMeasurement(job, subject, c), ping_(add_lane(0)), pong_(add_lane(1)) {}

  double sample(const Round& round) override {
    const std::vector<double> delays_us =
        draw_delays(job_.options.delay, job_.team.size(), job_.options.seed, round.epoch);
    if (!job_.is_first()) ping_.receiving->start();
    job_.barrier();
    const std::int64_t begin_ns = now_ns();
    if (job_.is_first()) {
      serve(round.batch, delays_us);
    } else {
      answer(round.batch, delays_us);
    }
    return static_cast<double>(now_ns() - begin_ns) / 1000 / round.batch / 2;
  }

 private:
  void serve(int times, const std::vector<double>& delays_us) {
    for (int i = 0; i < times; ++i) {
      pong_.receiving->start();
      send_partitions(job_, ping_, delays_us);
      ping_.sending->wait();
      pong_.receiving->wait();
    }
  }

  void answer(int times, const std::vector<double>& delays_us) {
    for (int i = 0; i < times; ++i) {
      ping_.receiving->wait();
      if (i + 1 < times) ping_.receiving->start();
      send_partitions(job_, pong_, delays_us);
      pong_.sending->wait();
    }
  }

  Lane& ping_;
  Lane& pong_;
};

}  // namespace

Benchmark latency_benchmark() {
  return {.name = "latency",
          .what = "Half the round trip of a ping-pong over persistent requests",
          .unit = "us",
          .lacks = {"--window"},
          .contenders = one_per_subject<PingPong>,
          .metric_title = "x_persistent",
          .metric = times_faster};
}

}  // namespace partita::bench
