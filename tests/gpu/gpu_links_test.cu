// Hosts mark and await GPU memory over each link: link ucx moves it itself, and memory under a freed address is new
// memory.
#include <cuda_runtime.h>
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "gpu/gpu_buffer.cuh"
#include "support/job.hpp"

namespace partita::test {
namespace {

class GpuLinks : public FirstToLast {};

std::string reason_of(Partita_Request request) {
  MPI_Info info = MPI_INFO_NULL;
  EXPECT_EQ(Partita_Request_get_info(request, &info), MPI_SUCCESS);
  char reason[MPI_MAX_INFO_VAL + 1] = "";
  int found = 0;
  PMPI_Info_get(info, "partita_reason", MPI_MAX_INFO_VAL, reason, &found);
  PMPI_Info_free(&info);
  return reason;
}

/// Host memory of a live receive. UCX must not page-lock it with CUDA, which would then refuse the program's own copies
/// from and to whatever lies half in it.
void expect_not_page_locked(const void* memory) {
  cudaPointerAttributes attributes{};
  CUDA_OK(cudaPointerGetAttributes(&attributes, memory));
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
}

/// One transfer between GPU or host memory; `staged` becomes the reason where Partita staged it.
void move_by_ucx(bool sends, bool receives, bool on_gpu, bool into_gpu, int peer, std::int64_t bytes,
                 std::uint64_t round, std::string& staged) {
  GpuBuffer gpu(bytes);
  std::vector<unsigned char> host(static_cast<std::size_t>(bytes));
  Partita_Request request = PARTITA_REQUEST_NULL;
  if (sends) {
    if (on_gpu) gpu.fill(round);
    for (std::int64_t i = 0; i < bytes; ++i) host[static_cast<std::size_t>(i)] = byte_at(round, i);
    ASSERT_EQ(Partita_Psend_init(on_gpu ? gpu.data() : host.data(), 4, bytes / 4, MPI_BYTE, peer, 6, MPI_COMM_WORLD,
                                 MPI_INFO_NULL, &request),
              MPI_SUCCESS);
    ASSERT_EQ(Partita_Start(&request), MPI_SUCCESS);
    ASSERT_EQ(Partita_Pready_range(0, 3, request), MPI_SUCCESS);
  } else if (receives) {
    ASSERT_EQ(Partita_Precv_init(into_gpu ? gpu.data() : host.data(), 4, bytes / 4, MPI_BYTE, peer, 6, MPI_COMM_WORLD,
                                 MPI_INFO_NULL, &request),
              MPI_SUCCESS);
    ASSERT_EQ(Partita_Start(&request), MPI_SUCCESS);
  } else {
    return;
  }
  ASSERT_EQ(Partita_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);
  if (receives && into_gpu) EXPECT_TRUE(gpu.holds(round, 0, bytes));
  for (std::int64_t i = 0; receives && !into_gpu && i < bytes; ++i) {
    ASSERT_EQ(host[static_cast<std::size_t>(i)], byte_at(round, i)) << "byte " << i;
  }
  if (receives && !into_gpu) expect_not_page_locked(host.data());
  const std::string reason = reason_of(request);
  if (reason.find("staged in host memory") != std::string::npos) {
    EXPECT_NE(reason.find("CUDA"), std::string::npos) << reason;
    staged = reason;
  } else {
    EXPECT_EQ(reason.find("put into GPU memory") != std::string::npos, into_gpu) << reason;
  }
  ASSERT_EQ(Partita_Request_free(&request), MPI_SUCCESS);
}

TEST_F(GpuLinks, ucx_moves_gpu_memory_itself_or_says_why_not) {
  const char* link = std::getenv("PARTITA_LINK");
  if (link == nullptr || std::string(link) != "ucx") GTEST_SKIP() << "another link is tested";
  if (ranks() < 2) GTEST_SKIP() << "needs 2 ranks";
  std::string staged;
  std::uint64_t round = 0;
  for (const std::int64_t bytes : {4 * 1000, 64 * 1024, 4 * 1024 * 1024}) {
    for (const bool send_on_gpu : {true, false}) {
      for (const bool recv_on_gpu : {true, false}) {
        if (!send_on_gpu && !recv_on_gpu) continue;
        SCOPED_TRACE(std::to_string(bytes) + " bytes, " + (send_on_gpu ? "GPU" : "host") + " to " +
                     (recv_on_gpu ? "GPU" : "host"));
        step(std::to_string(bytes) + " bytes, " + std::to_string(round));
        move_by_ucx(sends(), receives(), send_on_gpu, recv_on_gpu, sends() ? receiver() : sender(), bytes, ++round,
                    staged);
        if (HasFatalFailure()) return;
        harness_barrier();
      }
    }
  }
  if (!staged.empty()) GTEST_SKIP() << staged;
}

/// Each round's buffers are allocated where those of the round before were. No barrier: that a peer has not freed its
/// request yet must not matter.
TEST_F(GpuLinks, memory_under_a_freed_address_is_other_memory) {
  const std::int64_t bytes = 8 * 1024 * 1024;  // small ones are cut from memory that CUDA keeps
  for (std::uint64_t round = 1; round <= 8; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    GpuBuffer send_buffer(sends() ? bytes : 0);
    GpuBuffer recv_buffer(receives() ? bytes : 0);
    Partita_Request requests[2] = {PARTITA_REQUEST_NULL, PARTITA_REQUEST_NULL};
    if (receives()) {
      ASSERT_EQ(Partita_Precv_init(recv_buffer.data(), 4, bytes / 4, MPI_BYTE, sender(), 7, MPI_COMM_WORLD,
                                   MPI_INFO_NULL, &requests[1]),
                MPI_SUCCESS);
      ASSERT_EQ(Partita_Start(&requests[1]), MPI_SUCCESS);
    }
    if (sends()) {
      send_buffer.fill(round);
      ASSERT_EQ(Partita_Psend_init(send_buffer.data(), 4, bytes / 4, MPI_BYTE, receiver(), 7, MPI_COMM_WORLD,
                                   MPI_INFO_NULL, &requests[0]),
                MPI_SUCCESS);
      ASSERT_EQ(Partita_Start(&requests[0]), MPI_SUCCESS);
      ASSERT_EQ(Partita_Pready_range(0, 3, requests[0]), MPI_SUCCESS);
    }
    ASSERT_EQ(Partita_Waitall(2, requests, MPI_STATUSES_IGNORE), MPI_SUCCESS);
    if (receives()) ASSERT_TRUE(recv_buffer.holds(round, 0, bytes));
    for (Partita_Request& request : requests) {
      if (request != PARTITA_REQUEST_NULL) ASSERT_EQ(Partita_Request_free(&request), MPI_SUCCESS);
    }
  }
}

}  // namespace
}  // namespace partita::test
