// bw: bytes a second through a window of messages in flight, as osu_bw measures it, over persistent requests.
#include "bench/benchmarks/all.hpp"
#include "bench/lane.hpp"

namespace partita::bench {

namespace {

constexpr int acknowledge_tag = 1;

/// The receiver starts all receives of a window before it acknowledges the one before.
class Stream final : public LaneMeasurement {
 public:
  Stream(Job& job, Subject& subject, const Case& c) : LaneMeasurement(job, subject, c) {
    for (int i = 0; i < job.options.window; ++i) add_lane(0);
  }

  /// The time of one window.
  double sample(const Round& round) override {
    const std::vector<double> delays_us =
        draw_delays(job_.options.delay, job_.team.size(), job_.options.seed, round.epoch);
    if (!job_.is_first()) start_receives();
    job_.barrier();
    const std::int64_t begin_ns = now_ns();
    if (job_.is_first()) {
      send(round.batch, delays_us);
    } else {
      receive(round.batch);
    }
    return static_cast<double>(now_ns() - begin_ns) / 1000 / round.batch;
  }

 private:
  void send(int windows, const std::vector<double>& delays_us) {
    for (int i = 0; i < windows; ++i) {
      for (const auto& lane : lanes_) send_partitions(job_, *lane, delays_us);
      for (const auto& lane : lanes_) lane->sending->wait();
      char acknowledged = 0;
      check(PMPI_Recv(&acknowledged, 1, MPI_CHAR, job_.peer(), acknowledge_tag, job_.comm, MPI_STATUS_IGNORE),
            "MPI_Recv");
    }
  }

  void receive(int windows) {
    for (int i = 0; i < windows; ++i) {
      for (const auto& lane : lanes_) lane->receiving->wait();
      if (i + 1 < windows) start_receives();
      const char acknowledge = 1;
      check(PMPI_Send(&acknowledge, 1, MPI_CHAR, job_.peer(), acknowledge_tag, job_.comm), "MPI_Send");
    }
  }

  void start_receives() {
    for (const auto& lane : lanes_) lane->receiving->start();
  }
};

double megabytes_of_windows_per_second(double window_us, const Case& c, const Options& options) {
  return static_cast<double>(c.size_bytes) * options.window / window_us;
}

}  // namespace

Benchmark bw_benchmark() {
  return {.name = "bw",
          .what = "Bandwidth of a window of messages in flight over persistent requests",
          .unit = "MB/s",
          .larger_is_better = true,
          .contenders = one_per_subject<Stream>,
          .value = megabytes_of_windows_per_second,
          .metric_title = "x_persistent",
          .metric = times_larger};
}

}  // namespace partita::bench
