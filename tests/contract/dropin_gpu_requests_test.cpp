// Requests of the MPI's own calls on GPU memory, but simple messages: with the drop-in they stand among the MPI's own
// and partitioned ones in every completion call.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "mpi/dropin_ring.hpp"
#include "support/errors.hpp"
#include "support/job.hpp"
#include "support/placed_ints.hpp"

namespace partita::test {
namespace {

using Requests = std::vector<MPI_Request>;

/// A way to complete all of an array of requests.
struct Completion {
  const char* name;
  std::function<void(Requests&)> complete;
};

int count_of(const Requests& requests) {
  return static_cast<int>(requests.size());
}

const std::vector<Completion>& completions() {
  static const std::vector<Completion> all = {
      {"wait",
       [](Requests& requests) {
         for (MPI_Request& each : requests) EXPECT_OK(MPI_Wait(&each, MPI_STATUS_IGNORE));
       }},
      {"test",
       [](Requests& requests) {
         for (MPI_Request& each : requests) {
           for (int flag = 0; flag == 0; std::this_thread::yield())
             ASSERT_OK(MPI_Test(&each, &flag, MPI_STATUS_IGNORE));
         }
       }},
      {"get_status",
       [](Requests& requests) {
         for (MPI_Request& each : requests) {
           for (int flag = 0; flag == 0; std::this_thread::yield())
             ASSERT_OK(MPI_Request_get_status(each, &flag, MPI_STATUS_IGNORE));
           EXPECT_OK(MPI_Wait(&each, MPI_STATUS_IGNORE));
         }
       }},
      {"waitall",
       [](Requests& requests) {
         std::vector<MPI_Status> statuses(requests.size());
         EXPECT_OK(MPI_Waitall(count_of(requests), requests.data(), statuses.data()));
       }},
      {"testall",
       [](Requests& requests) {
         for (int flag = 0; flag == 0; std::this_thread::yield())
           ASSERT_OK(MPI_Testall(count_of(requests), requests.data(), &flag, MPI_STATUSES_IGNORE));
       }},
      {"waitany",
       [](Requests& requests) {
         for (int index = 0; index != MPI_UNDEFINED; std::this_thread::yield())
           ASSERT_OK(MPI_Waitany(count_of(requests), requests.data(), &index, MPI_STATUS_IGNORE));
       }},
      {"testany",
       [](Requests& requests) {
         for (int index = 0, flag = 0; flag == 0 || index != MPI_UNDEFINED;)
           ASSERT_OK(MPI_Testany(count_of(requests), requests.data(), &index, &flag, MPI_STATUS_IGNORE));
       }},
      {"waitsome",
       [](Requests& requests) {
         std::vector<int> indices(requests.size());
         for (int done = 0; done != MPI_UNDEFINED;)
           ASSERT_OK(MPI_Waitsome(count_of(requests), requests.data(), &done, indices.data(), MPI_STATUSES_IGNORE));
       }},
      {"testsome",
       [](Requests& requests) {
         std::vector<int> indices(requests.size());
         for (int done = 0; done != MPI_UNDEFINED;)
           ASSERT_OK(MPI_Testsome(count_of(requests), requests.data(), &done, indices.data(), MPI_STATUSES_IGNORE));
       }},
  };
  return all;
}

/// The parameter is an entry of completions().
class GpuRequests : public testing::TestWithParam<std::size_t> {
 protected:
  static void complete(Requests& requests) { completions()[GetParam()].complete(requests); }
};

TEST_P(GpuRequests, of_collectives_stand_among_all_others) {
  constexpr int count = 3'000;
  PlacedInts ones(Memory::gpu, Ints(count, 1));
  PlacedInts sum(Memory::gpu, Ints(count, -1));
  PlacedInts told(Memory::gpu, rank() == 0 ? counting(count, 4) : Ints(count, -1));
  int one_on_host = 1;
  int sum_on_host = -1;
  PlacedInts out(Memory::gpu, Ints{rank()});
  PlacedInts in(Memory::gpu, Ints{-1});
  Ring ring;
  for (int epoch = 0; epoch < 2; ++epoch) {
    sum.set(Ints(count, -1));
    Requests requests(8, MPI_REQUEST_NULL);
    ring.start();
    ring.mark_all();
    requests[0] = ring.recv;
    ASSERT_OK(MPI_Iallreduce(ones.data(), sum.data(), count, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[1]));
    ASSERT_OK(MPI_Iallreduce(&one_on_host, &sum_on_host, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[2]));
    ASSERT_OK(MPI_Ibcast(told.data(), count, MPI_INT, 0, MPI_COMM_WORLD, &requests[4]));
    ASSERT_OK(MPI_Irecv(in.data(), 1, MPI_INT, left(), 3, MPI_COMM_WORLD, &requests[5]));
    ASSERT_OK(MPI_Isend(out.data(), 1, MPI_INT, right(), 3, MPI_COMM_WORLD, &requests[6]));
    requests[7] = ring.send;
    const Requests made = requests;
    complete(requests);
    EXPECT_EQ(requests, (Requests{made[0], MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL,
                                  MPI_REQUEST_NULL, MPI_REQUEST_NULL, made[7]}));
    ring.expect_arrived();
    EXPECT_EQ(sum.get(), Ints(count, ranks()));
    EXPECT_EQ(sum_on_host, ranks());
    EXPECT_EQ(told.get(), counting(count, 4));
    EXPECT_EQ(in.get(), Ints{left()});
  }
}

INSTANTIATE_TEST_SUITE_P(All, GpuRequests, testing::Range(std::size_t{0}, completions().size()),
                         [](const auto& info) { return completions()[info.param].name; });

/// The other ranks need not know which of them are on GPU memory, and may complete them in any order.
TEST(GpuNonblocking, meet_in_the_order_of_the_calls) {
  constexpr std::size_t depth = 6;
  std::vector<std::unique_ptr<PlacedInts>> values;
  Requests requests(depth, MPI_REQUEST_NULL);
  for (std::size_t i = 0; i < depth; ++i) {
    const Memory memory = (i + static_cast<std::size_t>(rank())) % 2 == 0 ? Memory::gpu : Memory::host;
    const int value = rank() == 0 ? static_cast<int>(i) : -1;
    values.push_back(std::make_unique<PlacedInts>(memory, Ints{value}));
    ASSERT_OK(MPI_Ibcast(values[i]->data(), 1, MPI_INT, 0, MPI_COMM_WORLD, &requests[i]));
  }
  if (rank() % 2 == 1) std::ranges::reverse(requests);
  for (MPI_Request& each : requests) EXPECT_OK(MPI_Wait(&each, MPI_STATUS_IGNORE));
  for (std::size_t i = 0; i < depth; ++i) EXPECT_EQ(values[i]->get(), Ints{static_cast<int>(i)});
}

/// Where a rooted collective is in place, only the root's call is.
TEST(GpuNonblocking, are_made_in_place_at_the_root) {
  const auto size = static_cast<std::size_t>(ranks());
  PlacedInts all(Memory::gpu, rank() == 0 ? counting(ranks(), 10) : Ints(size, -1));
  PlacedInts one(Memory::gpu, {10 + rank()});
  PlacedInts sum(Memory::gpu, {10});
  PlacedInts back(Memory::gpu, {-1});
  const void* const out = rank() == 0 ? MPI_IN_PLACE : one.data();
  void* const sum_of_root = rank() == 0 ? sum.data() : nullptr;
  Requests requests(2, MPI_REQUEST_NULL);
  ASSERT_OK(MPI_Igather(out, 1, MPI_INT, all.data(), 1, MPI_INT, 0, MPI_COMM_WORLD, &requests[0]));
  ASSERT_OK(MPI_Ireduce(out, sum_of_root, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD, &requests[1]));
  EXPECT_OK(MPI_Waitall(2, requests.data(), MPI_STATUSES_IGNORE));
  EXPECT_EQ(all.get(), rank() == 0 ? counting(ranks(), 10) : Ints(size, -1));
  EXPECT_EQ(sum.get(), Ints{rank() == 0 ? 10 * ranks() + ranks() * (ranks() - 1) / 2 : 10});
  void* const in = rank() == 0 ? MPI_IN_PLACE : back.data();
  ASSERT_OK(MPI_Iscatter(all.data(), 1, MPI_INT, in, 1, MPI_INT, 0, MPI_COMM_WORLD, &requests[0]));
  EXPECT_OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
  EXPECT_EQ(back.get(), Ints{rank() == 0 ? -1 : 10 + rank()});
}

TEST(GpuNonblocking, move_between_groups) {
  if (ranks() < 2) GTEST_SKIP() << "needs two groups";
  const bool is_first = rank() == 0;
  MPI_Comm group = MPI_COMM_NULL;
  MPI_Comm between = MPI_COMM_NULL;
  ASSERT_OK(MPI_Comm_split(MPI_COMM_WORLD, is_first ? 0 : 1, 0, &group));
  ASSERT_OK(MPI_Intercomm_create(group, 0, MPI_COMM_WORLD, is_first ? 1 : 0, 7, &between));
  const int root = is_first ? MPI_ROOT : 0;
  PlacedInts value(Memory::gpu, {is_first ? 5 : 0});
  PlacedInts all(Memory::gpu, Ints(static_cast<std::size_t>(ranks()), -1));
  PlacedInts own(Memory::gpu, {rank()});
  Requests requests(2, MPI_REQUEST_NULL);
  ASSERT_OK(MPI_Ibcast(value.data(), 1, MPI_INT, root, between, &requests[0]));
  ASSERT_OK(MPI_Igather(own.data(), 1, MPI_INT, all.data(), 1, MPI_INT, root, between, &requests[1]));
  EXPECT_OK(MPI_Waitall(2, requests.data(), MPI_STATUSES_IGNORE));
  EXPECT_EQ(value.get(), Ints{5});
  Ints gathered(static_cast<std::size_t>(ranks()), -1);
  for (int other = 1; is_first && other < ranks(); ++other) gathered[static_cast<std::size_t>(other - 1)] = other;
  EXPECT_EQ(all.get(), gathered);
  ASSERT_OK(MPI_Comm_free(&between));
  ASSERT_OK(MPI_Comm_free(&group));
}

/// The program may free its operation and its datatype at once (MPI-4, sections 5.1.9 and 6.9.5).
TEST(GpuNonblocking, keep_operations_and_datatypes_of_the_program) {
  MPI_Op larger = MPI_OP_NULL;
  ASSERT_OK(MPI_Op_create(keep_larger, 1, &larger));
  MPI_Datatype column = MPI_DATATYPE_NULL;
  ASSERT_OK(MPI_Type_vector(2, 1, 2, MPI_INT, &column));
  ASSERT_OK(MPI_Type_commit(&column));
  PlacedInts in(Memory::gpu, {rank(), -rank()});
  PlacedInts out(Memory::gpu, {-1, -1});
  PlacedInts told(Memory::gpu, rank() == 0 ? Ints{1, 2, 3} : Ints{0, 0, 0});
  Requests requests(2, MPI_REQUEST_NULL);
  ASSERT_OK(MPI_Iallreduce(in.data(), out.data(), 2, MPI_INT, larger, MPI_COMM_WORLD, &requests[0]));
  ASSERT_OK(MPI_Ibcast(told.data(), 1, column, 0, MPI_COMM_WORLD, &requests[1]));
  ASSERT_OK(MPI_Op_free(&larger));
  ASSERT_OK(MPI_Type_free(&column));
  EXPECT_OK(MPI_Waitall(2, requests.data(), MPI_STATUSES_IGNORE));
  EXPECT_EQ(out.get(), (Ints{ranks() - 1, 0}));
  EXPECT_EQ(told.get(), rank() == 0 ? (Ints{1, 2, 3}) : (Ints{1, 0, 3}));
}

TEST(GpuNonblocking, leave_mistakes_to_the_mpi) {
  ErrorsReturn returned(MPI_COMM_WORLD);
  PlacedInts memory(Memory::gpu, {7});
  MPI_Request request = MPI_REQUEST_NULL;
  EXPECT_EQ(class_of(MPI_Ibcast(memory.data(), 1, MPI_INT, ranks(), MPI_COMM_WORLD, &request)), MPI_ERR_ROOT);
  EXPECT_EQ(class_of(MPI_Ibcast(memory.data(), -1, MPI_INT, 0, MPI_COMM_WORLD, &request)), MPI_ERR_COUNT);
  EXPECT_EQ(class_of(MPI_Ibcast(memory.data(), 1, MPI_DATATYPE_NULL, 0, MPI_COMM_WORLD, &request)), MPI_ERR_TYPE);
  EXPECT_EQ(request, MPI_REQUEST_NULL);
  EXPECT_ERROR(MPI_Ibcast(memory.data(), 1, MPI_INT, 0, MPI_COMM_WORLD, nullptr), MPI_ERR_ARG, "MPI_Ibcast", "request");
  EXPECT_EQ(memory.get(), Ints{7});
  harness_barrier();
}

/// MPI-4, section 6.12: neither freed nor cancelled.
TEST(GpuNonblocking, of_collectives_are_completed_before_they_are_freed) {
  if (ranks() == 1) GTEST_SKIP() << "is complete at once";
  ErrorsReturn returned(MPI_COMM_WORLD);
  PlacedInts in(Memory::gpu, {1});
  PlacedInts out(Memory::gpu, {-1});
  MPI_Request request = MPI_REQUEST_NULL;
  if (rank() != 0) harness_barrier();
  ASSERT_OK(MPI_Iallreduce(in.data(), out.data(), 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request));
  if (rank() == 0) {
    EXPECT_ERROR(MPI_Request_free(&request), MPI_ERR_REQUEST, "MPI_Request_free", "not complete", "MPI_Iallreduce");
    EXPECT_ERROR(MPI_Cancel(&request), MPI_ERR_REQUEST, "MPI_Cancel", "cannot be cancelled");
    EXPECT_NE(request, MPI_REQUEST_NULL);
    harness_barrier();
  }
  EXPECT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  EXPECT_EQ(out.get(), Ints{ranks()});
}

/// One that is complete may go without a wait.
TEST(GpuNonblocking, of_collectives_that_are_complete_may_be_freed) {
  PlacedInts in(Memory::gpu, {1});
  PlacedInts out(Memory::gpu, {-1});
  MPI_Request request = MPI_REQUEST_NULL;
  ASSERT_OK(MPI_Iallreduce(in.data(), out.data(), 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request));
  for (int flag = 0; flag == 0; std::this_thread::yield())
    ASSERT_OK(MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE));
  EXPECT_OK(MPI_Request_free(&request));
  EXPECT_EQ(request, MPI_REQUEST_NULL);
  EXPECT_EQ(out.get(), Ints{ranks()});
}

#if MPI_VERSION >= 4
TEST(GpuNonblocking, have_large_counts) {
  PlacedInts memory(Memory::gpu, {rank() == 0 ? 7 : 0});
  MPI_Request request = MPI_REQUEST_NULL;
  ASSERT_OK(MPI_Ibcast_c(memory.data(), 1, MPI_INT, 0, MPI_COMM_WORLD, &request));
  ASSERT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  EXPECT_EQ(memory.get(), Ints{7});
}
#endif

#if MPI_VERSION >= 4
/// A send and a receive in one request, between memories of any kind.
class GpuExchange : public testing::TestWithParam<std::tuple<Memory, Memory>> {
 protected:
  static constexpr int count = 5'000;
  /// The status is the MPI's, which MPICH 5.0 leaves empty.
  static void wait(MPI_Request& request) {
    EXPECT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    EXPECT_EQ(request, MPI_REQUEST_NULL);
  }
};

TEST_P(GpuExchange, moves_both_ways) {
  PlacedInts out(std::get<0>(GetParam()), counting(count, rank()));
  PlacedInts in(std::get<1>(GetParam()), Ints(count, -1));
  MPI_Request request = MPI_REQUEST_NULL;
  ASSERT_OK(MPI_Isendrecv(out.data(), count, MPI_INT, right(), 3, in.data(), count, MPI_INT, left(), 3, MPI_COMM_WORLD,
                          &request));
  wait(request);
  EXPECT_EQ(in.get(), counting(count, left()));
  EXPECT_EQ(out.get(), counting(count, rank()));
}

/// The end of the buffer stays as it is.
TEST_P(GpuExchange, may_bring_less_than_the_buffer_takes) {
  PlacedInts out(std::get<0>(GetParam()), {rank(), 5});
  PlacedInts in(std::get<1>(GetParam()), {-1, -2, -3});
  MPI_Request request = MPI_REQUEST_NULL;
  ASSERT_OK(MPI_Isendrecv_c(out.data(), 1, MPI_INT, right(), 3, in.data(), 3, MPI_INT, MPI_ANY_SOURCE, 3,
                            MPI_COMM_WORLD, &request));
  wait(request);
  EXPECT_EQ(in.get(), (Ints{left(), -2, -3}));
}

TEST_P(GpuExchange, may_replace_what_it_sends) {
  PlacedInts values(std::get<0>(GetParam()), counting(count, rank()));
  MPI_Request request = MPI_REQUEST_NULL;
  ASSERT_OK(MPI_Isendrecv_replace(values.data(), count, MPI_INT, right(), 3, left(), 3, MPI_COMM_WORLD, &request));
  wait(request);
  EXPECT_EQ(values.get(), counting(count, left()));
}

TEST_P(GpuExchange, keeps_gaps_of_datatypes) {
  MPI_Datatype column = MPI_DATATYPE_NULL;
  ASSERT_OK(MPI_Type_vector(2, 1, 3, MPI_INT, &column));
  ASSERT_OK(MPI_Type_commit(&column));
  PlacedInts out(std::get<0>(GetParam()), counting(6, 100 * rank()));
  PlacedInts in(std::get<1>(GetParam()), Ints(6, -1));
  MPI_Request request = MPI_REQUEST_NULL;
  ASSERT_OK(MPI_Isendrecv(out.data() + 1, 1, column, right(), 3, in.data() + 2, 1, column, left(), 3, MPI_COMM_WORLD,
                          &request));
  ASSERT_OK(MPI_Type_free(&column));
  wait(request);
  EXPECT_EQ(in.get(), (Ints{-1, -1, 100 * left() + 1, -1, -1, 100 * left() + 4}));
}

INSTANTIATE_TEST_SUITE_P(All, GpuExchange,
                         testing::Combine(testing::Values(Memory::host, Memory::gpu),
                                          testing::Values(Memory::host, Memory::gpu)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param) == Memory::gpu ? "gpu" : "host") +
                                  (std::get<1>(info.param) == Memory::gpu ? "_to_gpu" : "_to_host");
                         });

/// With nobody on one side the other one is an ordinary message; with nobody at all nothing is looked at.
TEST(GpuExchanges, may_have_nobody_on_a_side) {
  PlacedInts out(Memory::gpu, {rank()});
  PlacedInts in(Memory::gpu, {-1});
  const int next = rank() == ranks() - 1 ? MPI_PROC_NULL : rank() + 1;
  const int previous = rank() == 0 ? MPI_PROC_NULL : rank() - 1;
  MPI_Request request = MPI_REQUEST_NULL;
  ASSERT_OK(
      MPI_Isendrecv(out.data(), 1, MPI_INT, next, 3, in.data(), 1, MPI_INT, previous, 3, MPI_COMM_WORLD, &request));
  EXPECT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  EXPECT_EQ(in.get(), Ints{rank() - 1});
  ASSERT_OK(MPI_Isendrecv_replace(out.data(), 1, MPI_INT, next, 3, previous, 3, MPI_COMM_WORLD, &request));
  EXPECT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  EXPECT_EQ(out.get(), Ints{rank() == 0 ? 0 : rank() - 1});
}

/// As that of any message, the request may be freed while it is active.
TEST(GpuExchanges, go_on_when_their_requests_are_freed) {
  PlacedInts out(Memory::gpu, {rank()});
  PlacedInts in(Memory::gpu, {-1});
  MPI_Request request = MPI_REQUEST_NULL;
  ASSERT_OK(
      MPI_Isendrecv(out.data(), 1, MPI_INT, right(), 3, in.data(), 1, MPI_INT, left(), 3, MPI_COMM_WORLD, &request));
  ASSERT_OK(MPI_Request_free(&request));
  EXPECT_EQ(request, MPI_REQUEST_NULL);
  for (int pending = 1; pending != 0; std::this_thread::yield()) ASSERT_OK(Partita_Progress(&pending));
  EXPECT_EQ(in.get(), Ints{left()});
  harness_barrier();
}
#endif

/// In the entry timeout: the wait for ranks that do not come ends, and says what for.
TEST(GpuNonblockingTimeout, ends_the_wait) {
  ErrorsReturn returned(MPI_COMM_WORLD);
  PlacedInts in(Memory::gpu, {1});
  PlacedInts out(Memory::gpu, {-1});
  MPI_Request request = MPI_REQUEST_NULL;
  if (rank() == 0) {
    ASSERT_OK(MPI_Iallreduce(in.data(), out.data(), 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request));
    EXPECT_ERROR(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_OTHER, "MPI_Wait", "took longer than",
                 "MPI_Iallreduce on GPU memory waits for the MPI");
    EXPECT_EQ(request, MPI_REQUEST_NULL);
  }
  harness_barrier();
  // The MPI still has the call of rank 0, which others meet.
  if (rank() != 0) {
    ASSERT_OK(MPI_Iallreduce(in.data(), out.data(), 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request));
    EXPECT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  }
  harness_barrier();
  EXPECT_EQ(out.get(), Ints{rank() == 0 ? -1 : ranks()});
}

}  // namespace
}  // namespace partita::test
