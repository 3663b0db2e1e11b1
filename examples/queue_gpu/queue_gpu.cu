// The ring of cells of ../queue, in GPU memory: in each step a cell becomes the exclusive or of its two neighbours. The
// cells at the ends are exchanged by ordinary persistent requests in a queue of the CUDA stream, between the kernels:
// the host enqueues all steps and waits once, at the end.
//
//   mpirun -n 4 ./queue_gpu
#include <mpi.h>

#include <partita/mpix.h>
#include <cstdio>
#include <vector>

constexpr int cells_per_rank = 100, steps = 1000;

static void check(cudaError_t code, const char* call) {
  if (code == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", call, cudaGetErrorString(code));
  MPI_Abort(MPI_COMM_WORLD, 1);
}
#define CHECK(call) check(call, #call)

// One block, a thread a cell; before[0] and before[count + 1] are the neighbours'.
__global__ void step(const int* before, int* after, int count) {
  const int i = threadIdx.x + 1;
  if (i <= count) after[i] = before[i - 1] ^ before[i + 1];
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

// Receives and sends of both ends of `cells`.
static void init_requests(int* cells, int left, int right, MPI_Request requests[4]) {
  int* const last = cells + cells_per_rank;
  MPI_Recv_init(cells, 1, MPI_INT, left, 0, MPI_COMM_WORLD, &requests[0]);
  MPI_Recv_init(last + 1, 1, MPI_INT, right, 1, MPI_COMM_WORLD, &requests[1]);
  MPI_Send_init(last, 1, MPI_INT, right, 0, MPI_COMM_WORLD, &requests[2]);
  MPI_Send_init(cells + 1, 1, MPI_INT, left, 1, MPI_COMM_WORLD, &requests[3]);
  MPIX_Matchall(4, requests);
}

int main(int argc, char** argv) {
  int level = 0, rank = 0, ranks = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  choose_gpu();
  int* boards[2] = {};  // a step reads one and writes the other
  MPI_Request requests[2][4];
  for (int b = 0; b < 2; ++b) {
    CHECK(cudaMalloc(&boards[b], (cells_per_rank + 2) * sizeof(int)));
    CHECK(cudaMemset(boards[b], 0, (cells_per_rank + 2) * sizeof(int)));
    init_requests(boards[b], (rank + ranks - 1) % ranks, (rank + 1) % ranks, requests[b]);
  }
  const int one = 1;
  if (rank == 0) CHECK(cudaMemcpy(boards[0] + 1, &one, sizeof one, cudaMemcpyHostToDevice));
  CHECK(cudaDeviceSynchronize());

  // Loads the kernel. CUDA would do so at the first launch, and wait for the stream, which waits for a message then.
  cudaFuncAttributes attributes;
  CHECK(cudaFuncGetAttributes(&attributes, step));

  cudaStream_t stream;
  MPIX_Queue queue;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  MPIX_Queue_init(&queue, MPIX_QUEUE_CUDA, &stream);
  for (int i = 0; i < steps; ++i) {
    MPIX_Enqueue_startall(queue, 4, requests[i % 2]);
    MPIX_Enqueue_waitall(queue, 4, requests[i % 2]);
    step<<<1, cells_per_rank, 0, stream>>>(boards[i % 2], boards[(i + 1) % 2], cells_per_rank);
    CHECK(cudaGetLastError());
  }
  MPIX_Queue_free(&queue);  // waits, and tells what has failed on the way
  CHECK(cudaStreamSynchronize(stream));
  for (MPI_Request* const of_board : {requests[0], requests[1]}) {
    for (int i = 0; i < 4; ++i) MPI_Request_free(&of_board[i]);
  }

  // Rank 0 does it all alone, too.
  const int count = ranks * cells_per_rank;
  std::vector<int> mine(cells_per_rank), all(count), alone(count);
  CHECK(cudaMemcpy(mine.data(), boards[steps % 2] + 1, mine.size() * sizeof(int), cudaMemcpyDeviceToHost));
  MPI_Gather(mine.data(), cells_per_rank, MPI_INT, all.data(), cells_per_rank, MPI_INT, 0, MPI_COMM_WORLD);
  int wrong = 0, living = 0;
  if (rank == 0) {
    alone[0] = 1;
    for (int i = 0; i < steps; ++i) {
      const std::vector<int> before = alone;
      for (int c = 0; c < count; ++c) alone[c] = before[(c + count - 1) % count] ^ before[(c + 1) % count];
    }
    wrong = all != alone;
    for (const int cell : all) living += cell;
    std::printf("%d cells live, which is %s\n", living, wrong ? "wrong" : "right");
  }
  for (int* const board : boards) CHECK(cudaFree(board));
  CHECK(cudaStreamDestroy(stream));
  MPI_Finalize();
  return wrong;
}
