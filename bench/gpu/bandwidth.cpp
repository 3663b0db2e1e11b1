// partitioned.bandwidth: bytes a second of one epoch that the blocks of a running kernel put into the peer GPU.
#include <algorithm>
#include <bit>

#include "bench/gpu/benchmarks.hpp"
#include "bench/gpu/measurement.hpp"
#include "bench/gpu/memory_copy.hpp"
#include "bench/gpu/nccl.hpp"
#include "bench/gpu/nvshmem.hpp"
#include "bench/gpu/table.hpp"

namespace partita::bench::gpu {

namespace {

constexpr int largest_default_grid = 128;  // about a block a multiprocessor
constexpr int default_threads = 512;
constexpr std::int64_t default_block_bytes = 8192;

/// What a contender counts: putting alone, or whole epochs back to back.
enum class Counted : std::uint8_t { putting, epochs };

struct Way {
  const char* name;
  Counted counted;
  Turn turn;
};
constexpr Way ways[] = {{"put", Counted::putting, Turn::wait_start_prepare},
                        {"epochs", Counted::epochs, Turn::wait_start_prepare},
                        {"next", Counted::epochs, Turn::next}};

/// Device-driven on both sides; each block of the sender has a partition of its own.
class Putting final : public OneWayMeasurement {
 public:
  Putting(Job& job, std::string name, const Case& c, const GridShape& grid, Way way)
      : OneWayMeasurement(job, std::move(name), c),
        grid_(grid),
        way_(way),
        buffer_(static_cast<std::size_t>(c.size_bytes)),
        request_(job, shape()) {
    request_.create_device_request();
  }

  /// Microseconds of an epoch.
  double sample(const Round& round) override {
    job_.barrier();
    if (job_.is_first()) {
      launch_putting(request_.for_kernels(), grid_, way_.turn, round.batch, report_.on_gpu(), stream_.get());
    } else {
      launch_receiving(request_.for_kernels(), round.batch, report_.on_gpu(), stream_.get());
    }
    const KernelReport report = finished(report_);
    if (!job_.is_first()) return 0;
    const std::uint64_t ns = way_.counted == Counted::putting ? report.measured_ns : report.whole_ns;
    return static_cast<double>(ns) / 1000 / round.batch;
  }
  LinkUsed link_used() override { return request_.link_used(); }

 private:
  Region region() const override { return {buffer_.data(), buffer_.size(), grid_.blocks}; }
  RequestShape shape() const {
    RequestShape shape;
    shape.sends = job_.is_first();
    shape.buffer = buffer_.data();
    shape.size_bytes = case_.size_bytes;
    shape.partitions = grid_.blocks;
    shape.transport_partitions = job_.options.transport_partitions;
    shape.driver = "device";
    return shape;
  }

  GridShape grid_;
  Way way_;
  DeviceBuffer buffer_;
  Request request_;
  Mailbox<KernelReport> report_;
};

int default_blocks(std::int64_t size_bytes) {
  const auto wanted = static_cast<std::uint64_t>(std::max<std::int64_t>(1, size_bytes / default_block_bytes));
  return static_cast<int>(std::min<std::uint64_t>(std::bit_floor(wanted), largest_default_grid));
}

std::vector<GridShape> grids(const Job& job, std::int64_t size_bytes) {
  const std::vector<int> blocks =
      job.options.blocks.empty() ? std::vector<int>{default_blocks(size_bytes)} : job.options.blocks;
  const std::vector<int> threads =
      job.options.block_threads.empty() ? std::vector<int>{default_threads} : job.options.block_threads;
  std::vector<GridShape> shapes;
  for (const int b : blocks) {
    for (const int t : threads) {
      const GridShape shape{b, t};
      if (size_bytes % (8 * static_cast<std::int64_t>(b)) != 0) {
        throw Failure("--blocks {}: {} bytes do not divide into that many partitions of whole 8-byte words.", b,
                      size_bytes);
      }
      if (!job.on_both(fits_on_gpu(shape)))
        throw Failure("{} blocks of {} threads do not run at once on this GPU.", b, t);
      shapes.push_back(shape);
    }
  }
  return shapes;
}

std::vector<Contender> make_bandwidth_contenders(Job& job, const Subjects&, const Case& c) {
  std::vector<Contender> contenders;
  std::string reference;
  for (const GridShape& grid : grids(job, c.size_bytes)) {
    for (const Way& way : ways) {
      const std::string name = fmt::format("{}-{}x{}", way.name, grid.blocks, grid.threads);
      if (reference.empty()) reference = name;
      contenders.push_back({name, reference, std::make_unique<Putting>(job, name, c, grid, way)});
    }
    if (auto nvshmem = nvshmem_put(job, c, grid)) {
      contenders.push_back({fmt::format("nvshmem-{}x{}", grid.blocks, grid.threads), reference, std::move(nvshmem)});
    }
  }
  if (auto nccl = nccl_stream(job, c)) contenders.push_back({"nccl", reference, std::move(nccl)});
  return contenders;
}

void set_bandwidth_defaults(Options& options) {
  options.min_bytes = 64 << 10;
  options.max_bytes = std::int64_t{256} << 20;
  options.partitions = {1};
  options.iterations = 20;
  options.warmup = 2;
  options.batch = 10;
}

}  // namespace

Benchmark bandwidth_benchmark() {
  return {.name = bandwidth_naming.name,
          .what = bandwidth_naming.what,
          .unit = "GB/s",
          .larger_is_better = true,
          .compares_subjects = false,
          .on_gpu = true,
          .lacks = without({"--link"}),
          .set_defaults = set_bandwidth_defaults,
          .contenders = make_bandwidth_contenders,
          .value = gigabytes_per_second,
          .metric_title = "x_first",
          .metric = times_larger};
}

}  // namespace partita::bench::gpu
