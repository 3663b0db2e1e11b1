// With CUDA: the table of GPU benchmarks and how a rank comes by its GPU.
#include <array>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "apps/support/shared_library.hpp"
#include "apps/support/versions.hpp"
#include "bench/gpu/benchmarks.hpp"
#include "bench/gpu/memory.hpp"
#include "bench/gpu/table.hpp"

namespace partita::bench::gpu {

namespace {

/// A kernel that waits in vain ends after this long, unless the environment says otherwise.
constexpr const char* wait_limit_s = "20";

int rank_on_node(MPI_Comm comm) {
  MPI_Comm node = MPI_COMM_NULL;
  check(PMPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node), "MPI_Comm_split_type");
  int rank = 0;
  check(PMPI_Comm_rank(node, &rank), "MPI_Comm_rank");
  check(PMPI_Comm_free(&node), "MPI_Comm_free");
  return rank;
}

}  // namespace

const std::vector<Benchmark>& benchmarks() {
  static const std::vector<Benchmark> table = [] {
    std::vector<Benchmark> all{latency_benchmark(),       bandwidth_benchmark(),
                               fig2_benchmark(),          fig3_benchmark(),
                               fig4_benchmark(),          fig5_benchmark(),
                               fig6_benchmark(),          fig7_benchmark(),
                               table1_benchmark(),        late_neighbours_benchmark(),
                               progress_benchmark(),      collectives_benchmark(),
                               queue_fig1_benchmark(),    queue_fig5_benchmark(),
                               queue_enqueue_benchmark(), queue_pack_benchmark(),
                               ipc_fig3_benchmark(),      ipc_fig4_benchmark(),
                               ipc_fig5_benchmark()};
    for (Benchmark& benchmark : peer_collective_benchmarks()) all.push_back(std::move(benchmark));
    return all;
  }();
  return table;
}

std::string what_is_missing() {
  int gpus = 0;
  return cudaGetDeviceCount(&gpus) == cudaSuccess && gpus > 0 ? "" : "there is no GPU that CUDA can use here";
}

void set_up(MPI_Comm comm, const Options& options) {
  setenv("PARTITA_TIMEOUT", wait_limit_s, 0);
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) throw Failure("There is no GPU that CUDA can use here.");
  const int device = options.device >= 0 ? options.device : rank_on_node(comm) % gpus;
  if (device >= gpus) throw Failure("--device {}: this process sees the GPUs 0 to {}.", device, gpus - 1);
  check(cudaSetDevice(device), "cudaSetDevice");
  check(cudaFree(nullptr), "cudaFree");  // makes the context, outside of every measurement
}

}  // namespace partita::bench::gpu
