// partitioned.fig2: launching a vector addition and synchronising with it (gpu-initiated-partitioned-mpi, figure 2).
#include <algorithm>

#include "bench/gpu/benchmarks.hpp"
#include "bench/gpu/measurement.hpp"
#include "bench/gpu/table.hpp"
#include "bench/gpu/vector_add.hpp"

namespace partita::bench::gpu {

namespace {

enum class Figure : std::uint8_t { launch, synchronize, together, idle };

/// The arrays of one case, which its contenders share.
struct AdditionArrays {
  explicit AdditionArrays(std::size_t size_bytes) : a(size_bytes), b(size_bytes), c(size_bytes) {}
  DeviceBuffer a;
  DeviceBuffer b;
  DeviceBuffer c;
};

/// One addition on each rank's GPU, no communication.
class TimedAddition final : public GpuMeasurement {
 public:
  TimedAddition(Job& job, std::string name, const Case& c, std::shared_ptr<AdditionArrays> arrays, Figure figure)
      : GpuMeasurement(job, std::move(name), c),
        blocks_(vector_add_blocks(c.size_bytes)),
        arrays_(std::move(arrays)),
        figure_(figure) {}

  void prepare(std::uint64_t epoch) override {
    gpu::fill_addends(arrays_->a.data(), arrays_->b.data(), region(), epoch, stream_.get());
    gpu::poison(region(), epoch, stream_.get());
  }
  bool compare(std::uint64_t epoch) const override { return compare_region(region(), epoch); }

  double sample(const Round&) override {
    const std::int64_t begin_ns = now_ns();
    launch_vector_add({arrays_->a.data(), arrays_->b.data()}, arrays_->c.data(), blocks_, stream_.get());
    const std::int64_t launched_ns = now_ns();
    if (figure_ == Figure::synchronize) await_end();
    const std::int64_t asked_ns = now_ns();
    stream_.synchronize();
    const std::int64_t end_ns = now_ns();
    switch (figure_) {
      case Figure::launch:
        return us(launched_ns - begin_ns);
      case Figure::synchronize:
        return us(end_ns - asked_ns);
      case Figure::together:
        return us(end_ns - begin_ns);
      case Figure::idle:
        break;
    }
    return us(std::max<std::int64_t>(0, end_ns - asked_ns - empty_synchronize_ns()));
  }

 private:
  static double us(std::int64_t ns) { return static_cast<double>(ns) / 1000; }
  Region region() const { return {arrays_->c.data(), arrays_->c.size(), blocks_}; }
  void await_end() const {
    cudaError_t state = cudaErrorNotReady;
    while (state == cudaErrorNotReady) state = cudaStreamQuery(stream_.get());
    check(state, "cudaStreamQuery");
  }
  /// What the call takes where nothing is left to wait for.
  std::int64_t empty_synchronize_ns() const {
    const std::int64_t begin_ns = now_ns();
    stream_.synchronize();
    return now_ns() - begin_ns;
  }

  int blocks_;
  std::shared_ptr<AdditionArrays> arrays_;
  Figure figure_;
};

std::vector<Contender> make_fig2_contenders(Job& job, const Subjects&, const Case& c) {
  const auto arrays = std::make_shared<AdditionArrays>(static_cast<std::size_t>(c.size_bytes));
  const std::pair<const char*, Figure> figures[] = {{"launch+synchronize", Figure::together},
                                                    {"launch", Figure::launch},
                                                    {"synchronize", Figure::synchronize},
                                                    {"cpu-idle", Figure::idle}};
  std::vector<Contender> contenders;
  for (const auto& [name, figure] : figures) {
    contenders.push_back({name, figures[0].first, std::make_unique<TimedAddition>(job, name, c, arrays, figure)});
  }
  return contenders;
}

void set_fig2_defaults(Options& options) {
  options.min_bytes = vector_add_block_bytes;
  options.max_bytes = vector_add_block_bytes << 17;
  options.iterations = 50;
  options.warmup = 5;
}

double share_percent(double median, double reference) {
  return reference > 0 ? 100 * median / reference : 0;
}

}  // namespace

Benchmark fig2_benchmark() {
  return {.name = fig2_naming.name,
          .what = fig2_naming.what,
          .unit = "us",
          .timed_in_batches = false,
          .compares_subjects = false,
          .on_gpu = true,
          .lacks = without(
              {"--link", "--transport-partitions", "--blocks", "--block-threads", "--nccl", "--nvshmem", "--batch"}),
          .set_defaults = set_fig2_defaults,
          .contenders = make_fig2_contenders,
          .partitions_of = vector_add_blocks,
          .metric_title = "Percent",
          .metric = share_percent};
}

}  // namespace partita::bench::gpu
