// ipc.fig4 and .fig5: MPI_Alltoall on GPU memory by protocol, and the parts of its time (ipc-collectives-gpu, figures 4
// and 5).
#include "bench/alltoall.hpp"
#include "bench/gpu/benchmarks.hpp"
#include "bench/gpu/cpu_mapping.hpp"
#include "bench/gpu/measurement.hpp"
#include "bench/gpu/table.hpp"

namespace partita::bench::gpu {

namespace {

AlltoallGpu alltoall_gpu() {
  return {staging_memory(), map_for_cpu};
}

std::vector<Contender> make_protocols(Job& job, const Subjects&, const Case& c) {
  return compare_protocols(job, c, alltoall_gpu());
}

std::vector<Contender> make_parts_of_protocols(Job& job, const Subjects&, const Case& c) {
  return split_protocols(job, c, alltoall_gpu());
}

void set_protocol_defaults(Options& options) {
  options.min_bytes = 1;
  options.max_bytes = 4 << 20;
  options.partitions = {1};
  options.iterations = 40;
  options.warmup = 4;
}

/// First calls keep the memory of each sample.
void set_part_defaults(Options& options) {
  set_protocol_defaults(options);
  options.max_bytes = 1 << 20;
  options.iterations = 20;
  options.warmup = 2;
  options.batch = 10;
}

}  // namespace

Benchmark ipc_fig4_benchmark() {
  return {.name = ipc_fig4_naming.name,
          .what = ipc_fig4_naming.what,
          .unit = "us",
          .compares_subjects = false,
          .ranks = Ranks::any,
          .on_gpu = true,
          .lacks = unused_by_ipc(),
          .set_defaults = set_protocol_defaults,
          .contenders = make_protocols,
          .metric_title = "x_by_hand",
          .metric = times_faster};
}

Benchmark ipc_fig5_benchmark() {
  return {.name = ipc_fig5_naming.name,
          .what = ipc_fig5_naming.what,
          .unit = "us",
          .compares_subjects = false,
          .ranks = Ranks::any,
          .on_gpu = true,
          .lacks = unused_by_ipc(),
          .set_defaults = set_part_defaults,
          .contenders = make_parts_of_protocols,
          .metric_title = "Percent",
          .metric = percent_of};
}

}  // namespace partita::bench::gpu
