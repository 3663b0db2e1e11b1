// What the harness asks of a benchmark: a contender is prepared, sampled and compared; the harness alternates them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bench/job.hpp"
#include "bench/options.hpp"
#include "bench/subject.hpp"

namespace partita::bench {

/// The message of one row of the table.
struct Case {
  std::int64_t size_bytes;
  int partitions;
};

/// One timed sample: `batch` operations; all contenders of a round meet the same delays.
struct Round {
  std::uint64_t epoch;
  int batch;
};

/// One contender at one case, on one rank. All ranks call the same members in the same order.
class Measurement {
 public:
  virtual ~Measurement() = default;

  /// Fills what this rank sends with the contents of `epoch` and spoils what it receives.
  virtual void prepare(std::uint64_t epoch) = 0;
  /// Runs round.batch operations. This rank's figure in the benchmark's sample unit; the larger of the ranks' counts.
  virtual double sample(const Round& round) = 0;
  /// Compares what this rank received with the contents of `epoch`; prints and returns false where it differs.
  virtual bool compare(std::uint64_t epoch) const = 0;
  /// After the first epochs. Collective.
  virtual LinkUsed link_used() { return {}; }
};

struct Contender {
  std::string name;
  std::string reference;  ///< the name of the contender that this one is compared with
  std::unique_ptr<Measurement> measurement;
  bool once = false;     ///< has one sample, before all rounds
  double bus_bytes = 0;  ///< of one operation, as in bus_bytes.hpp; 0: has no bus bandwidth. Samples are microseconds
};

using Subjects = std::vector<std::unique_ptr<Subject>>;

/// A benchmark: how its samples come to be and what they mean.
struct Benchmark {
  std::string_view name;
  std::string_view what;  ///< one sentence for --help and the list
  std::string_view unit;  ///< of a row's values
  bool larger_is_better = false;
  bool timed_in_batches = true;   ///< else each sample is one operation
  bool verified_before = true;    ///< else its first samples count, and data is compared in every sample only
  bool compares_subjects = true;  ///< else it has contenders of its own and needs no subject
  bool compares_names = false;    ///< its contenders call the MPI by its standard names and past the drop-in
  Ranks ranks = Ranks::two;
  bool on_gpu = false;                ///< buffers lie in GPU memory; has the options of GPU benchmarks
  bool also_on_gpu = false;           ///< has rows on GPU memory, too, where all ranks can use a GPU; has those options
  bool can_split = false;             ///< has --split
  bool follows_close_epochs = false;  ///< has --close-epochs
  bool shows_deviation = false;       ///< the table has the mean and the standard deviation too
  std::string_view unavailable = {};  ///< why this build cannot run it; empty where it can
  std::vector<std::string_view> lacks = {};  ///< options that mean nothing to it
  void (*set_defaults)(Options&) = [](Options&) {};

  std::vector<Contender> (*contenders)(Job&, const Subjects&, const Case&);
  /// The partitions that follow from a message size; null: they are an option.
  int (*partitions_of)(std::int64_t size_bytes) = nullptr;
  /// A row's value from a sample of Measurement::sample.
  double (*value)(double sample, const Case&, const Options&) = [](double sample, const Case&, const Options&) {
    return sample;
  };
  /// Samples below this are early and counted as such; null: there is no such moment.
  double (*early_below)(const Options&) = nullptr;
  /// The benchmark's own figure from a contender's median and its reference's; titled `metric_title`.
  std::string_view metric_title;
  double (*metric)(double median, double reference_median);
};

/// How many times better than the reference: of times, and of rates.
inline double times_faster(double median, double reference) {
  return median > 0 ? reference / median : 0;
}
inline double times_larger(double median, double reference) {
  return reference > 0 ? median / reference : 0;
}
/// What a part takes of the whole, which is its reference.
inline double percent_of(double median, double whole) {
  return whole > 0 ? 100 * median / whole : 0;
}

/// All benchmarks of the harness; the one place that lists them. The program has more that are made of apps
/// (program/fig8.cpp, fig10.cpp, life_steps.cpp).
const std::vector<Benchmark>& benchmarks();

}  // namespace partita::bench
