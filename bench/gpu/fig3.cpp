// partitioned.fig3: what MPIX_Pready costs the threads of one block (gpu-initiated-partitioned-mpi, figure 3).
#include "bench/gpu/benchmarks.hpp"
#include "bench/gpu/marking.hpp"
#include "bench/gpu/measurement.hpp"
#include "bench/gpu/table.hpp"

namespace partita::bench::gpu {

namespace {

constexpr std::int64_t thread_bytes = 8;
constexpr std::int64_t most_threads = 1024;

std::vector<Contender> make_fig3_contenders(Job& job, const Subjects&, const Case& c) {
  const std::pair<const char*, Granularity> calls[] = {{"block", Granularity::block},
                                                       {"thread", Granularity::thread},
                                                       {"warp", Granularity::warp},
                                                       {"default", Granularity::automatic}};
  std::vector<Contender> contenders;
  for (const char* who : {"engine", "kernel", "nvshmem"}) {
    for (const auto& [call, granularity] : calls) {
      const std::string name = fmt::format("{}-{}", who, call);
      const MarkingBlock block{granularity, c.partitions};
      auto measurement =
          std::string_view(who) == "nvshmem" ? nvshmem_marking(job, name, c, block) : marking(job, name, c, block, who);
      if (measurement == nullptr) continue;
      contenders.push_back({name, fmt::format("{}-block", who), std::move(measurement)});
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

void set_fig3_defaults(Options& options) {
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
          .lacks = without({"--link", "--transport-partitions", "--blocks", "--block-threads", "--nccl", "--batch"}),
          .set_defaults = set_fig3_defaults,
          .contenders = make_fig3_contenders,
          .partitions_of = threads_of,
          .metric_title = "x_block_time",
          .metric = times_larger};
}

}  // namespace partita::bench::gpu
