// What torch_rank.py cannot say by ctypes: calls whose arguments are handles of the MPI, and a kernel. All else it
// calls itself. Each returns an MPI error code, or a negative number where CUDA fails.
#include <cuda_runtime.h>
#include <mpi.h>
#include <partita/partita.h>
#include <partita/device.cuh>

#include <cstdio>

namespace {

/// Block b marks partition b.
__global__ void mark(MPIX_Prequest send, int* codes) {
  const int code = MPIX_Pready_block(static_cast<int>(blockIdx.x), send);
  if (threadIdx.x == 0 && code != 0) atomicAdd(codes, 1);
}

}  // namespace

extern "C" {

PARTITA_EXPORT int bridge_start(int* rank, int* ranks) {
  int level = 0;
  if (const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level); code != MPI_SUCCESS) return code;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, rank);
  MPI_Comm_size(MPI_COMM_WORLD, ranks);
  return Partita_Init(MPI_COMM_WORLD);
}

PARTITA_EXPORT int bridge_prequest_bytes() {
  return static_cast<int>(sizeof(Partita_Prequest));
}

PARTITA_EXPORT int bridge_end() {
  const int code = Partita_Finalize();
  return code == MPI_SUCCESS ? MPI_Finalize() : code;
}

PARTITA_EXPORT int bridge_barrier() {
  return MPI_Barrier(MPI_COMM_WORLD);
}

PARTITA_EXPORT int bridge_send(void* buffer, int partitions, long long bytes, int peer, int tag,
                               Partita_Request* request) {
  return Partita_Psend_init(buffer, partitions, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_INFO_NULL, request);
}

PARTITA_EXPORT int bridge_recv(void* buffer, int partitions, long long bytes, int peer, int tag,
                               Partita_Request* request) {
  return Partita_Precv_init(buffer, partitions, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_INFO_NULL, request);
}

/// A value of Partita_Request_get_info, empty where the key is missing. `value` has MPI_MAX_INFO_VAL bytes or 4096.
PARTITA_EXPORT int bridge_info(Partita_Request request, const char* key, char* value) {
  MPI_Info info = MPI_INFO_NULL;
  if (const int code = Partita_Request_get_info(request, &info); code != MPI_SUCCESS) return code;
  int found = 0;
  value[0] = '\0';
  MPI_Info_get(info, key, MPI_MAX_INFO_VAL < 4096 ? MPI_MAX_INFO_VAL - 1 : 4095, value, &found);
  return MPI_Info_free(&info);
}

/// Marks all partitions by a kernel on `stream` of GPU `device`; `codes`, in its memory, counts the calls that failed.
PARTITA_EXPORT int bridge_mark(const Partita_Prequest* send, int device, void* stream, int* codes) {
  if (cudaSetDevice(device) != cudaSuccess) return -1;
  mark<<<static_cast<unsigned>(send->send_partitions), 64, 0, static_cast<cudaStream_t>(stream)>>>(*send, codes);
  if (const cudaError_t result = cudaGetLastError(); result != cudaSuccess) {
    std::fprintf(stderr, "bridge_mark: %s\n", cudaGetErrorString(result));
    return -1;
  }
  return MPI_SUCCESS;
}

}  // extern "C"
