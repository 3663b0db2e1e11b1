// Collectives whose epochs kernels open, with threads for kernels and the whole library behind them, on memory that
// stands for a GPU's; and what they and their hosts do wrong.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <unistd.h>
#include <partita/device.cuh>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "support/device_group.hpp"
#include "support/errors.hpp"
#include "support/fake_gpu.hpp"
#include "support/job.hpp"
#include "support/kernel_collective_case.hpp"
#include "support/kernel_ways.hpp"
#include "support/told.hpp"

namespace partita::test {
namespace {

constexpr const char* algorithms[] = {"packets", "buffers"};

using Way = KernelWay<Kind>;

class KernelCollectives : public testing::TestWithParam<Way> {
 protected:
  static Kind kind() { return std::get<0>(GetParam()); }
  static const char* algorithm() { return std::get<1>(GetParam()); }
  const ErrorsReturn handler_{MPI_COMM_WORLD};
};

/// Also where the library's epochs pass 2^32 meanwhile, in the entry wrap.
TEST_P(KernelCollectives, go_on_epoch_after_epoch_while_the_hosts_call_nothing) {
  for (const int count : {1, 77, 2000}) {
    Case collective(kind(), count, false, mapped, algorithm());
    ASSERT_EQ(collective.init_code, MPI_SUCCESS);
    collective.create();
    EXPECT_EQ(told(collective.request, "partita_gpu_copy"), "kernel");
    EXPECT_EQ(told(collective.request, "partita_algorithm"), algorithm());
    if (ranks() > 1) {
      EXPECT_EQ(told(collective.request, "partita_link"), "direct");
    }
    collective.run(own_grid(), 1, 6);
    EXPECT_EQ(Partita_Wait(&collective.request, MPI_STATUS_IGNORE), MPI_SUCCESS) << "tells of mistakes only";
    collective.free_device_request();
  }
}

/// The next device request goes on where the one before has stopped, in rounds of its own.
TEST_P(KernelCollectives, go_on_with_another_device_request) {
  Case collective(kind(), 30000, false, mapped, algorithm());
  int epoch = 1;
  for (const int epochs : {1, 2, 1}) {
    collective.create();
    collective.run(own_grid(), epoch, epochs);
    collective.free_device_request();
    epoch += epochs;
  }
}

TEST_P(KernelCollectives, of_no_elements_wait_for_nobody) {
  Case collective(kind(), 0, false, mapped, algorithm());
  ASSERT_EQ(collective.init_code, MPI_SUCCESS);
  collective.create();
  if (rank() == 0) collective.run(own_grid(), 1, 3);
  collective.free_device_request();
}

TEST_P(KernelCollectives, several_of_them_do_not_mix) {
  Case one(kind(), 5, false, mapped, algorithm()), other(kind(), 9, false, mapped, algorithm());
  one.create();
  other.create();
  for (int epoch = 1; epoch <= 4; ++epoch) {
    one.run(own_grid(), epoch, 1);
    other.run(own_grid(), epoch, 1);
  }
  one.free_device_request();
  other.free_device_request();
}

INSTANTIATE_TEST_SUITE_P(All, KernelCollectives, testing::ValuesIn(kernel_ways(kinds)), name_of_way<Kind>);

/// One buffer tells whose kernels do it; the other one is null, or host memory, of which nothing is moved.
class KernelCollectivesOfNothing : public testing::TestWithParam<const char*> {
 protected:
  static int init(const void* in, void* out, Partita_Request* request) {
    MPI_Info info = MPI_INFO_NULL;
    PMPI_Info_create(&info);
    PMPI_Info_set(info, "partita_driver", "device");
    PMPI_Info_set(info, "partita_algorithm", GetParam());
    const int code = Partita_Pallreduce_init(in, out, 2, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD, info, request);
    PMPI_Info_free(&info);
    return code;
  }
  const ErrorsReturn handler_{MPI_COMM_WORLD};
};

TEST_P(KernelCollectivesOfNothing, need_one_buffer_in_gpu_memory) {
  const FakeGpuBuffer buffer(mapped, 16);
  int on_host = 0;
  const std::pair<const void*, void*> pairs[] = {
      {buffer.data(), nullptr}, {nullptr, buffer.data()}, {MPI_IN_PLACE, buffer.data()}, {&on_host, buffer.data()}};
  for (const auto& [in, out] : pairs) {
    Partita_Request request = PARTITA_REQUEST_NULL;
    ASSERT_OK(init(in, out, &request));
    MPIX_Prequest device{};
    ASSERT_OK(Partita_Prequest_create(&device, request));
    CpuKernel kernel(own_grid(), [&](unsigned) { EXPECT_EQ(MPIX_Pallreduce(device), PARTITA_DEVICE_SUCCESS); });
    kernel.end();
    ASSERT_OK(Partita_Prequest_free(&device));
    ASSERT_OK(Partita_Request_free(&request));
    harness_barrier();
  }
}

TEST_P(KernelCollectivesOfNothing, are_refused_where_no_buffer_tells_the_gpu) {
  int on_host = 0;
  Partita_Request request = PARTITA_REQUEST_NULL;
  EXPECT_ERROR(init(nullptr, nullptr, &request), MPI_ERR_BUFFER, "all buffers are empty", "the memory of a GPU");
  EXPECT_ERROR(init(&on_host, nullptr, &request), MPI_ERR_BUFFER, "all buffers are empty", "the memory of a GPU");
  EXPECT_EQ(request, PARTITA_REQUEST_NULL);
}

INSTANTIATE_TEST_SUITE_P(All, KernelCollectivesOfNothing, testing::Values("auto", "packets", "buffers", "two-shot"),
                         [](const auto& info) {
                           const std::string name = info.param;
                           return name == "two-shot" ? "two_shot" : name;
                         });

class KernelCollectivesInPlace : public testing::TestWithParam<Way> {};

TEST_P(KernelCollectivesInPlace, find_their_data_in_the_receive_buffer) {
  Case collective(std::get<0>(GetParam()), 500, true, mapped, std::get<1>(GetParam()));
  ASSERT_EQ(collective.init_code, MPI_SUCCESS);
  collective.create();
  collective.run(own_grid(), 1, 3);
  collective.free_device_request();
}

INSTANTIATE_TEST_SUITE_P(All, KernelCollectivesInPlace,
                         testing::ValuesIn(kernel_ways(std::array{Kind::allreduce, Kind::allgather,
                                                                  Kind::reduce_scatter, Kind::alltoall})),
                         name_of_way<Kind>);

class KernelCollectivesBySize : public testing::TestWithParam<Kind> {
 protected:
  /// Elements of a partition where a block has some 2 MiB, with which buffers are best on any number of ranks but one.
  static constexpr int large = 2 * 1024 * 1024 / (partitions * static_cast<int>(sizeof(int)));
  const ErrorsReturn handler_{MPI_COMM_WORLD};
};

TEST_P(KernelCollectivesBySize, move_what_is_large_in_buffers) {
  Case collective(GetParam(), large);
  collective.create();
  EXPECT_EQ(told(collective.request, "partita_algorithm"), ranks() > 1 ? "buffers" : "packets");
  collective.run(own_grid(), 1, 2);
  collective.free_device_request();
}

/// Where it is one rank's, all ranks take packets.
TEST_P(KernelCollectivesBySize, fall_back_on_packets_where_a_buffer_cannot_be_mapped) {
  const Gpu gpu = rank() == root() ? blocks_mapped : mapped;
  Case collective(GetParam(), large, false, gpu);
  collective.create();
  EXPECT_EQ(told(collective.request, "partita_algorithm"), "packets");
  collective.run(own_grid(), 1, 1);
  collective.free_device_request();
  if (ranks() == 1) return;
  Case demanded(GetParam(), 4, false, gpu, "buffers");
  EXPECT_ERROR(Partita_Prequest_create(&demanded.device, demanded.request), MPI_ERR_OTHER,
               "partita_algorithm is \"buffers\"", "cannot be mapped by other processes");
}

INSTANTIATE_TEST_SUITE_P(All, KernelCollectivesBySize, testing::ValuesIn(kinds),
                         [](const auto& info) { return std::string(name_of(info.param)); });

/// Rank 0's environment alone names the file.
TEST(KernelCollectivesByFile, move_small_data_as_its_rules_say) {
  const ErrorsReturn handler(MPI_COMM_WORLD);
  const std::string file = "/tmp/partita_kernel_tuning_" + std::to_string(getpid()) + ".csv";
  if (rank() == 0) {
    std::ofstream(file) << "# partita tuning 1\ncollective,driver,ranks,from_bytes,algorithm,medians_us\n"
                        << "allreduce,device," << ranks() << ",600,buffers,\n";
    setenv("PARTITA_TUNING", file.c_str(), 1);
  }
  ASSERT_OK(Partita_Finalize());
  ASSERT_OK(Partita_Init(MPI_COMM_WORLD));
  unsetenv("PARTITA_TUNING");
  std::remove(file.c_str());
  for (const int count : {49, 50}) {  // integers of a partition: 588 and 600 bytes of a block
    Case collective(Kind::allreduce, count);
    ASSERT_OK(collective.init_code);
    collective.create();
    EXPECT_EQ(told(collective.request, "partita_algorithm"), count == 50 ? "buffers" : "packets");
    collective.run(own_grid(), 1, 2);
    collective.free_device_request();
  }
  ASSERT_OK(Partita_Finalize());
  ASSERT_OK(Partita_Init(MPI_COMM_WORLD));
}

// ---- what goes wrong ---------------------------------------------------------------------------------------------

class KernelCollectiveMistakes : public testing::Test {
 protected:
  const ErrorsReturn handler_{MPI_COMM_WORLD};
};

TEST_F(KernelCollectiveMistakes, hosts_neither_start_nor_mark_nor_prepare) {
  Case collective(Kind::allreduce, 4);
  EXPECT_ERROR(Partita_Start(&collective.request), MPI_ERR_REQUEST, "MPIX_Pallreduce in a kernel");
  EXPECT_ERROR(Partita_Pready(0, collective.request), MPI_ERR_REQUEST, "");
  EXPECT_ERROR(Partita_Pbuf_prepare(collective.request), MPI_ERR_REQUEST, "kernels open the epochs");
  collective.create();
  collective.run(own_grid(), 1, 1);
  collective.free_device_request();
}

TEST_F(KernelCollectiveMistakes, other_calls_are_refused_and_told) {
  for (int call = 0; call < 4; ++call) {
    Case collective(Kind::allreduce, 4);
    collective.create();
    const int code = call == 0   ? MPIX_Pstart(collective.device)
                     : call == 1 ? MPIX_Pwait(collective.device)
                     : call == 2 ? MPIX_Pready(0, collective.device)
                                 : MPIX_Pallgather(collective.device);
    constexpr int codes[] = {PARTITA_DEVICE_ERR_DRIVER, PARTITA_DEVICE_ERR_DRIVER, PARTITA_DEVICE_ERR_SIDE,
                             PARTITA_DEVICE_ERR_COLLECTIVE};
    EXPECT_EQ(code, codes[call]);
    EXPECT_ERROR(Partita_Prequest_free(&collective.device), MPI_ERR_OTHER, "a call that is not for this collective");
  }
}

TEST_F(KernelCollectiveMistakes, several_blocks_are_launched_cooperatively) {
  Case collective(Kind::allreduce, 4);
  collective.create();
  CpuKernel kernel({2, 2}, [&](unsigned) { EXPECT_EQ(collective.call(), PARTITA_DEVICE_ERR_LAUNCH); }, false);
  kernel.end();
  EXPECT_ERROR(Partita_Wait(&collective.request, MPI_STATUS_IGNORE), MPI_ERR_OTHER, "not launched cooperatively",
               "allreduce");
}

/// Nobody has told anybody what it has.
TEST_F(KernelCollectiveMistakes, one_block_needs_no_cooperative_launch) {
  Case collective(Kind::allreduce, 4);
  collective.create();
  collective.write(1);
  CpuKernel kernel({1, 2}, [&](unsigned) { EXPECT_EQ(collective.call(), PARTITA_DEVICE_SUCCESS); }, false);
  kernel.end();
  collective.expect_all(1);
  collective.free_device_request();
}

TEST_F(KernelCollectiveMistakes, memory_that_kernels_do_not_reach_is_refused) {
  MPI_Info info = MPI_INFO_NULL;
  PMPI_Info_create(&info);
  PMPI_Info_set(info, "partita_driver", "device");
  std::vector<int> in(12), out(12);
  Partita_Request request = PARTITA_REQUEST_NULL;
  EXPECT_ERROR(Partita_Pallreduce_init(in.data(), out.data(), 2, 3, MPI_INT, MPI_SUM, MPI_COMM_WORLD, info, &request),
               MPI_ERR_BUFFER, "a buffer is host memory");
  EXPECT_EQ(request, PARTITA_REQUEST_NULL);
  PMPI_Info_free(&info);
  Case unreached(Kind::allreduce, 3, false, nothing);
  EXPECT_EQ(unreached.init_code, MPI_SUCCESS);
  EXPECT_ERROR(Partita_Prequest_create(&unreached.device, unreached.request), MPI_ERR_OTHER,
               "cannot reach the memory of rank");
}

TEST_F(KernelCollectiveMistakes, blocks_that_differ_are_refused) {
  MPI_Info info = MPI_INFO_NULL;
  PMPI_Info_create(&info);
  PMPI_Info_set(info, "partita_driver", "device");
  const FakeGpuBuffer buffer(mapped, 4096);
  std::vector<MPI_Count> counts(static_cast<std::size_t>(ranks()), 2);
  counts[0] = 3;
  Partita_Request request = PARTITA_REQUEST_NULL;
  EXPECT_ERROR(Partita_Preduce_scatter_init(buffer.data(), buffer.data() + 2048, 1, counts.data(), MPI_INT, MPI_SUM,
                                            MPI_COMM_WORLD, info, &request),
               MPI_ERR_TRUNCATE, "reduce_scatter", "equal ones");
  PMPI_Info_set(info, "partita_algorithm", "ring");
  EXPECT_ERROR(Partita_Pallreduce_init(buffer.data(), buffer.data() + 2048, 1, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD,
                                       info, &request),
               MPI_ERR_INFO_VALUE, "partita_algorithm");
  PMPI_Info_free(&info);
}

TEST_F(KernelCollectiveMistakes, datatypes_with_gaps_are_refused) {
  MPI_Info info = MPI_INFO_NULL;
  PMPI_Info_create(&info);
  PMPI_Info_set(info, "partita_driver", "device");
  MPI_Datatype padded = MPI_DATATYPE_NULL;
  PMPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &padded);
  PMPI_Type_commit(&padded);
  const FakeGpuBuffer buffer(mapped, 4096);
  Partita_Request request = PARTITA_REQUEST_NULL;
  EXPECT_ERROR(Partita_Pbcast_init(buffer.data(), 1, 4, padded, 0, MPI_COMM_WORLD, info, &request), MPI_ERR_TYPE,
               "Pbcast_init", "a datatype has gaps");
  EXPECT_EQ(request, PARTITA_REQUEST_NULL);
  PMPI_Type_free(&padded);
  PMPI_Info_free(&info);
}

/// Each rank hears of it, and of what the other has made.
TEST_F(KernelCollectiveMistakes, ranks_that_make_different_ones_hear_of_it) {
  Case collective(rank() == 0 ? Kind::allgather : Kind::alltoall, 4);
  EXPECT_ERROR(Partita_Prequest_create(&collective.device, collective.request), MPI_ERR_REQUEST,
               "partitioned allgather in kernels, of 48 bytes a block", "partitioned alltoall in kernels");
}

TEST_F(KernelCollectiveMistakes, different_roots_are_heard_of) {
  MPI_Info info = MPI_INFO_NULL;
  PMPI_Info_create(&info);
  PMPI_Info_set(info, "partita_driver", "device");
  const FakeGpuBuffer buffer(mapped, 1024);
  Partita_Request request = PARTITA_REQUEST_NULL;
  ASSERT_EQ(MPI_SUCCESS,
            Partita_Pbcast_init(buffer.data(), 1, 4, MPI_INT, rank() == 0 ? 0 : 1, MPI_COMM_WORLD, info, &request));
  MPIX_Prequest device{};
  EXPECT_ERROR(Partita_Prequest_create(&device, request), MPI_ERR_REQUEST, "root 0", "root 1");
  harness_barrier();  // some have the same root, and would hear of a free first
  EXPECT_EQ(MPI_SUCCESS, Partita_Request_free(&request));
  PMPI_Info_free(&info);
  harness_barrier();
}

/// Its words are another one's by then.
TEST_F(KernelCollectiveMistakes, a_copy_of_a_freed_one_leaves_the_words_alone) {
  Case collective(Kind::allreduce, 100);
  collective.create();
  collective.run({2, 1}, 1, 1);
  const MPIX_Prequest copy = collective.device;
  collective.free_device_request();
  collective.create();
  CpuKernel kernel({2, 1}, [&](unsigned) { EXPECT_EQ(MPIX_Pallreduce(copy), PARTITA_DEVICE_ERR_FREED); });
  kernel.end();
  collective.run({2, 1}, 2, 2);
  collective.free_device_request();
}

TEST_F(KernelCollectiveMistakes, different_counts_are_heard_of) {
  Case collective(Kind::allreduce, rank() == 0 ? 4 : 5);
  EXPECT_ERROR(Partita_Prequest_create(&collective.device, collective.request), MPI_ERR_REQUEST, "of 48 bytes a block",
               "of 60 bytes a block");
  harness_barrier();  // some have the same count, and would hear of a free first
}

TEST_F(KernelCollectiveMistakes, an_algorithm_that_does_not_serve_is_refused) {
  if (ranks() < 2) GTEST_SKIP() << "needs two ranks";
  const Case collective(Kind::bcast, 4, false, mapped, "two-shot");
  EXPECT_ERROR(collective.init_code, MPI_ERR_INFO_VALUE, "\"two-shot\"",
               "expected of bcast whose epochs kernels open is auto or one of: buffers, packets");
}

TEST_F(KernelCollectiveMistakes, different_algorithms_are_heard_of) {
  Case collective(Kind::allreduce, 4, false, mapped, algorithms[rank() == 0 ? 0 : 1]);
  EXPECT_ERROR(Partita_Prequest_create(&collective.device, collective.request), MPI_ERR_REQUEST, "algorithm packets",
               "algorithm buffers");
  harness_barrier();  // some have the same one, and would hear of a free first
}

/// While their own host sleeps.
TEST_F(KernelCollectiveMistakes, kernels_that_wait_for_a_rank_that_has_given_up_are_released) {
  for (int i = 0; i < 10; ++i) {
    const Kind kind = kinds[i / 2];
    step(name_of(kind));
    Case collective(kind, 4, false, mapped, algorithms[i % 2]);
    collective.create();
    collective.run(own_grid(), 1, 1);
    harness_barrier();
    if (rank() == root()) {
      EXPECT_EQ(MPIX_Pstart(collective.device), PARTITA_DEVICE_ERR_DRIVER);
      EXPECT_ERROR(Partita_Wait(&collective.request, MPI_STATUS_IGNORE), MPI_ERR_OTHER, "a call that is not for this");
    } else {
      CpuKernel kernel(own_grid(), [&](unsigned) { EXPECT_EQ(collective.call(), PARTITA_DEVICE_ERR_ABORTED); });
      kernel.end();
      EXPECT_ERROR(Partita_Wait(&collective.request, MPI_STATUS_IGNORE), MPI_ERR_OTHER, "gave its request up");
      EXPECT_EQ(collective.call(), PARTITA_DEVICE_ERR_ABORTED);
    }
  }
}

/// What it has completed before is whole.
TEST_F(KernelCollectiveMistakes, kernels_that_wait_for_a_rank_that_has_freed_are_released) {
  Case collective(Kind::allreduce, 4);
  collective.create();
  collective.run(own_grid(), 1, 2);
  if (rank() == root()) {
    collective.free_device_request();
    EXPECT_EQ(Partita_Request_free(&collective.request), MPI_SUCCESS);
  } else {
    EXPECT_EQ(collective.call(), PARTITA_DEVICE_ERR_ABORTED);
    EXPECT_ERROR(Partita_Wait(&collective.request, MPI_STATUS_IGNORE), MPI_ERR_REQUEST, "has freed its request");
  }
}

/// The others have the bytes of the last epoch though one has freed meanwhile.
TEST_F(KernelCollectiveMistakes, a_rank_may_free_as_soon_as_its_own_epoch_is_complete) {
  for (int i = 0; i < 20; ++i) {
    Case collective(Kind::allreduce, 4, false, mapped, algorithms[i % 2]);
    collective.create();
    collective.run(own_grid(), 1, 1);
    collective.free_device_request();
    EXPECT_EQ(Partita_Request_free(&collective.request), MPI_SUCCESS);
  }
}

/// A bcast's root hears of nobody in its first two rounds, and its free may be heard of before the others have kernels.
/// These tell it all the same what they have unpacked.
TEST_F(KernelCollectiveMistakes, a_root_may_free_before_the_others_have_device_requests) {
  Case collective(Kind::bcast, 4, false, mapped, "packets");
  if (rank() == root()) {
    collective.create();
    collective.run({1, 2}, 1, 2);
    collective.free_device_request();
    EXPECT_EQ(Partita_Request_free(&collective.request), MPI_SUCCESS);
  }
  Case behind(Kind::bcast, 4);
  behind.create();  // the match comes behind that, as messages between two ranks keep their order
  if (rank() != root()) {
    collective.create();
    collective.run(own_grid(), 1, 2);
    collective.free_device_request();
  }
  behind.free_device_request();
}

TEST_F(KernelCollectiveMistakes, a_freed_request_is_found_freed) {
  MPIX_Prequest copy{};
  {
    Case collective(Kind::allreduce, 4);
    collective.create();
    copy = collective.device;
    collective.free_device_request();
    EXPECT_EQ(MPIX_Pallreduce(copy), PARTITA_DEVICE_ERR_FREED);
    EXPECT_EQ(MPIX_Pallreduce(collective.device), PARTITA_DEVICE_ERR_FREED);
  }
}

class KernelCollectiveTimeout : public KernelCollectiveMistakes {};

/// In the entry timeout, with a short limit.
TEST_F(KernelCollectiveTimeout, ends_a_wait_and_with_it_the_request) {
  for (const char* const algorithm : algorithms) {
    Case collective(Kind::allreduce, 4, false, mapped, algorithm);
    harness_barrier();  // the limit holds for the making, too: nobody comes late to it
    collective.create();
    if (rank() != 0) continue;
    CpuKernel kernel({2, 2}, [&](unsigned) {
      const int code = collective.call();
      EXPECT_TRUE(code == PARTITA_DEVICE_ERR_TIMEOUT || code == PARTITA_DEVICE_ERR_ABORTED) << code;
    });
    kernel.end();
    EXPECT_EQ(collective.call(), PARTITA_DEVICE_ERR_ABORTED);
    EXPECT_ERROR(Partita_Wait(&collective.request, MPI_STATUS_IGNORE), MPI_ERR_OTHER, "waited longer than");
  }
}

}  // namespace
}  // namespace partita::test
