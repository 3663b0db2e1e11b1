// With CUDA: the table of GPU benchmarks and how a rank comes by its GPU.
#include <array>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "apps/support/shared_library.hpp"
#include "bench/gpu/benchmarks.hpp"
#include "bench/gpu/memory.hpp"
#include "bench/gpu/table.hpp"
#include "bench/versions.hpp"

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

std::string bus_id() {
  int device = 0;
  std::array<char, 32> id{};
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetPCIBusId(id.data(), static_cast<int>(id.size()), device), "cudaDeviceGetPCIBusId");
  return id.data();
}

/// NVML, loaded when it is asked: the driver brings it, but containers may lack it.
class ManagementLibrary {
 public:
  using Device = struct NvmlDevice*;
  using Clock = int(Device, int kind, unsigned*);

  ManagementLibrary() {
    const apps::SharedLibrary library("the clocks of the GPU", {"libnvidia-ml.so.1"});
    int (*start)() = nullptr;
    int (*find)(const char*, Device*) = nullptr;
    library.take("nvmlInit_v2", start);
    library.take("nvmlShutdown", end_);
    library.take("nvmlDeviceGetHandleByPciBusId_v2", find);
    library.take("nvmlDeviceGetClockInfo", clock);
    library.take("nvmlDeviceGetMaxClockInfo", most_clock);
    if (start() != success) throw std::runtime_error("nvmlInit_v2 failed");
    if (find(bus_id().c_str(), &device_) != success) device_ = nullptr;
  }
  ~ManagementLibrary() { end_(); }
  ManagementLibrary(const ManagementLibrary&) = delete;
  ManagementLibrary& operator=(const ManagementLibrary&) = delete;

  /// None where the library does not tell.
  std::optional<int> sm_mhz(Clock* ask) const {
    unsigned mhz = 0;
    if (device_ == nullptr || ask(device_, clock_of_sms, &mhz) != success) return std::nullopt;
    return static_cast<int>(mhz);
  }

  Clock* clock = nullptr;
  Clock* most_clock = nullptr;

 private:
  static constexpr int success = 0;
  static constexpr int clock_of_sms = 1;  // NVML_CLOCK_SM
  int (*end_)() = nullptr;
  Device device_ = nullptr;
};

}  // namespace

const std::vector<Benchmark>& benchmarks() {
  static const std::vector<Benchmark> table = [] {
    std::vector<Benchmark> all{latency_benchmark(),    bandwidth_benchmark(),     fig2_benchmark(),
                               fig3_benchmark(),       fig4_benchmark(),          fig5_benchmark(),
                               fig6_benchmark(),       table1_benchmark(),        late_neighbours_benchmark(),
                               progress_benchmark(),   collectives_benchmark(),   queue_fig1_benchmark(),
                               queue_fig5_benchmark(), queue_enqueue_benchmark(), queue_pack_benchmark()};
    for (Benchmark& benchmark : peer_collective_benchmarks()) all.push_back(std::move(benchmark));
    return all;
  }();
  return table;
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

void describe(Machine& machine) {
  int device = 0;
  cudaDeviceProp properties{};
  check(cudaGetDeviceCount(&machine.gpus), "cudaGetDeviceCount");
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  machine.gpu = properties.name;
  machine.gpu_id = bus_id();
  int runtime = 0;
  check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  machine.cuda_runtime = cuda_version(runtime);
}

void read_clock_rates(ClockRates& rates) {
  try {
    const ManagementLibrary library;
    rates.gpu_sm_mhz = library.sm_mhz(library.clock);
    rates.gpu_sm_most_mhz = library.sm_mhz(library.most_clock);
  } catch (const std::runtime_error&) {
    // A machine without the library measures as well as another one; its results lack the clocks.
  }
}

}  // namespace partita::bench::gpu
