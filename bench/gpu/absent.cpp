// Without CUDA: the names are known and say why they cannot run.
#include "bench/failure.hpp"
#include "bench/gpu/benchmarks.hpp"
#include "bench/tune/memory.hpp"

namespace partita::bench::gpu {

namespace {

constexpr const char* no_cuda = "this build has no CUDA; configure with -DPARTITA_CUDA=ON";

Benchmark absent(const Naming& naming) {
  Benchmark benchmark{};
  benchmark.name = naming.name;
  benchmark.what = naming.what;
  benchmark.on_gpu = true;
  benchmark.unavailable = no_cuda;
  return benchmark;
}

}  // namespace

const std::vector<Benchmark>& benchmarks() {
  static const std::vector<Benchmark> table = [] {
    std::vector<Benchmark> all{absent(latency_naming),       absent(bandwidth_naming),
                               absent(fig2_naming),          absent(fig3_naming),
                               absent(fig4_naming),          absent(fig5_naming),
                               absent(fig6_naming),          absent(fig7_naming),
                               absent(table1_naming),        absent(late_neighbours_naming),
                               absent(progress_naming),      absent(collectives_naming),
                               absent(queue_fig1_naming),    absent(queue_fig5_naming),
                               absent(queue_enqueue_naming), absent(queue_pack_naming),
                               absent(ipc_fig3_naming),      absent(ipc_fig4_naming),
                               absent(ipc_fig5_naming)};
    for (const Naming& naming : peer_collective_namings) all.push_back(absent(naming));
    return all;
  }();
  return table;
}

std::string what_is_missing() {
  return no_cuda;
}

const StagingMemory& staging_memory() {
  throw Failure("{}", no_cuda);
}

void set_up(MPI_Comm, const Options&) {
  throw Failure("{}", no_cuda);
}

}  // namespace partita::bench::gpu

namespace partita::bench::tune {

const Memory& gpu_memory() {
  static constexpr Memory memory{"gpu", [](std::size_t) -> Buffer { throw Failure("{}", gpu::no_cuda); },
                                 [](void*, const void*, std::size_t) { throw Failure("{}", gpu::no_cuda); }};
  return memory;
}

}  // namespace partita::bench::tune
