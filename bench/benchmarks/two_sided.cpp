// two-sided and channel.fig11 to .fig14: messages by the MPI's sends and receives, in host and GPU memory
// (gpu-aware-channels-charm-ampi-charm4py, figures 11 to 14).
#include "bench/two_sided.hpp"

#include <array>
#include <cstring>

#include "bench/benchmarks/all.hpp"
#include "bench/gpu/benchmarks.hpp"

namespace partita::bench {

namespace {

const StagingMemory* gpu_of(const Job& job) {
  return job.on_gpu ? &gpu::staging_memory() : nullptr;
}

/// As the MPI sees it.
bool share_a_node(const Job& job) {
  OwnedComm node(MPI_COMM_NULL);
  check(PMPI_Comm_split_type(job.comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, node.out()), "MPI_Comm_split_type");
  int ranks = 0;
  check(PMPI_Comm_size(node.get(), &ranks), "MPI_Comm_size");
  return job.on_both(ranks == job.ranks);
}

bool share_a_host(const Job& job) {
  std::array<char, MPI_MAX_PROCESSOR_NAME> own{};
  std::array<char, MPI_MAX_PROCESSOR_NAME> of_first{};
  int length = 0;
  check(PMPI_Get_processor_name(own.data(), &length), "MPI_Get_processor_name");
  of_first = own;
  check(PMPI_Bcast(of_first.data(), static_cast<int>(of_first.size()), MPI_CHAR, 0, job.comm), "MPI_Bcast");
  return job.on_both(std::strcmp(own.data(), of_first.data()) == 0);
}

enum class Path : std::uint8_t { any, in_node, between_nodes };

void require(Path path, Job& job) {
  if (path == Path::any) return;
  const bool one_node = share_a_node(job);
  if (path == Path::in_node && !one_node) {
    throw Failure("The ranks are of two nodes: channel.fig12 and channel.fig14 measure messages between nodes.");
  }
  if (path == Path::between_nodes && one_node) {
    throw Failure(
        "The ranks are of one node: start one on each of two nodes, or have the MPI take every rank for a node, as "
        "MPICH does with MPIR_CVAR_NOLOCAL=1.");
  }
  if (path == Path::between_nodes && share_a_host(job)) {
    job.note("both ranks are of one host, which the MPI takes for two nodes: its way between nodes, but no network");
  }
}

template <Path path>
std::vector<Contender> latency_contenders(Job& job, const Subjects&, const Case& c) {
  require(path, job);
  return job.options.split ? split_round_trips(job, c, gpu_of(job)) : compare_round_trips(job, c, gpu_of(job));
}

template <Path path>
std::vector<Contender> bandwidth_contenders(Job& job, const Subjects&, const Case& c) {
  require(path, job);
  return compare_windows(job, c, gpu_of(job));
}

double megabytes_of_messages_per_second(double window_us, const Case& c, const Options& options) {
  return static_cast<double>(c.size_bytes) * messages_in_flight(c, options) / window_us;
}

void set_two_sided_defaults(Options& options) {
  options.min_bytes = 1;
  options.max_bytes = 64 << 20;
  options.partitions = {1};
  options.iterations = 40;
  options.warmup = 4;
  options.window = 64;
}

Benchmark figure(std::string_view name, std::string_view what) {
  Benchmark benchmark{};
  benchmark.name = name;
  benchmark.what = what;
  benchmark.compares_subjects = false;
  benchmark.compares_names = true;
  benchmark.also_on_gpu = true;
  benchmark.lacks = {"--partitions",           "--threads",    "--delay",   "--compute-us",
                     "--noise-percent",        "--memory",     "--face",    "--link",
                     "--transport-partitions", "--peer",       "placement", "--blocks",
                     "--block-threads",        "--algorithms", "--nccl",    "--nvshmem"};
  benchmark.set_defaults = set_two_sided_defaults;
  return benchmark;
}

template <Path path>
Benchmark latency_figure(std::string_view name, std::string_view what) {
  Benchmark benchmark = figure(name, what);
  benchmark.unit = "us";
  benchmark.lacks.emplace_back("--window");
  benchmark.contenders = latency_contenders<path>;
  benchmark.metric_title = "x_yardstick";
  benchmark.metric = times_faster;
  return benchmark;
}

template <Path path>
Benchmark bandwidth_figure(std::string_view name, std::string_view what) {
  Benchmark benchmark = figure(name, what);
  benchmark.unit = "MB/s";
  benchmark.larger_is_better = true;
  benchmark.contenders = bandwidth_contenders<path>;
  benchmark.value = megabytes_of_messages_per_second;
  benchmark.metric_title = "x_yardstick";
  benchmark.metric = times_larger;
  return benchmark;
}

/// Between any two ranks.
Benchmark two_sided() {
  Benchmark benchmark = latency_figure<Path::any>(
      "two-sided", "Half a round trip of MPI_Send and MPI_Recv, in host and GPU memory; with --split in parts");
  benchmark.can_split = true;
  benchmark.metric_title = "Percent";
  benchmark.metric = percent_of;
  return benchmark;
}

}  // namespace

std::vector<Benchmark> two_sided_benchmarks() {
  return {
      two_sided(),
      latency_figure<Path::in_node>("channel.fig11", "Half a round trip of MPI_Send and MPI_Recv, in a node"),
      latency_figure<Path::between_nodes>("channel.fig12", "The same between nodes"),
      bandwidth_figure<Path::in_node>("channel.fig13", "Bandwidth of a window of MPI_Isend and MPI_Irecv, in a node"),
      bandwidth_figure<Path::between_nodes>("channel.fig14", "The same between nodes")};
}

}  // namespace partita::bench
