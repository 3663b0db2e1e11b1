// Products of complex numbers whose marks push have the same bits whoever reduces: a kernel of the program's that
// waits, which nvcc compiles so that a product and a sum may become one operation, or kernels of the library's.
#define PARTITA_DEVICE_PUSHED_COLLECTIVES
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <partita/device.cuh>

#include <cstring>
#include <vector>

#include "gpu/gpu_buffer.cuh"
#include "gpu/marking.cuh"
#include "support/job.hpp"

namespace partita::test {
namespace {

constexpr int product_partitions = 4;
constexpr int product_count = 1001;  ///< complex numbers of a partition
constexpr int product_halves = 2 * product_partitions * product_count;

/// Marks all; where `waits`, it reduces, too.
__global__ void __launch_bounds__(256)
    push_products(const __grid_constant__ MPIX_Prequest prequest, bool waits, Verdict* verdict) {
  for (int p = 0; p < product_partitions; ++p) failed(MPIX_Pready_block(p, prequest), verdict);
  if (waits) failed(MPIX_Pwait(prequest), verdict);
}

/// A half of a complex number, of about 1, so that a product of few neither grows nor vanishes. Its low bits are set.
template <class T>
T half_of_factor(int rank, int i) {
  return static_cast<T>((i * 7919 + rank * 104729) % 10007 + 1) / static_cast<T>(7001 + i % 13 + rank);
}

/// What this rank has when `waits` says who waits: a kernel of the test's, or the host, which launches the library's.
template <class T>
std::vector<T> product(Partita_Request* request, const MPIX_Prequest& prequest, const T* received, bool waits) {
  const SharedVerdict verdict;
  const Stream stream;
  EXPECT_EQ(cudaMemset(const_cast<T*>(received), 0xff, product_halves * sizeof(T)), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(Partita_Start(request), MPI_SUCCESS);
  push_products<<<1, 256, 0, stream>>>(prequest, waits, verdict.get());
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(Partita_Wait(request, MPI_STATUS_IGNORE), MPI_SUCCESS);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  verdict.expect_good();
  std::vector<T> found(product_halves);
  EXPECT_EQ(cudaMemcpy(found.data(), received, product_halves * sizeof(T), cudaMemcpyDeviceToHost), cudaSuccess);
  return found;
}

template <class T>
void compare_products(MPI_Datatype datatype) {
  constexpr std::size_t bytes = product_halves * sizeof(T);
  const GpuBuffer sent(static_cast<std::int64_t>(bytes)), received(static_cast<std::int64_t>(bytes));
  std::vector<T> factors(product_halves);
  for (int i = 0; i < product_halves; ++i) factors[static_cast<std::size_t>(i)] = half_of_factor<T>(rank(), i);
  CUDA_OK(cudaMemcpy(sent.data(), factors.data(), bytes, cudaMemcpyHostToDevice));
  MPI_Info info = MPI_INFO_NULL;
  PMPI_Info_create(&info);
  PMPI_Info_set(info, "partita_driver", "device");
  PMPI_Info_set(info, "partita_algorithm", "push");
  Partita_Request request = PARTITA_REQUEST_NULL;
  ASSERT_EQ(Partita_Pallreduce_init(sent.data(), received.data(), product_partitions, product_count, datatype, MPI_PROD,
                                    MPI_COMM_WORLD, info, &request),
            MPI_SUCCESS);
  PMPI_Info_free(&info);
  MPIX_Prequest prequest{};
  ASSERT_EQ(Partita_Prequest_create(&prequest, request), MPI_SUCCESS);
  const auto* const out = reinterpret_cast<const T*>(received.data());
  const std::vector<T> launched = product(&request, prequest, out, false);
  const std::vector<T> in_kernel = product(&request, prequest, out, true);
  EXPECT_EQ(std::memcmp(launched.data(), in_kernel.data(), bytes), 0);
  std::vector<T> of_rank_zero = launched;
  PMPI_Bcast(of_rank_zero.data(), static_cast<int>(bytes), MPI_BYTE, 0, harness_comm());
  EXPECT_EQ(std::memcmp(of_rank_zero.data(), in_kernel.data(), bytes), 0);
  EXPECT_EQ(Partita_Prequest_free(&prequest), MPI_SUCCESS);
  EXPECT_EQ(Partita_Request_free(&request), MPI_SUCCESS);
  harness_barrier();
}

TEST(PushedProducts, have_the_same_bits_by_a_kernel_and_by_the_library) {
  choose_gpu();
  compare_products<float>(MPI_C_FLOAT_COMPLEX);
  compare_products<double>(MPI_C_DOUBLE_COMPLEX);
}

}  // namespace
}  // namespace partita::test
