// Rank 0's kernel computes a buffer in GPU memory, a partition a block, and marks each partition as soon as it is
// there; rank 1's kernel waits for each partition and adds it up. Each rank has a GPU of its own, or both share one.
//
//   mpirun -n 2 ./gpu
#include <mpi.h>

#include <partita/mpix.h>
#include <cstdio>
#include <partita/device.cuh>

constexpr int blocks = 32, threads = 256, rounds = 3;

static void check(cudaError_t code, const char* call) {
  if (code == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", call, cudaGetErrorString(code));
  MPI_Abort(MPI_COMM_WORLD, 1);
}
#define CHECK(call) check(call, #call)

__global__ void __launch_bounds__(threads) produce(double* values, int round, MPIX_Prequest send) {
  values[blockIdx.x * threads + threadIdx.x] = round + blockIdx.x;
  MPIX_Pready_block(blockIdx.x, send);  // by all threads of the block: this part may leave
}

__global__ void __launch_bounds__(threads) consume(double* values, double* sum, MPIX_Prequest receive) {
  MPIX_Pwait_partition(blockIdx.x, receive);  // by all threads of the block: this part is here
  atomicAdd(sum, values[blockIdx.x * threads + threadIdx.x]);
}

// Each rank takes the GPU of its place on the node.
static void choose_gpu() {
  MPI_Comm node;
  int place = 0, gpus = 0;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  MPI_Comm_rank(node, &place);
  MPI_Comm_free(&node);
  CHECK(cudaGetDeviceCount(&gpus));
  CHECK(cudaSetDevice(place % gpus));
}

static double receive(double* values, MPI_Request& request, MPIX_Prequest prequest, double* sum) {
  double result = 0;
  CHECK(cudaMemset(sum, 0, sizeof *sum));
  MPI_Start(&request);  // from now on rank 0 may write
  consume<<<blocks, threads>>>(values, sum, prequest);
  CHECK(cudaGetLastError());
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  CHECK(cudaMemcpy(&result, sum, sizeof result,
                   cudaMemcpyDeviceToHost));  // waits for the kernel: the next round may start
  return result;
}

static void send(double* values, int round, MPI_Request& request, MPIX_Prequest prequest) {
  MPI_Start(&request);
  produce<<<blocks, threads>>>(values, round, prequest);
  CHECK(cudaGetLastError());
  MPI_Wait(&request, MPI_STATUS_IGNORE);  // `values` may be written again
}

int main(int argc, char** argv) {
  int level = 0, rank = 0, wrong = 0;
  double *values = nullptr, *sum = nullptr;
  MPI_Request request = MPI_REQUEST_NULL;
  MPIX_Prequest prequest;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank < 2) {
    choose_gpu();
    CHECK(cudaMalloc(&values, blocks * threads * sizeof *values));
    CHECK(cudaMalloc(&sum, sizeof *sum));
    if (rank == 0) {
      MPI_Psend_init(values, blocks, threads, MPI_DOUBLE, 1, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    } else {
      MPI_Precv_init(values, blocks, threads, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    }
    MPIX_Prequest_create(&prequest, request);
    for (int round = 0; round < rounds; ++round) {
      if (rank == 0) {
        send(values, round, request, prequest);
        continue;
      }
      const double expected = threads * (blocks * (blocks - 1) / 2.0 + blocks * round);
      const double result = receive(values, request, prequest, sum);
      if (result != expected) wrong = 1;
      std::printf("round %d: %.0f, which is %s\n", round, result, result == expected ? "right" : "wrong");
    }
    MPIX_Prequest_free(&prequest);
    MPI_Request_free(&request);
    CHECK(cudaFree(sum));
    CHECK(cudaFree(values));
  }
  MPI_Finalize();
  return wrong;
}
