// partitioned.fig3: what MPIX_Pready costs the threads of one block (gpu-initiated-partitioned-mpi, figure 3).
#include "bench/gpu/benchmarks.hpp"
#include "bench/gpu/mark_cost.hpp"
#include "bench/gpu/measurement.hpp"
#include "bench/gpu/table.hpp"

namespace partita::bench::gpu {

namespace {

constexpr std::int64_t thread_bytes = 8;
constexpr int warp_threads = 32;
constexpr std::int64_t most_threads = 1024;

int partitions_for(Granularity granularity, int threads) {
  switch (granularity) {
    case Granularity::warp:
      return (threads + warp_threads - 1) / warp_threads;
    case Granularity::block:
      return 1;
    case Granularity::thread:
    case Granularity::automatic:
      break;
  }
  return threads;
}

/// The library aggregates for the default call only: the others name what travels.
int transports_for(Granularity granularity, int partitions) {
  return granularity == Granularity::automatic ? 0 : partitions;
}

/// One epoch: rank 0's block marks everything.
class Marking final : public GpuMeasurement {
 public:
  Marking(Job& job, std::string name, const Case& c, Granularity granularity, const char* copy)
      : GpuMeasurement(job, std::move(name), c),
        granularity_(granularity),
        partitions_(partitions_for(granularity, c.partitions)),
        buffer_(static_cast<std::size_t>(c.size_bytes)),
        request_(job, shape(copy)) {
    if (job.is_first()) request_.create_device_request();
  }

  void prepare(std::uint64_t epoch) override {
    if (job_.is_first()) {
      gpu::fill(region(), epoch, stream_.get());
    } else {
      gpu::poison(region(), epoch, stream_.get());
    }
  }
  bool compare(std::uint64_t epoch) const override { return job_.is_first() || compare_region(region(), epoch); }

  /// Microseconds in the calls, on rank 0.
  double sample(const Round&) override {
    request_.start();
    job_.barrier();
    double spent_us = 0;
    if (job_.is_first()) {
      request_.prepare();
      launch_marking(request_.for_kernels(), granularity_, case_.partitions, report_.on_gpu(), stream_.get());
      spent_us = static_cast<double>(finished(report_).measured_ns) / 1000;
    }
    request_.wait();
    return spent_us;
  }
  LinkUsed link_used() override { return request_.link_used(); }

 private:
  Region region() const { return {buffer_.data(), buffer_.size(), partitions_}; }
  RequestShape shape(const char* copy) const {
    RequestShape shape;
    shape.sends = job_.is_first();
    shape.buffer = buffer_.data();
    shape.size_bytes = case_.size_bytes;
    shape.partitions = partitions_;
    shape.transport_partitions = transports_for(granularity_, partitions_);
    shape.copy = copy;
    return shape;
  }

  Granularity granularity_;
  int partitions_;
  DeviceBuffer buffer_;
  Request request_;
  Mailbox<KernelReport> report_;
};

std::vector<Contender> make_contenders(Job& job, const Subjects&, const Case& c) {
  const std::pair<const char*, Granularity> calls[] = {{"block", Granularity::block},
                                                       {"thread", Granularity::thread},
                                                       {"warp", Granularity::warp},
                                                       {"default", Granularity::automatic}};
  std::vector<Contender> contenders;
  for (const char* copy : {"engine", "kernel"}) {
    const std::string reference = fmt::format("{}-block", copy);
    for (const auto& [call, granularity] : calls) {
      const std::string name = fmt::format("{}-{}", copy, call);
      contenders.push_back({name, reference, std::make_unique<Marking>(job, name, c, granularity, copy)});
    }
  }
  return contenders;
}

int threads_of(std::int64_t size_bytes) {
  if (size_bytes % thread_bytes != 0 || size_bytes > most_threads * thread_bytes) {
    throw Failure("{} bytes are not 1 to {} threads of one block with {} bytes each.", size_bytes, most_threads,
                  thread_bytes);
  }
  return static_cast<int>(size_bytes / thread_bytes);
}

void set_defaults(Options& options) {
  options.min_bytes = thread_bytes;
  options.max_bytes = thread_bytes * most_threads;
  options.iterations = 50;
  options.warmup = 5;
}

}  // namespace

Benchmark fig3_benchmark() {
  return {.name = fig3_naming.name,
          .what = fig3_naming.what,
          .unit = "us",
          .timed_in_batches = false,
          .compares_subjects = false,
          .on_gpu = true,
          .lacks = without(
              {"--link", "--transport-partitions", "--blocks", "--block-threads", "--nccl", "--nvshmem", "--batch"}),
          .set_defaults = set_defaults,
          .contenders = make_contenders,
          .partitions_of = threads_of,
          .metric_title = "x_block_time",
          .metric = times_larger};
}

}  // namespace partita::bench::gpu
