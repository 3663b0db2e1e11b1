// late-neighbours: how long one partition takes from its mark to the receiver's seeing it when the partitions beside it
// are marked a good while later. What sends only whole messages, or waits to merge neighbours, needs that while.
#include <optional>

#include "bench/benchmarks/all.hpp"
#include "bench/lane.hpp"

namespace partita::bench {

namespace {

constexpr int arrival_tag = 2;
/// Between two looks at the clock, so that the neighbours are not late by much more than was asked for.
constexpr double computed_at_once_us = 5;

/// One epoch: the sender marks one partition, another one each round, computes, and marks the rest. Microseconds from
/// that first mark to the receiver's first Parrived that tells of it.
class FirstOfMany final : public LaneMeasurement {
 public:
  FirstOfMany(Job& job, Subject& subject, const Case& c)
      : LaneMeasurement(job, subject, c), lane_(add_lane(0)), offset_(measure_offset(job.comm)) {}

  void prepare(std::uint64_t epoch) override {
    LaneMeasurement::prepare(epoch);
    prepared_ = epoch;
  }

  double sample(const Round& round) override {
    if (job_.options.close_epochs > 0) begin_with_close_epochs();
    const int first = static_cast<int>(round.epoch % static_cast<std::uint64_t>(case_.partitions));
    if (lane_.receiving) lane_.receiving->start();
    job_.barrier();
    if (lane_.receiving) {
      receive(first);
      return 0;
    }
    const std::int64_t marked_ns = send(first);
    std::int64_t arrived_ns = 0;
    check(PMPI_Recv(&arrived_ns, 1, MPI_INT64_T, job_.peer(), arrival_tag, job_.comm, MPI_STATUS_IGNORE), "MPI_Recv");
    return static_cast<double>(arrived_ns + offset_.peer_to_here_ns - marked_ns) / 1000;
  }

 private:
  /// In a request of its own: one that was used to close marks, and then had a late one, needs more of them each time.
  void begin_with_close_epochs() {
    job_.barrier();  // before the requests are freed
    lane_.sending.reset();
    lane_.receiving.reset();
    if (job_.is_first()) {
      lane_.sending = subject_.sending(lane_.message);
    } else {
      lane_.receiving = subject_.receiving(lane_.message);
    }
    for (int epoch = 0; epoch < job_.options.close_epochs; ++epoch) run_close_epoch();
    // These have brought the bytes that the sample is to bring.
    if (prepared_) LaneMeasurement::prepare(*prepared_);
    prepared_.reset();
  }

  void run_close_epoch() {
    if (lane_.receiving) lane_.receiving->start();
    job_.barrier();
    if (lane_.receiving) return lane_.receiving->wait();
    lane_.sending->start();
    lane_.sending->mark(0, case_.partitions);
    lane_.sending->release();
    lane_.sending->wait();
  }

  /// The moment before the first mark.
  std::int64_t send(int first) {
    Sending& sending = *lane_.sending;
    sending.start();
    const std::int64_t marked_ns = now_ns();
    sending.mark(first, first + 1);
    const std::int64_t neighbours_at_ns = marked_ns + static_cast<std::int64_t>(job_.options.delay.compute_us * 1000);
    while (now_ns() < neighbours_at_ns) job_.work.compute(computed_at_once_us);
    sending.mark(0, first);
    sending.mark(first + 1, case_.partitions);
    sending.release();
    sending.wait();
    return marked_ns;
  }

  void receive(int first) {
    while (!lane_.receiving->arrived(first)) {
    }
    const std::int64_t arrived_ns = now_ns();
    lane_.receiving->wait();
    check(PMPI_Send(&arrived_ns, 1, MPI_INT64_T, job_.peer(), arrival_tag, job_.comm), "MPI_Send");
  }

  Lane& lane_;
  ClockOffset offset_;
  std::optional<std::uint64_t> prepared_;  ///< the epoch whose contents the next sample is to bring, if it is compared
};

/// A millisecond, and partitions of 1 KiB to 1 MiB.
void set_late_neighbours_defaults(Options& options) {
  options.delay.compute_us = 1000;
  options.min_bytes = 8 << 10;
  options.max_bytes = 8 << 20;
  options.partitions = {8};
  options.iterations = 100;
  options.warmup = 5;
}

/// No neighbour is marked sooner after the first mark, so that what arrives within this time was alone on its way.
double neighbours_after_us(const Options& options) {
  return options.delay.compute_us;
}

}  // namespace

Benchmark late_neighbours_benchmark() {
  return {.name = "late-neighbours",
          .what = "Time from the mark of one partition to its arrival, the others being marked --compute-us later",
          .unit = "us",
          .timed_in_batches = false,
          .follows_close_epochs = true,
          .lacks = {"--window", "--batch", "--threads", "--delay", "--noise-percent"},
          .set_defaults = set_late_neighbours_defaults,
          .contenders = one_per_subject<FirstOfMany>,
          .early_below = neighbours_after_us,
          .metric_title = "x_persistent",
          .metric = times_faster};
}

}  // namespace partita::bench
