// The program that kernel_fault_test.py runs on two ranks: rank 0 launches a kernel that marks on another GPU than the
// one of its send buffer, a mistake that no kernel can notice. What the ranks find they print as lines "probe: ...".
#include <cuda_runtime.h>
#include <mpi.h>
#include <partita/partita.h>
#include <partita/device.cuh>

#include <chrono>
#include <cstdlib>

#include "probe_lines.hpp"

namespace {

constexpr int partitions = 4;
constexpr int partition_bytes = 16 * 1024;

__global__ void mark(MPIX_Prequest prequest) {
  MPIX_Pready_block(static_cast<int>(blockIdx.x), prequest);
}

__global__ void square(int* value) {
  *value *= *value;
}

bool works(cudaError_t result, const char* call) {
  if (result != cudaSuccess) say("%s fails: %s", call, cudaGetErrorString(result));
  return result == cudaSuccess;
}
#define WORKS(call) works(call, #call)

void compute() {
  int* value = nullptr;
  int on_host = 12;
  if (!WORKS(cudaMalloc(&value, sizeof(int)))) return;
  if (!WORKS(cudaMemcpy(value, &on_host, sizeof(int), cudaMemcpyHostToDevice))) return;
  square<<<1, 1>>>(value);
  if (WORKS(cudaMemcpy(&on_host, value, sizeof(int), cudaMemcpyDeviceToHost))) say("computes %d", on_host);
}

void say_code(const char* call, int code) {
  say("%s returned %s", call, code == MPI_SUCCESS ? "MPI_SUCCESS" : sentence_of(code).c_str());
}

int run(unsigned char* buffer) {
  Partita_Request request = PARTITA_REQUEST_NULL;
  MPIX_Prequest prequest{};
  const bool sends = own_rank == 0;
  if (sends) {
    Partita_Psend_init(buffer, partitions, partition_bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    WORKS(cudaSetDevice(1));
    say_code("Prequest_create", Partita_Prequest_create(&prequest, request));
  } else {
    Partita_Precv_init(buffer, partitions, partition_bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
  }
  const auto begin = std::chrono::steady_clock::now();
  Partita_Start(&request);
  if (sends) {
    mark<<<partitions, 32>>>(prequest);
    say("kernel: %s", cudaGetErrorString(cudaDeviceSynchronize()));
  }
  const int code = Partita_Wait(&request, MPI_STATUS_IGNORE);
  say_survives(code, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  compute();
  if (sends) say_code("Prequest_free", Partita_Prequest_free(&prequest));
  say_code("Request_free", Partita_Request_free(&request));
  say_code("Finalize", Partita_Finalize());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  begin_probe(argc, argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  unsigned char* buffer = nullptr;
  // What the other GPU takes to start is not part of the epoch, whose limit is short.
  if (own_rank == 0 && (!WORKS(cudaSetDevice(1)) || !WORKS(cudaFree(nullptr)))) return 4;
  if (!WORKS(cudaSetDevice(own_rank)) || !WORKS(cudaMalloc(&buffer, partitions * partition_bytes))) return 4;
  error_string = Partita_Error_string;
  if (Partita_Init(MPI_COMM_WORLD) != MPI_SUCCESS) return 3;
  const int code = run(buffer);
  MPI_Finalize();
  return code;
}
