// The program that fault_test.py runs on two GPUs: rank 1 is killed while a kernel of rank 0 waits for it. What rank 0
// finds it prints as lines "probe: ...".
//
//   gpu_probe MODE BYTES   MODE: wait      device-driven, from rank 1 to rank 0: the kernel is in MPIX_Pwait
//                                prepare   device-driven, from rank 0 to rank 1: the kernel is in MPIX_Pbuf_prepare
//                                exchange  device-driven, both ways, until rank 1 dies in the middle of it
//                                parrived  host-driven, from rank 1 to rank 0: the kernel asks MPIX_Parrived again and
//                                          again while its host is in MPI_Wait
//                                mark      host-driven, from rank 0 to rank 1: marks that nobody takes any more
#include <cuda_runtime.h>
#include <mpi.h>
#include <partita/mpix.h>
#include <signal.h>
#include <sys/types.h>
#include <unistd.h>
#include <partita/device.cuh>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "probe_lines.hpp"

namespace {

using Clock = std::chrono::steady_clock;
constexpr int victim = 1;
constexpr int partitions = 4;
constexpr int good_rounds = 5;
constexpr int endless = 1 << 30;
/// Longer than fault_test.py lets a wait take; a kernel that nobody released ends by itself.
constexpr partita_u64 kernel_limit_ns = 40'000'000'000;
constexpr auto host_limit = std::chrono::seconds(45);

void check_cuda(cudaError_t result, const char* call) {
  if (result == cudaSuccess) return;
  say("%s fails: %s", call, cudaGetErrorString(result));
  _exit(4);
}
#define CUDA(call) check_cuda(call, #call)

[[noreturn]] void strike() {
  say("pid %d strikes", static_cast<int>(getpid()));
  raise(SIGKILL);
  _exit(5);
}

// ---- Kernels
// ---------------------------------------------------------------------------------------------------------

struct Outcome {
  int code;
  int rounds;
};

/// Device-driven epochs by one block until a call fails. Either direction may be missing.
__global__ void __launch_bounds__(256) run_epochs(MPIX_Prequest send, MPIX_Prequest recv, bool sends, bool receives,
                                                  unsigned char* out, int bytes, int rounds, Outcome* outcome) {
  const partita_u64 begin = partita::device::now_ns();
  int code = 0;
  int round = 0;
  while (round < rounds && code == 0 && !__syncthreads_or(partita::device::now_ns() - begin > kernel_limit_ns)) {
    if (receives) code = MPIX_Pstart(recv);
    if (sends && code == 0) code = MPIX_Pstart(send);
    if (sends && code == 0) {
      for (int i = static_cast<int>(threadIdx.x); i < bytes; i += static_cast<int>(blockDim.x)) {
        out[i] = static_cast<unsigned char>(round);
      }
      code = MPIX_Pbuf_prepare(send);
    }
    for (int p = 0; sends && p < partitions && code == 0; ++p) code = MPIX_Pready_block(p, send);
    if (sends && code == 0) code = MPIX_Pwait(send);
    if (receives && code == 0) code = MPIX_Pwait(recv);
    if (code == 0) ++round;
  }
  if (threadIdx.x == 0) *outcome = {code, round};
}

/// Asks for each partition until all have arrived or a call fails; counts what has arrived.
__global__ void ask_again_and_again(MPIX_Prequest recv, Outcome* outcome) {
  const partita_u64 begin = partita::device::now_ns();
  int code = 0;
  int arrived = 0;
  while (arrived < partitions && code == 0 && partita::device::now_ns() - begin < kernel_limit_ns) {
    int flag = 0;
    code = MPIX_Parrived(recv, arrived, &flag);
    if (code == 0 && flag != 0) ++arrived;
  }
  *outcome = {code, arrived};
}

__global__ void mark_all(MPIX_Prequest send, Outcome* outcome) {
  *outcome = {MPIX_Pready_range(0, partitions - 1, send), 1};
}

__global__ void square(int* value) {
  *value *= *value;
}

// ---- The two ranks
// ---------------------------------------------------------------------------------------------------

struct Job {
  std::string mode;
  int bytes;
  unsigned char* out = nullptr;
  unsigned char* in = nullptr;
  MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};  ///< send, receive
  MPIX_Prequest device[2] = {};
  cudaStream_t stream = nullptr;
  Outcome* outcome = nullptr;  ///< host memory

  bool device_driven() const { return mode == "wait" || mode == "prepare" || mode == "exchange"; }
  bool sends() const { return mode == "exchange" || (own_rank == victim) == (mode == "wait" || mode == "parrived"); }
  bool receives() const { return mode == "exchange" || !sends(); }

  void make();
  void launch_epochs(int rounds);
  /// Whether the kernel has ended, once it has or the limit is over.
  bool kernel_ends() const;
};

void Job::make() {
  const auto size = static_cast<std::size_t>(bytes);
  CUDA(cudaMalloc(&out, size));
  CUDA(cudaMalloc(&in, size));
  CUDA(cudaHostAlloc(&outcome, sizeof *outcome, cudaHostAllocMapped));
  CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  MPI_Info info = MPI_INFO_NULL;
  if (device_driven()) {
    MPI_Info_create(&info);
    MPI_Info_set(info, "partita_driver", "device");
  }
  const int peer = 1 - own_rank;
  if (sends()) {
    MPI_Psend_init(out, partitions, bytes / partitions, MPI_BYTE, peer, 1, MPI_COMM_WORLD, info, &requests[0]);
  }
  if (receives()) {
    MPI_Precv_init(in, partitions, bytes / partitions, MPI_BYTE, peer, 1, MPI_COMM_WORLD, info, &requests[1]);
  }
  const bool needed = device_driven() || own_rank != victim;
  for (int i = 0; i < 2 && needed; ++i) {
    if (requests[i] == MPI_REQUEST_NULL) continue;
    if (const int code = MPIX_Prequest_create(&device[i], requests[i]); code != MPI_SUCCESS) {
      say("has no device request: %s", sentence_of(code).c_str());
      _exit(4);
    }
  }
  CUDA(cudaDeviceSynchronize());
  MPI_Barrier(MPI_COMM_WORLD);
}

void Job::launch_epochs(int rounds) {
  run_epochs<<<1, 128, 0, stream>>>(device[0], device[1], sends(), receives(), out, bytes, rounds, outcome);
  CUDA(cudaGetLastError());
}

bool Job::kernel_ends() const {
  const auto deadline = Clock::now() + host_limit;
  while (Clock::now() < deadline) {
    const cudaError_t state = cudaStreamQuery(stream);
    if (state == cudaSuccess) return true;
    if (state != cudaErrorNotReady) check_cuda(state, "the kernel");
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

[[noreturn]] void die(Job& job) {
  if (job.device_driven()) {
    job.launch_epochs(job.mode == "exchange" ? endless : good_rounds);
    if (job.mode != "exchange" && job.kernel_ends())
      say("ran %d rounds: code %d", job.outcome->rounds, job.outcome->code);
  } else if (job.sends()) {
    MPI_Start(&job.requests[0]);
    MPI_Pready_range(0, partitions / 2 - 1, job.requests[0]);
  }
  std::this_thread::sleep_for(std::chrono::seconds(1));
  strike();
}

/// What the host is told: by its wait for a host-driven request, and after the kernel's end for a device-driven one.
int first_error(Job& job) {
  for (const int i : {1, 0}) {
    if (job.requests[i] == MPI_REQUEST_NULL) continue;
    if (const int code = MPI_Wait(&job.requests[i], MPI_STATUS_IGNORE); code != MPI_SUCCESS) return code;
  }
  return MPI_SUCCESS;
}

/// CUDA still works in this process.
void try_cuda() {
  int* value = nullptr;
  int on_host = 12;
  CUDA(cudaMalloc(&value, sizeof(int)));
  CUDA(cudaMemcpy(value, &on_host, sizeof(int), cudaMemcpyHostToDevice));
  square<<<1, 1>>>(value);
  CUDA(cudaMemcpy(&on_host, value, sizeof(int), cudaMemcpyDeviceToHost));
  say("computes %d", on_host);
}

void survive(Job& job) {
  const auto begin = Clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  int code = MPI_SUCCESS;
  if (job.device_driven()) {
    job.launch_epochs(endless);
  } else {
    code = MPI_Start(&job.requests[job.receives() ? 1 : 0]);
    if (job.receives()) ask_again_and_again<<<1, 1, 0, job.stream>>>(job.device[1], job.outcome);
    if (job.sends()) mark_all<<<1, 1, 0, job.stream>>>(job.device[0], job.outcome);
    CUDA(cudaGetLastError());
    if (code == MPI_SUCCESS) code = first_error(job);
  }
  if (!job.kernel_ends()) {
    say("has a kernel that does not end");
    _exit(4);
  }
  say("kernel ended: code %d after %.1f s and %d rounds", job.outcome->code, seconds(), job.outcome->rounds);
  if (code == MPI_SUCCESS) code = first_error(job);
  say_survives(code, seconds());
  try_cuda();
  int freed = MPI_SUCCESS;
  for (int i = 0; i < 2; ++i) {
    if (job.requests[i] == MPI_REQUEST_NULL) continue;
    for (const int result : {MPIX_Prequest_free(&job.device[i]), MPI_Request_free(&job.requests[i])}) {
      if (result != MPI_SUCCESS) freed = result;
    }
  }
  say("frees: %s", freed == MPI_SUCCESS ? "MPI_SUCCESS" : sentence_of(freed).c_str());
}

}  // namespace

int main(int argc, char** argv) {
  // A kernel that is loaded at its first launch waits for kernels that may be waiting for it.
  setenv("CUDA_MODULE_LOADING", "EAGER", 1);
  int level = 0;
  if (MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS) return 3;
  MPI_Comm_rank(MPI_COMM_WORLD, &own_rank);
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  say("runs as pid %d", static_cast<int>(getpid()));
  if (argc != 3 || size != 2 || std::atoi(argv[2]) < partitions) {
    std::fprintf(stderr, "probe: expected are two ranks, a mode and a number of bytes\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  CUDA(cudaSetDevice(own_rank));
  Job job{argv[1], std::atoi(argv[2])};
  job.make();
  if (own_rank == victim) die(job);
  survive(job);
  _exit(0);  // MPI_Finalize would wait for the dead
}
