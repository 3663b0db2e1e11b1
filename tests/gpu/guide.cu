// The programs of docs/guide/gpu.md: they compile, with both headers in one file.
#include <cooperative_groups.h>
#include <cuda_runtime.h>
#include <mpi.h>
#include <partita/mpix.h>
#include <partita/device.cuh>

namespace {

__device__ double compute() {
  return 1;
}
__device__ void compute_halo(double* out) {
  out[threadIdx.x] = compute();
}
__device__ void compute_part(double* out, unsigned part) {
  out[part * blockDim.x + threadIdx.x] = compute();
}
__device__ void use(const double* in) {
  if (in[0] < 0) __trap();
}

__global__ void __launch_bounds__(1024) produce(double* edge, MPIX_Prequest prequest) {
  edge[blockIdx.x * blockDim.x + threadIdx.x] = compute();
  MPIX_Pready_block(static_cast<int>(blockIdx.x), prequest);
}
__global__ void compute_edge(double* edge) {
  compute_halo(edge);
}
__global__ void compute_interior(double* interior) {
  compute_halo(interior);
}
__global__ void consume(const double* halo) {
  use(halo);
}
__global__ void compute_both(double* interior, const double* halo, MPIX_Completion arrived) {
  compute_halo(interior);
  int there = 0;
  while (!there && MPIX_Completed_block(arrived, &there) == PARTITA_DEVICE_SUCCESS) continue;
  if (there) use(halo);
}

__global__ void __launch_bounds__(256) exchange(double* out, MPIX_Prequest send, MPIX_Prequest recv, int steps) {
  for (int step = 0; step < steps; ++step) {
    MPIX_Pstart(recv);
    MPIX_Pstart(send);
    compute_halo(out);
    MPIX_Pbuf_prepare(send);
    MPIX_Pready_block(0, send);
    MPIX_Pwait(send);
    MPIX_Pwait(recv);
  }
}

__global__ void __launch_bounds__(256)
    solve(double* out, const double* in, MPIX_Prequest send, MPIX_Prequest recv, int steps) {
  cooperative_groups::grid_group grid = cooperative_groups::this_grid();
  for (int step = 0; step < steps; ++step) {
    if (blockIdx.x == 0) {
      MPIX_Pstart(recv);
      MPIX_Pstart(send);
      MPIX_Pbuf_prepare(send);
    }
    grid.sync();
    compute_part(out, blockIdx.x);
    MPIX_Pready_block(static_cast<int>(blockIdx.x), send);
    if (blockIdx.x == 0) {
      MPIX_Pwait(send);
      MPIX_Pwait(recv);
    }
    grid.sync();
    use(in);
    grid.sync();
  }
}

}  // namespace

void choose_gpu() {
  MPI_Comm node;
  int rank_on_node = 0;
  int gpus = 0;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  MPI_Comm_rank(node, &rank_on_node);
  MPI_Comm_free(&node);
  cudaGetDeviceCount(&gpus);
  cudaSetDevice(rank_on_node % gpus);
}

void host_driven(double* edge, double* halo, int blocks, int steps, int peer, int tag, MPI_Comm comm,
                 cudaStream_t stream) {
  MPI_Request send;
  MPI_Request recv;
  MPIX_Prequest prequest;
  MPI_Precv_init(halo, blocks, 1024, MPI_DOUBLE, peer, tag, comm, MPI_INFO_NULL, &recv);
  MPI_Psend_init(edge, blocks, 1024, MPI_DOUBLE, peer, tag, comm, MPI_INFO_NULL, &send);
  MPIX_Prequest_create(&prequest, send);
  for (int step = 0; step < steps; ++step) {
    cudaStreamSynchronize(stream);
    MPI_Start(&recv);
    MPI_Start(&send);
    MPIX_Pbuf_prepare(send);
    produce<<<blocks, 1024, 0, stream>>>(edge, prequest);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    MPI_Wait(&recv, MPI_STATUS_IGNORE);
    consume<<<blocks, 1024, 0, stream>>>(halo);
  }
  MPIX_Prequest_free(&prequest);
  MPI_Request_free(&send);
  MPI_Request_free(&recv);
}

void device_driven_by_one_block(double* out, MPIX_Prequest send, MPIX_Prequest recv, int steps) {
  exchange<<<1, 256>>>(out, send, recv, steps);
}

void device_driven(double* out, double* in, MPIX_Prequest send, MPIX_Prequest recv, int blocks, int steps) {
  void* arguments[] = {&out, &in, &send, &recv, &steps};
  cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(solve), dim3(static_cast<unsigned>(blocks)), dim3(256),
                              arguments, 0, nullptr);
}

void in_a_stream(double* edge, double* halo, double* interior, int n, int blocks, int threads, int steps, int left,
                 int right, MPI_Comm comm, cudaStream_t stream) {
  MPI_Request requests[2];
  MPIX_Queue queue;
  MPI_Send_init(edge, n, MPI_DOUBLE, right, 0, comm, &requests[0]);
  MPI_Recv_init(halo, n, MPI_DOUBLE, left, 0, comm, &requests[1]);
  MPIX_Matchall(2, requests);
  MPIX_Queue_init(&queue, MPIX_QUEUE_CUDA, &stream);
  for (int step = 0; step < steps; ++step) {
    compute_edge<<<blocks, threads, 0, stream>>>(edge);
    MPIX_Enqueue_startall(queue, 2, requests);
    compute_interior<<<blocks, threads, 0, stream>>>(interior);
    MPIX_Enqueue_waitall(queue, 2, requests);
    consume<<<blocks, threads, 0, stream>>>(halo);
  }
  MPIX_Completion arrived;
  MPIX_Queue_completion(requests[1], &arrived);
  MPIX_Enqueue_startall(queue, 2, requests);
  compute_both<<<1, threads, 0, stream>>>(interior, halo, arrived);
  MPIX_Enqueue_waitall(queue, 2, requests);
  MPIX_Queue_free(&queue);
}
