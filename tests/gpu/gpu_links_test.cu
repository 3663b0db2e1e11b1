// Hosts mark and await GPU memory over each link: link ucx moves it itself, and memory under a freed address is new
// memory.
#include <cuda_runtime.h>
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>

#include <cstdlib>
#include <string>

#include "gpu/gpu_requests.cuh"
#include "support/job.hpp"

namespace partita::test {
namespace {

class GpuLinks : public FirstToLast {};

/// Host memory of a live receive. UCX must not page-lock it with CUDA, which would then refuse the program's own copies
/// from and to whatever lies half in it.
void expect_not_page_locked(const void* memory) {
  cudaPointerAttributes attributes{};
  CUDA_OK(cudaPointerGetAttributes(&attributes, memory));
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
}

/// What this entry expects of UCX (PARTITEST_UCX): that it moves GPU memory itself, or that Partita stages it.
enum class Ucx { moves, stages };

void expect_reason(Partita_Request request, Ucx expected, bool into_gpu) {
  const std::string reason = told(request, "partita_reason");
  const auto says = [&](const char* words) { return reason.find(words) != std::string::npos; };
  EXPECT_EQ(told(request, "partita_link"), "ucx") << reason;
  if (expected == Ucx::moves) {
    EXPECT_FALSE(says("staged in host memory")) << reason;
    EXPECT_EQ(says("put into GPU memory"), into_gpu) << reason;
  } else {
    EXPECT_TRUE(says("staged in host memory")) << reason;
    EXPECT_TRUE(says("has no CUDA")) << reason;
    EXPECT_FALSE(says("put into GPU memory")) << reason;
  }
}

class UcxOnGpus : public GpuLinks {
 protected:
  /// One transfer between two kinds of memory.
  void move(Placement from, Placement into, std::int64_t bytes, std::uint64_t round, Ucx expected) {
    const AnyBuffer buffer(bytes, sends() ? from : into);
    Partita_Request request = PARTITA_REQUEST_NULL;
    if (sends()) {
      buffer.fill(round);
      ASSERT_EQ(Partita_Psend_init(buffer.data(), 4, bytes / 4, MPI_BYTE, receiver(), 6, MPI_COMM_WORLD, MPI_INFO_NULL,
                                   &request),
                MPI_SUCCESS);
      ASSERT_EQ(Partita_Start(&request), MPI_SUCCESS);
      ASSERT_EQ(Partita_Pready_range(0, 3, request), MPI_SUCCESS);
    } else {
      ASSERT_EQ(Partita_Precv_init(buffer.data(), 4, bytes / 4, MPI_BYTE, sender(), 6, MPI_COMM_WORLD, MPI_INFO_NULL,
                                   &request),
                MPI_SUCCESS);
      ASSERT_EQ(Partita_Start(&request), MPI_SUCCESS);
    }
    ASSERT_EQ(Partita_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);
    if (receives()) EXPECT_TRUE(buffer.holds(round, 0, bytes));
    if (receives() && !buffer.on_gpu()) expect_not_page_locked(buffer.data());
    expect_reason(request, expected, into != Placement::host);
    ASSERT_EQ(Partita_Request_free(&request), MPI_SUCCESS);
  }
};

TEST_F(UcxOnGpus, gpu_memory_moves_as_this_entry_expects) {
  const char* link = std::getenv("PARTITA_LINK");
  if (link == nullptr || std::string(link) != "ucx") GTEST_SKIP() << "another link is tested";
  ASSERT_EQ(ranks(), 2);
  const char* expected = std::getenv("PARTITEST_UCX");
  ASSERT_TRUE(expected != nullptr && (std::string(expected) == "moves" || std::string(expected) == "stages"))
      << "PARTITEST_UCX says what this entry expects of UCX: moves or stages";
  const Ucx ucx = std::string(expected) == "moves" ? Ucx::moves : Ucx::stages;
  struct Ends {
    Placement from, into;
  };
  std::uint64_t round = 0;
  for (const std::int64_t bytes : {4 * 1000, 64 * 1024, 4 * 1024 * 1024}) {
    for (const auto& [from, into] : {Ends{Placement::gpu, Placement::gpu}, Ends{Placement::gpu, Placement::host},
                                     Ends{Placement::host, Placement::gpu}}) {
      const std::string text = std::to_string(bytes) + " bytes, " + name_of(from) + " to " + name_of(into) + " memory";
      SCOPED_TRACE(text);
      step(text);
      move(from, into, bytes, ++round, ucx);
      if (HasFatalFailure()) return;
      harness_barrier();
    }
  }
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
