// Collectives whose epochs kernels open, with threads for kernels and the whole library behind them, on memory that
// stands for a GPU's; and what they and their hosts do wrong.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <partita/device.cuh>

#include <chrono>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "support/device_group.hpp"
#include "support/errors.hpp"
#include "support/fake_gpu.hpp"
#include "support/job.hpp"
#include "support/told.hpp"

namespace partita::test {
namespace {

enum class Kind { allreduce, allgather, reduce_scatter, alltoall, bcast };
constexpr Kind kinds[] = {Kind::allreduce, Kind::allgather, Kind::reduce_scatter, Kind::alltoall, Kind::bcast};
constexpr int partitions = 3;
/// Of a bcast.
int root() {
  return 1 % ranks();
}

const char* name_of(Kind kind) {
  constexpr const char* names[] = {"allreduce", "allgather", "reduce_scatter", "alltoall", "bcast"};
  return names[static_cast<int>(kind)];
}

/// Element `element` of what `from` has for `to`, in whatever partition.
int value(int from, int to, int epoch, int element) {
  return 1000000 * epoch + 10000 * from + 100 * to + element % 97;
}

/// A collective of ints on GPU memory, whose epochs kernels open.
class Case {
 public:
  Case(Kind kind, int count, bool in_place = false, Gpu gpu = mapped)
      : kind_(kind),
        count_(count),
        in_place_(in_place),
        sent_(gpu, sizeof(int) * static_cast<std::size_t>(partitions * count * ranks()) + 16),
        received_(gpu, sizeof(int) * static_cast<std::size_t>(partitions * count * ranks()) + 16) {
    MPI_Info info = MPI_INFO_NULL;
    PMPI_Info_create(&info);
    PMPI_Info_set(info, "partita_driver", "device");
    init_code = init(info);
    PMPI_Info_free(&info);
  }
  ~Case() {
    harness_barrier();  // what goes wrong with a peer's free is not tested here
    if (request != PARTITA_REQUEST_NULL) {
      EXPECT_EQ(Partita_Request_free(&request), MPI_SUCCESS);
    }
    harness_barrier();
  }
  Case(const Case&) = delete;
  Case& operator=(const Case&) = delete;

  void create() { ASSERT_EQ(Partita_Prequest_create(&device, request), MPI_SUCCESS); }
  void free_device_request() { EXPECT_EQ(Partita_Prequest_free(&device), MPI_SUCCESS); }

  int call() const {
    switch (kind_) {
      case Kind::allreduce:
        return MPIX_Pallreduce(device);
      case Kind::allgather:
        return MPIX_Pallgather(device);
      case Kind::reduce_scatter:
        return MPIX_Preduce_scatter(device);
      case Kind::alltoall:
        return MPIX_Palltoall(device);
      case Kind::bcast:
        return MPIX_Pbcast(device);
    }
    return -1;
  }
  void write(int epoch) {
    int* const in = sent();
    for (int block = 0; block < (scatters() ? ranks() : 1); ++block) {
      for (int i = 0; i < block_size(); ++i) {
        if (kind_ != Kind::bcast || rank() == root()) in[block * block_size() + i] = value(rank(), block, epoch, i);
      }
    }
  }
  void expect_all(int epoch) const {
    const int blocks = kind_ == Kind::allgather || kind_ == Kind::alltoall ? ranks() : 1;
    const int* const out = kind_ == Kind::bcast ? ints(sent_) : ints(received_);
    for (int block = 0; block < blocks; ++block) {
      for (int i = 0; i < block_size(); ++i) {
        ASSERT_EQ(out[block * block_size() + i], wanted(block, epoch, i))
            << name_of(kind_) << ", epoch " << epoch << ", block " << block << ", element " << i;
      }
    }
  }
  /// Kernels of this rank open and complete so many epochs, from `first` on.
  void run(const GridShape& grid, int first, int epochs) {
    for (int epoch = first; epoch < first + epochs; ++epoch) {
      write(epoch);
      CpuKernel kernel(grid, [&](unsigned) { EXPECT_EQ(call(), PARTITA_DEVICE_SUCCESS) << name_of(kind_); });
      kernel.end();
      expect_all(epoch);
    }
  }

  int init_code = MPI_SUCCESS;
  Partita_Request request = PARTITA_REQUEST_NULL;
  MPIX_Prequest device{};

 private:
  static int* ints(const FakeGpuBuffer& buffer) { return reinterpret_cast<int*>(buffer.data()); }
  bool scatters() const { return kind_ == Kind::reduce_scatter || kind_ == Kind::alltoall; }
  int block_size() const { return partitions * count_; }
  int* sent() const {
    if (!in_place_) return ints(sent_);
    return ints(received_) + (kind_ == Kind::allgather ? rank() * block_size() : 0);
  }
  int wanted(int block, int epoch, int element) const {
    if (kind_ == Kind::bcast) return value(root(), 0, epoch, element);
    if (kind_ == Kind::allgather) return value(block, 0, epoch, element);
    if (kind_ == Kind::alltoall) return value(block, rank(), epoch, element);
    int sum = 0;
    for (int r = 0; r < ranks(); ++r) sum += value(r, kind_ == Kind::allreduce ? 0 : rank(), epoch, element);
    return sum;
  }
  int init(MPI_Info info) {
    void* const in = in_place_ ? MPI_IN_PLACE : static_cast<void*>(ints(sent_));
    int* const out = ints(received_);
    switch (kind_) {
      case Kind::allreduce:
        return Partita_Pallreduce_init(in, out, partitions, count_, MPI_INT, MPI_SUM, MPI_COMM_WORLD, info, &request);
      case Kind::allgather:
        return Partita_Pallgather_init(in, partitions, count_, MPI_INT, out, count_, MPI_INT, MPI_COMM_WORLD, info,
                                       &request);
      case Kind::reduce_scatter:
        return Partita_Preduce_scatter_block_init(in, out, partitions, count_, MPI_INT, MPI_SUM, MPI_COMM_WORLD, info,
                                                  &request);
      case Kind::alltoall:
        return Partita_Palltoall_init(in, partitions, count_, MPI_INT, out, count_, MPI_INT, MPI_COMM_WORLD, info,
                                      &request);
      case Kind::bcast:
        return Partita_Pbcast_init(ints(sent_), partitions, count_, MPI_INT, root(), MPI_COMM_WORLD, info, &request);
    }
    return MPI_ERR_OTHER;
  }

  const Kind kind_;
  const int count_;
  const bool in_place_;
  const FakeGpuBuffer sent_;
  const FakeGpuBuffer received_;
};

/// Not the same on all ranks.
GridShape own_grid() {
  constexpr GridShape shapes[] = {{1, 2}, {2, 1}, {1, 1}, {1, 3}};
  return shapes[rank() % 4];
}

class KernelCollectives : public testing::TestWithParam<Kind> {
 protected:
  const ErrorsReturn handler_{MPI_COMM_WORLD};
};

/// Also where the library's epochs pass 2^32 meanwhile, in the entry wrap.
TEST_P(KernelCollectives, go_on_epoch_after_epoch_while_the_hosts_call_nothing) {
  for (const int count : {1, 77, 2000}) {
    Case collective(GetParam(), count);
    ASSERT_EQ(collective.init_code, MPI_SUCCESS);
    collective.create();
    EXPECT_EQ(told(collective.request, "partita_gpu_copy"), "kernel");
    EXPECT_EQ(told(collective.request, "partita_algorithm"), "packets");
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
  Case collective(GetParam(), 30000);
  int epoch = 1;
  for (const int epochs : {1, 2, 1}) {
    collective.create();
    collective.run(own_grid(), epoch, epochs);
    collective.free_device_request();
    epoch += epochs;
  }
}

TEST_P(KernelCollectives, of_no_elements_wait_for_nobody) {
  Case collective(GetParam(), 0);
  ASSERT_EQ(collective.init_code, MPI_SUCCESS);
  collective.create();
  if (rank() == 0) collective.run(own_grid(), 1, 3);
  collective.free_device_request();
}

TEST_P(KernelCollectives, several_of_them_do_not_mix) {
  Case one(GetParam(), 5), other(GetParam(), 9);
  one.create();
  other.create();
  for (int epoch = 1; epoch <= 4; ++epoch) {
    one.run(own_grid(), epoch, 1);
    other.run(own_grid(), epoch, 1);
  }
  one.free_device_request();
  other.free_device_request();
}

INSTANTIATE_TEST_SUITE_P(All, KernelCollectives, testing::ValuesIn(kinds),
                         [](const auto& info) { return std::string(name_of(info.param)); });

class KernelCollectivesInPlace : public testing::TestWithParam<Kind> {};

TEST_P(KernelCollectivesInPlace, find_their_data_in_the_receive_buffer) {
  Case collective(GetParam(), 500, true);
  ASSERT_EQ(collective.init_code, MPI_SUCCESS);
  collective.create();
  collective.run(own_grid(), 1, 3);
  collective.free_device_request();
}

INSTANTIATE_TEST_SUITE_P(All, KernelCollectivesInPlace,
                         testing::Values(Kind::allreduce, Kind::allgather, Kind::reduce_scatter, Kind::alltoall),
                         [](const auto& info) { return std::string(name_of(info.param)); });

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

/// While their own host sleeps.
TEST_F(KernelCollectiveMistakes, kernels_that_wait_for_a_rank_that_has_given_up_are_released) {
  for (const Kind kind : kinds) {
    step(name_of(kind));
    Case collective(kind, 4);
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
    Case collective(Kind::allreduce, 4);
    collective.create();
    collective.run(own_grid(), 1, 1);
    collective.free_device_request();
    EXPECT_EQ(Partita_Request_free(&collective.request), MPI_SUCCESS);
  }
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
  Case collective(Kind::allreduce, 4);
  collective.create();
  if (rank() == 0) {
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
