#include "bench/run.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "apps/support/order.hpp"
#include "bench/function_calls.hpp"
#include "bench/gpu/benchmarks.hpp"

namespace partita::bench {

namespace {

/// A sample lasts at least this long, and this many steps of the timer, where it may hold several operations.
constexpr double sample_us = 100;
constexpr double sample_timer_steps = 1000;
constexpr int largest_batch = 10000;
constexpr int verified_epochs = 3;

/// One operation with contents of its own, compared on both ranks.
void verify(Job& job, Contender& contender, std::uint64_t epoch, int batch) {
  contender.measurement->prepare(epoch);
  job.barrier();
  contender.measurement->sample({epoch, batch});
  job.barrier();
  if (!job.on_both(contender.measurement->compare(epoch))) {
    throw Failure("{} delivered wrong data (epoch {}); nothing of it was measured.", contender.name, epoch);
  }
}

/// How many operations make a sample long enough to time, by the fastest contender. The same on both ranks.
int choose_batch(const Benchmark& benchmark, Job& job, std::vector<Contender>& contenders) {
  if (!benchmark.timed_in_batches) return 1;
  if (job.options.batch > 0) return job.options.batch;
  constexpr int trials = 5;
  constexpr int trial_batch = 16;
  constexpr double far_longer = 10;  // then one trial is enough, which may take a while
  double shortest_us = std::numeric_limits<double>::max();
  for (int trial = 0; trial < trials && !(trial > 0 && shortest_us > far_longer * sample_us); ++trial) {
    for (Contender& contender : contenders) {
      const std::int64_t begin_ns = now_ns();
      contender.measurement->sample({0, trial_batch});
      shortest_us = std::min(shortest_us, job.slowest(static_cast<double>(now_ns() - begin_ns) / 1000 / trial_batch));
    }
  }
  const double wanted_us = std::max(sample_us, job.slowest(job.timer.resolution_ns) * sample_timer_steps / 1000);
  return std::clamp(static_cast<int>(std::ceil(wanted_us / std::clamp(shortest_us, 0.001, sample_us))), 1,
                    largest_batch);
}

/// One sample, of which the data is compared if every sample's is.
double take_sample(Job& job, Contender& contender, const Round& round) {
  const bool compares = job.options.check_every_sample;
  if (compares) contender.measurement->prepare(round.epoch);
  const double sample = contender.measurement->sample(round);
  if (compares && !job.on_both(contender.measurement->compare(round.epoch))) {
    throw Failure("{} delivered wrong data in a sample (epoch {}).", contender.name, round.epoch);
  }
  return sample;
}

/// Takes samples in rounds, each contender once a round, in an order drawn anew for each. Those that have but one
/// sample come before.
std::vector<std::vector<double>> alternate(Job& job, std::vector<Contender>& contenders, int batch) {
  const std::size_t count = contenders.size();
  std::vector<std::vector<double>> samples(count);
  for (const std::size_t index : apps::draw_order(count, job.options.seed, 0)) {
    if (contenders[index].once) samples[index].push_back(take_sample(job, contenders[index], {0, batch}));
  }
  for (int i = -job.options.warmup; i < job.options.iterations; ++i) {
    const Round round{static_cast<std::uint64_t>(job.options.warmup + i) + verified_epochs, batch};
    for (const std::size_t index : apps::draw_order(count, job.options.seed, round.epoch)) {
      if (contenders[index].once) continue;
      const double sample = take_sample(job, contenders[index], round);
      if (i >= 0) samples[index].push_back(sample);
    }
  }
  return samples;
}

/// Each sample of the slower rank, as the benchmark's value.
std::vector<double> slowest_values(const Benchmark& benchmark, const Job& job, const Case& c,
                                   const std::vector<double>& samples) {
  std::vector<double> values(samples.size());
  check(PMPI_Allreduce(samples.data(), values.data(), static_cast<int>(samples.size()), MPI_DOUBLE, MPI_MAX, job.comm),
        "MPI_Allreduce");
  for (double& value : values) value = benchmark.value(value, c, job.options);
  return values;
}

/// Needs the medians of all rows of the case.
void set_metrics(const Benchmark& benchmark, std::vector<Row>& rows) {
  for (Row& row : rows) {
    const auto reference =
        std::find_if(rows.begin(), rows.end(), [&](const Row& other) { return other.subject == row.reference; });
    row.metric = benchmark.metric(row.statistics.median, reference->statistics.median);
  }
}

std::vector<Row> measure(const Benchmark& benchmark, Job& job, const Subjects& subjects, const Case& c) {
  std::vector<Contender> contenders = benchmark.contenders(job, subjects, c);
  for (int epoch = 0; benchmark.verified_before && epoch < verified_epochs; ++epoch) {
    for (Contender& contender : contenders) verify(job, contender, static_cast<std::uint64_t>(epoch), 1);
  }
  const int batch = choose_batch(benchmark, job, contenders);
  const std::vector<std::vector<double>> samples = alternate(job, contenders, batch);

  std::vector<Row> rows;
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    Row row{c.size_bytes,
            c.partitions,
            contenders[i].name,
            contenders[i].reference,
            contenders[i].measurement->link_used(),
            batch,
            slowest_values(benchmark, job, c, samples[i]),
            {},
            0,
            {},
            {}};
    row.statistics = summarize(row.samples, benchmark.larger_is_better);
    if (benchmark.early_below != nullptr) {
      const double moment = benchmark.early_below(job.options);
      row.early = static_cast<int>(
          std::count_if(row.samples.begin(), row.samples.end(), [&](double sample) { return sample < moment; }));
    }
    if (contenders[i].bus_bytes > 0 && row.statistics.median > 0) {
      row.bus_gb_per_s = contenders[i].bus_bytes / 1000 / row.statistics.median;
    }
    rows.push_back(std::move(row));
  }
  set_metrics(benchmark, rows);
  job.barrier();  // before the requests are freed
  return rows;
}

void note_scarce_cores(const Job& job, Results& results) {
  if (results.origin.machine.cores_allowed < job.options.threads) {
    results.notes.push_back(fmt::format("{} threads share {} cores: this rank may run on no more", job.options.threads,
                                        results.origin.machine.cores_allowed));
  }
}

void note_control_run(const Benchmark& benchmark, const Job& job, Results& results) {
  if (benchmark.compares_names && !job.options.split && !drop_in_is_loaded()) {
    results.notes.emplace_back("no drop-in is loaded: both names are the same call, a control run");
  }
}

}  // namespace

Results run(const Benchmark& benchmark, Job& job, const Subjects& subjects) {
  Results results{std::string(benchmark.name),
                  std::string(benchmark.unit),
                  std::string(benchmark.metric_title),
                  job.options,
                  apps::begin_origin(job.comm, job.options.command, benchmark.on_gpu || job.on_gpu),
                  job.timer,
                  benchmark.shows_deviation,
                  job.ranks,
                  {},
                  {}};
  note_scarce_cores(job, results);
  note_control_run(benchmark, job, results);
  const std::vector<int> from_size{0};
  for (const int wanted : benchmark.partitions_of != nullptr ? from_size : job.options.partitions) {
    for (std::int64_t size = job.options.min_bytes; size <= job.options.max_bytes; size *= 2) {
      const int partitions = benchmark.partitions_of != nullptr ? benchmark.partitions_of(size) : wanted;
      if (size % partitions != 0) {
        results.notes.push_back(fmt::format("{} bytes do not divide into {} partitions: left out", size, partitions));
        continue;
      }
      for (Row& row : measure(benchmark, job, subjects, {size, partitions})) results.rows.push_back(std::move(row));
    }
  }
  if (results.rows.empty())
    throw Failure("Nothing was measured: no message size divides into the partitions asked for.");
  results.notes.insert(results.notes.end(), job.notes.begin(), job.notes.end());
  results.mixes_memories = benchmark.also_on_gpu && job.on_gpu;
  apps::end_origin(results.origin);
  return results;
}

}  // namespace partita::bench
