// Kernels that mark and await partitions of collectives, with threads for kernels and the whole library behind them, on
// memory that stands for a GPU's; and what they and their hosts do wrong.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <partita/device.cuh>

#include <chrono>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "support/errors.hpp"
#include "support/fake_gpu.hpp"
#include "support/job.hpp"
#include "support/random.hpp"
#include "support/told.hpp"

namespace partita::test {
namespace {

enum class RequestKind { allreduce, allgather, bcast, reduce };
constexpr RequestKind request_kinds[] = {RequestKind::allreduce, RequestKind::allgather, RequestKind::bcast,
                                         RequestKind::reduce};
constexpr int marked_partitions = 5, marked_count = 3;
/// The root of a bcast and of a reduce.
constexpr int root_of_requests = 1;

const char* name_of(RequestKind kind) {
  constexpr const char* names[] = {"allreduce", "allgather", "bcast", "reduce"};
  return names[static_cast<int>(kind)];
}

/// What `rank` sends.
int marked_value(int rank, int epoch, int partition, int element) {
  return 1000 * epoch + 100 * rank + 10 * partition + element;
}

/// A thread in the place of a kernel; the host goes on.
class Kernel {
 public:
  explicit Kernel(const std::function<void()>& body) : thread_(body) {}
  ~Kernel() { end(); }
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;
  void end() {
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::thread thread_;
};

/// A collective on GPU memory with its device request.
class RequestCase {
 public:
  explicit RequestCase(RequestKind kind, const char* key = nullptr, const char* text = nullptr) : kind_(kind) {
    MPI_Info info = MPI_INFO_NULL;
    PMPI_Info_create(&info);
    if (key != nullptr) PMPI_Info_set(info, key, text);
    init_code = init(info);
    PMPI_Info_free(&info);
  }
  ~RequestCase() {
    harness_barrier();  // what goes wrong with a peer's free is not tested here
    if (request != PARTITA_REQUEST_NULL) {
      EXPECT_EQ(Partita_Request_free(&request), MPI_SUCCESS);
    }
    harness_barrier();
  }
  RequestCase(const RequestCase&) = delete;
  RequestCase& operator=(const RequestCase&) = delete;

  bool marks() const { return kind_ != RequestKind::bcast || rank() == root_of_requests; }
  bool receives() const {
    return kind_ == RequestKind::bcast    ? rank() != root_of_requests
           : kind_ == RequestKind::reduce ? rank() == root_of_requests
                                          : true;
  }
  void create() { ASSERT_EQ(Partita_Prequest_create(&device, request), MPI_SUCCESS); }
  void free_device_request() { EXPECT_EQ(Partita_Prequest_free(&device), MPI_SUCCESS); }
  void start() { ASSERT_EQ(Partita_Start(&request), MPI_SUCCESS); }
  void wait() { ASSERT_EQ(Partita_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS); }

  void write(int epoch, int partition) {
    for (int i = 0; i < marked_count; ++i)
      ints(sent_)[partition * marked_count + i] = marked_value(rank(), epoch, partition, i);
  }
  void write_all(int epoch) {
    for (int p = 0; marks() && p < marked_partitions; ++p) write(epoch, p);
  }
  /// What lies in the buffer in which the partition arrives.
  void expect_arrived(int epoch, int partition) const {
    const std::vector<int> all = everyone();
    for (int i = 0; receives() && i < marked_count; ++i) {
      const int at = partition * marked_count + i;
      if (kind_ == RequestKind::bcast) {
        ASSERT_EQ(ints(sent_)[at], marked_value(root_of_requests, epoch, partition, i)) << where(epoch, partition);
      } else if (kind_ == RequestKind::allgather) {
        for (const int r : all) {
          ASSERT_EQ(ints(received_)[r * marked_partitions * marked_count + at], marked_value(r, epoch, partition, i))
              << where(epoch, partition) << ", rank " << r;
        }
      } else {
        int sum = 0;
        for (const int r : all) sum += marked_value(r, epoch, partition, i);
        ASSERT_EQ(ints(received_)[at], sum) << where(epoch, partition);
      }
    }
  }
  void expect_all(int epoch) const {
    for (int p = 0; p < marked_partitions; ++p) expect_arrived(epoch, p);
  }

  /// What a kernel does in an epoch, in an order of its own.
  void mark_in_any_order(int epoch, Random& random) {
    if (!marks()) return;
    for (const int p : random.permutation(marked_partitions)) {
      write(epoch, p);
      EXPECT_EQ(MPIX_Pready(p, device), PARTITA_DEVICE_SUCCESS);
    }
  }
  void await_in_any_order(int epoch, Random& random) const {
    if (!receives()) return;
    for (const int p : random.permutation(marked_partitions)) {
      int flag = 0;
      while (flag == 0) {
        ASSERT_EQ(MPIX_Parrived(device, p, &flag), PARTITA_DEVICE_SUCCESS);
        if (flag == 0) std::this_thread::sleep_for(std::chrono::microseconds(20));  // others need the processor
      }
      expect_arrived(epoch, p);
    }
  }

  int init_code = MPI_SUCCESS;
  Partita_Request request = PARTITA_REQUEST_NULL;
  MPIX_Prequest device{};

 private:
  static int* ints(const FakeGpuBuffer& buffer) { return reinterpret_cast<int*>(buffer.data()); }
  static std::vector<int> everyone() {
    std::vector<int> all(static_cast<std::size_t>(ranks()));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  std::string where(int epoch, int partition) const {
    return std::string(name_of(kind_)) + ", epoch " + std::to_string(epoch) + ", partition " +
           std::to_string(partition);
  }
  int init(MPI_Info info) {
    int* const in = ints(sent_);
    int* const out = ints(received_);
    switch (kind_) {
      case RequestKind::allreduce:
        return Partita_Pallreduce_init(in, out, marked_partitions, marked_count, MPI_INT, MPI_SUM, MPI_COMM_WORLD, info,
                                       &request);
      case RequestKind::allgather:
        return Partita_Pallgather_init(in, marked_partitions, marked_count, MPI_INT, out, marked_count, MPI_INT,
                                       MPI_COMM_WORLD, info, &request);
      case RequestKind::bcast:
        return Partita_Pbcast_init(in, marked_partitions, marked_count, MPI_INT, root_of_requests, MPI_COMM_WORLD, info,
                                   &request);
      case RequestKind::reduce:
        return Partita_Preduce_init(in, out, marked_partitions, marked_count, MPI_INT, MPI_SUM, root_of_requests,
                                    MPI_COMM_WORLD, info, &request);
    }
    return MPI_ERR_OTHER;
  }

  const RequestKind kind_;
  const FakeGpuBuffer sent_{mapped, sizeof(int) * marked_partitions * marked_count};
  const FakeGpuBuffer received_{mapped,
                                sizeof(int) * marked_partitions * marked_count * static_cast<std::size_t>(ranks())};
};

class CollectiveKernels : public testing::TestWithParam<RequestKind> {};

/// Also where the library's epochs pass 2^32 meanwhile, in the entry wrap.
TEST_P(CollectiveKernels, mark_and_await_partitions_in_any_order_epoch_after_epoch) {
  RequestCase collective(GetParam());
  ASSERT_EQ(collective.init_code, MPI_SUCCESS);
  collective.create();
  EXPECT_EQ(told(collective.request, "partita_gpu_copy"), "engine");
  Random random(job_seed(), static_cast<std::uint64_t>(rank()));
  for (int epoch = 1; epoch <= 6 && !HasFailure(); ++epoch) {
    step("epoch " + std::to_string(epoch));
    collective.start();
    Kernel kernel([&] {
      collective.mark_in_any_order(epoch, random);
      collective.await_in_any_order(epoch, random);
    });
    if (epoch % 2 == 0) kernel.end();  // the host calls nothing meanwhile
    collective.wait();
    kernel.end();
    collective.expect_all(epoch);
  }
  collective.free_device_request();
}

/// All of a block's threads, one here, in one call; and what is true once the epoch is over.
TEST_P(CollectiveKernels, mark_ranges_and_wait_for_one_partition_or_all) {
  RequestCase collective(GetParam());
  ASSERT_EQ(collective.init_code, MPI_SUCCESS);
  collective.create();
  for (int epoch = 1; epoch <= 3 && !HasFailure(); ++epoch) {
    collective.start();
    collective.write_all(epoch);
    Kernel kernel([&] {
      if (collective.marks()) {
        EXPECT_EQ(MPIX_Pready_block(2, collective.device), PARTITA_DEVICE_SUCCESS);
        EXPECT_EQ(MPIX_Pready_range(3, 4, collective.device), PARTITA_DEVICE_SUCCESS);
        EXPECT_EQ(MPIX_Pready_range(0, 1, collective.device), PARTITA_DEVICE_SUCCESS);
        EXPECT_EQ(MPIX_Pbuffer(0, collective.device), nullptr);
      }
      if (collective.receives()) {
        EXPECT_EQ(MPIX_Pwait_partition(3, collective.device), PARTITA_DEVICE_SUCCESS);
        collective.expect_arrived(epoch, 3);
        EXPECT_EQ(MPIX_Pwait(collective.device), PARTITA_DEVICE_SUCCESS);
        collective.expect_all(epoch);
      }
    });
    collective.wait();
    kernel.end();
    for (int p = 0; collective.receives() && p < marked_partitions; ++p) {
      int flag = 0;
      EXPECT_EQ(MPIX_Parrived(collective.device, p, &flag), PARTITA_DEVICE_SUCCESS);
      EXPECT_EQ(flag, 1) << "no epoch is open";
    }
  }
  collective.free_device_request();
}

TEST_P(CollectiveKernels, are_told_nothing_before_it_is_there) {
  RequestCase collective(GetParam());
  ASSERT_EQ(collective.init_code, MPI_SUCCESS);
  collective.create();
  for (int epoch = 1; epoch <= 2 && !HasFailure(); ++epoch) {
    collective.start();
    collective.write_all(epoch);
    for (int p = 0; p < marked_partitions; ++p) {
      harness_barrier();  // nobody has marked this one
      int flag = 1;
      if (collective.receives()) {
        EXPECT_EQ(MPIX_Parrived(collective.device, p, &flag), PARTITA_DEVICE_SUCCESS);
        EXPECT_EQ(flag, 0) << "partition " << p;
      }
      harness_barrier();
      if (collective.marks()) {
        EXPECT_EQ(MPIX_Pready(p, collective.device), PARTITA_DEVICE_SUCCESS);
      }
    }
    collective.wait();
    collective.expect_all(epoch);
  }
  collective.free_device_request();
}

/// One request serves hosts and kernels in turn, and the host's Pbuf_prepare spares kernels their look.
TEST_P(CollectiveKernels, and_hosts_take_turns) {
  const ErrorsReturn handler(MPI_COMM_WORLD);
  RequestCase collective(GetParam());
  ASSERT_EQ(collective.init_code, MPI_SUCCESS);
  for (int epoch = 1; epoch <= 6 && !HasFailure(); ++epoch) {
    const bool kernels = epoch % 3 == 0;
    if (kernels) collective.create();
    collective.start();
    ASSERT_EQ(Partita_Pbuf_prepare(collective.request), MPI_SUCCESS);
    collective.write_all(epoch);
    if (kernels && collective.marks()) {
      EXPECT_ERROR(Partita_Pready(0, collective.request), MPI_ERR_REQUEST, "kernels mark its partitions");
      EXPECT_EQ(MPIX_Pready_range(0, marked_partitions - 1, collective.device), PARTITA_DEVICE_SUCCESS);
    } else if (collective.marks()) {
      EXPECT_EQ(Partita_Pready(0, collective.request), MPI_SUCCESS);
      EXPECT_ERROR(Partita_Prequest_create(&collective.device, collective.request), MPI_ERR_REQUEST,
                   "the host has marked partitions of this epoch already");
      EXPECT_EQ(Partita_Pready_range(1, marked_partitions - 1, collective.request), MPI_SUCCESS);
    }
    if (kernels) {
      Partita_Prequest second{};
      EXPECT_ERROR(Partita_Prequest_create(&second, collective.request), MPI_ERR_REQUEST, "has a device request");
      EXPECT_ERROR(Partita_Prequest_free(&collective.device), MPI_ERR_REQUEST, "the request is active");
    }
    collective.wait();
    collective.expect_all(epoch);
    if (kernels) collective.free_device_request();
  }
}

/// Those that come late hear of what has arrived before them.
TEST_P(CollectiveKernels, begin_in_an_open_epoch) {
  RequestCase collective(GetParam());
  ASSERT_EQ(collective.init_code, MPI_SUCCESS);
  Random random(job_seed(), static_cast<std::uint64_t>(rank()));
  for (int epoch = 1; epoch <= 2 && !HasFailure(); ++epoch) {
    collective.start();
    if (rank() == root_of_requests) {
      collective.create();
      collective.mark_in_any_order(epoch, random);
    }
    harness_barrier();
    if (rank() != root_of_requests) {
      collective.create();
      collective.mark_in_any_order(epoch, random);
    }
    Kernel kernel([&] { collective.await_in_any_order(epoch, random); });
    kernel.end();
    collective.wait();
    collective.free_device_request();
  }
}

INSTANTIATE_TEST_SUITE_P(All, CollectiveKernels, testing::ValuesIn(request_kinds),
                         [](const auto& info) { return std::string(name_of(info.param)); });

// ---- what goes wrong ---------------------------------------------------------------------------------------------

class CollectiveKernelMistakes : public testing::Test {
 protected:
  /// The word of it comes by a stream.
  static void expect_release(const MPIX_Prequest& device) {
    int flag = 0;
    int code = PARTITA_DEVICE_SUCCESS;
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (code == PARTITA_DEVICE_SUCCESS && std::chrono::steady_clock::now() < limit) {
      code = MPIX_Parrived(device, 0, &flag);
    }
    EXPECT_EQ(code, PARTITA_DEVICE_ERR_ABORTED);
  }

  const ErrorsReturn handler_{MPI_COMM_WORLD};
};

TEST_F(CollectiveKernelMistakes, a_partition_marked_twice_is_refused_once_and_explained) {
  RequestCase collective(RequestKind::allreduce);
  collective.create();
  collective.start();
  harness_barrier();  // nobody's start is lost
  if (rank() == 0) {
    collective.write_all(1);
    EXPECT_EQ(MPIX_Pready(2, collective.device), PARTITA_DEVICE_SUCCESS);
    EXPECT_EQ(MPIX_Pready(2, collective.device), PARTITA_DEVICE_ERR_TWICE);
    EXPECT_ERROR(Partita_Wait(&collective.request, MPI_STATUS_IGNORE), MPI_ERR_OTHER, "marked a partition twice",
                 "partition 2", "allreduce");
    expect_release(collective.device);
    EXPECT_ERROR(Partita_Start(&collective.request), MPI_ERR_REQUEST, "ended with an error");
  } else {
    EXPECT_ERROR(Partita_Wait(&collective.request, MPI_STATUS_IGNORE), MPI_ERR_OTHER, "gave its request up");
  }
  collective.free_device_request();
}

/// The Start that follows has no epoch to begin.
TEST_F(CollectiveKernelMistakes, a_mark_before_the_epoch_is_explained_by_its_start) {
  RequestCase collective(RequestKind::allreduce);
  if (rank() != 0) return;
  collective.create();
  EXPECT_EQ(MPIX_Pready(0, collective.device), PARTITA_DEVICE_SUCCESS) << "recorded only";
  EXPECT_ERROR(Partita_Start(&collective.request), MPI_ERR_OTHER, "before the host had started the epoch");
  EXPECT_ERROR(Partita_Start(&collective.request), MPI_ERR_REQUEST, "ended with an error");
  expect_release(collective.device);
  collective.free_device_request();
}

TEST_F(CollectiveKernelMistakes, who_sends_nothing_marks_nothing_and_who_receives_nothing_awaits_nothing) {
  RequestCase collective(RequestKind::bcast);
  collective.create();
  collective.start();
  harness_barrier();  // nobody's start is lost
  collective.write_all(1);
  int flag = 1;
  if (collective.marks()) {
    EXPECT_EQ(MPIX_Pready_range(0, marked_partitions - 1, collective.device), PARTITA_DEVICE_SUCCESS);
    EXPECT_EQ(MPIX_Parrived(collective.device, 0, &flag), PARTITA_DEVICE_ERR_SIDE);
    EXPECT_EQ(flag, 0);
  } else {
    EXPECT_EQ(MPIX_Pready(0, collective.device), PARTITA_DEVICE_ERR_SIDE);
    EXPECT_EQ(MPIX_Parrived(collective.device, marked_partitions, &flag), PARTITA_DEVICE_ERR_PARTITION);
  }
  harness_barrier();  // the root has marked before another gives up
  EXPECT_ERROR(Partita_Wait(&collective.request, MPI_STATUS_IGNORE), MPI_ERR_OTHER,
               "a call for sends on a receive, or one for receives on a send");
  collective.free_device_request();
}

/// The host hears of it only when it frees.
TEST_F(CollectiveKernelMistakes, one_that_nobody_was_told_is_told_by_the_free) {
  RequestCase collective(RequestKind::allgather);
  collective.create();
  collective.start();
  collective.write_all(1);
  EXPECT_EQ(MPIX_Pready_range(0, marked_partitions - 1, collective.device), PARTITA_DEVICE_SUCCESS);
  collective.wait();
  EXPECT_EQ(MPIX_Pready(marked_partitions, collective.device), PARTITA_DEVICE_ERR_PARTITION);
  EXPECT_ERROR(Partita_Prequest_free(&collective.device), MPI_ERR_OTHER, "a partition that the request does not have");
}

TEST_F(CollectiveKernelMistakes, kernels_open_no_epochs_unless_the_collective_is_made_for_it) {
  RequestCase refused(RequestKind::reduce, "partita_driver", "device");
  EXPECT_ERROR(refused.init_code, MPI_ERR_INFO_VALUE, "partita_driver", "kernels open the epochs of bcast");
  EXPECT_EQ(refused.request, PARTITA_REQUEST_NULL);
  RequestCase allowed(RequestKind::allreduce, "partita_driver", "host");
  EXPECT_EQ(allowed.init_code, MPI_SUCCESS);
  allowed.create();
  EXPECT_EQ(MPIX_Pstart(allowed.device), PARTITA_DEVICE_ERR_DRIVER);
  EXPECT_EQ(MPIX_Pallreduce(allowed.device), PARTITA_DEVICE_ERR_COLLECTIVE);
  EXPECT_ERROR(Partita_Prequest_free(&allowed.device), MPI_ERR_OTHER, "device-driven");
}

TEST_F(CollectiveKernelMistakes, buffers_in_host_memory_have_no_kernels) {
  std::vector<int> in(marked_partitions), out(marked_partitions);
  Partita_Request request = PARTITA_REQUEST_NULL;
  ASSERT_EQ(Partita_Pallreduce_init(in.data(), out.data(), marked_partitions, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD,
                                    MPI_INFO_NULL, &request),
            MPI_SUCCESS);
  Partita_Prequest device{};
  EXPECT_ERROR(Partita_Prequest_create(&device, request), MPI_ERR_BUFFER, "expected is memory of one GPU");
  harness_barrier();
  EXPECT_EQ(Partita_Request_free(&request), MPI_SUCCESS);
}

/// Its kernels find it freed, and a copy of the device request frees nothing.
TEST_F(CollectiveKernelMistakes, a_free_of_the_request_ends_its_device_request) {
  Partita_Prequest copy{};
  {
    RequestCase collective(RequestKind::allreduce);
    collective.create();
    copy = collective.device;
  }
  EXPECT_ERROR(Partita_Prequest_free(&copy), MPI_ERR_ARG, "is of no request");
}

/// While their own host sleeps.
TEST_F(CollectiveKernelMistakes, kernels_that_wait_for_a_rank_that_has_failed_are_released) {
  for (const RequestKind kind : {RequestKind::allreduce, RequestKind::allgather, RequestKind::bcast}) {
    step(name_of(kind));
    RequestCase collective(kind);
    collective.create();
    collective.start();
    ASSERT_EQ(Partita_Pbuf_prepare(collective.request), MPI_SUCCESS);
    collective.write_all(1);
    if (rank() != 1 && collective.marks()) {
      EXPECT_EQ(MPIX_Pready_range(0, marked_partitions - 1, collective.device), PARTITA_DEVICE_SUCCESS);
    }
    harness_barrier();  // all know each other, and have marked before one fails
    if (rank() == 1) {
      EXPECT_EQ(MPIX_Pready(0, collective.device), PARTITA_DEVICE_SUCCESS);
      EXPECT_EQ(MPIX_Pready(0, collective.device), PARTITA_DEVICE_ERR_TWICE);
      EXPECT_ERROR(Partita_Wait(&collective.request, MPI_STATUS_IGNORE), MPI_ERR_OTHER, "marked a partition twice");
    } else {
      Kernel kernel(
          [&] { EXPECT_EQ(MPIX_Pwait_partition(1, collective.device), PARTITA_DEVICE_ERR_ABORTED) << name_of(kind); });
      kernel.end();
      EXPECT_ERROR(Partita_Wait(&collective.request, MPI_STATUS_IGNORE), MPI_ERR_OTHER, "gave its request up");
    }
    collective.free_device_request();
  }
}

TEST_F(CollectiveKernelMistakes, a_gpu_that_works_no_longer_ends_the_wait_for_its_kernels) {
  RequestCase collective(RequestKind::allreduce);
  collective.create();
  collective.start();
  harness_barrier();
  if (rank() == 0) {
    FakeGpu::instance().fail(mapped);
    EXPECT_ERROR(Partita_Wait(&collective.request, MPI_STATUS_IGNORE), MPI_ERR_OTHER, "has made an illegal access");
    FakeGpu::instance().mend(mapped);
  } else {
    EXPECT_ERROR(Partita_Wait(&collective.request, MPI_STATUS_IGNORE), MPI_ERR_OTHER, "has made an illegal access");
  }
  collective.free_device_request();
}

}  // namespace
}  // namespace partita::test
