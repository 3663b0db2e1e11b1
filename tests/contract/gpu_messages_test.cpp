// Nonblocking messages between GPU memory and host memory, on either side, by Partita and by the MPI itself.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <sched.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "support/errors.hpp"
#include "support/gpu_memory.hpp"
#include "support/job.hpp"
#include "support/placed_ints.hpp"

namespace partita::test {
namespace {

/// Who makes a call: the MPI knows host memory only.
enum class By { partita, mpi };

/// A datatype, freed at its end.
class Type {
 public:
  explicit Type(MPI_Datatype type) : type_(type) { EXPECT_OK(MPI_Type_commit(&type_)); }
  ~Type() { MPI_Type_free(&type_); }
  Type(const Type&) = delete;
  Type& operator=(const Type&) = delete;
  MPI_Datatype get() const { return type_; }

 private:
  MPI_Datatype type_;
};

/// Two of every three integers.
MPI_Datatype with_gaps() {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Datatype resized = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(2, MPI_INT, &type);
  MPI_Type_create_resized(type, 0, 3 * sizeof(int), &resized);
  MPI_Type_free(&type);
  return resized;
}

/// Two integers, the first of which lies at the third place.
MPI_Datatype shifted() {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Datatype resized = MPI_DATATYPE_NULL;
  const int length = 2;
  const MPI_Aint place = 2 * sizeof(int);
  MPI_Type_create_hindexed(1, &length, &place, MPI_INT, &type);
  MPI_Type_create_resized(type, 2 * sizeof(int), 2 * sizeof(int), &resized);
  MPI_Type_free(&type);
  return resized;
}

void wait(Partita_Request& request, MPI_Status* status = MPI_STATUS_IGNORE) {
  ASSERT_OK(Partita_Wait(&request, status));
  EXPECT_EQ(request, PARTITA_REQUEST_NULL);
}

/// Kinds of memory of the sender and the receiver, who makes the other side's call, elements.
using Route = std::tuple<Memory, Memory, By, int>;

std::string name_of_route(const testing::TestParamInfo<Route>& info) {
  const auto& [from, to, other, count] = info.param;
  const auto name = [](Memory memory) { return memory == Memory::gpu ? "gpu" : "host"; };
  return std::string(name(from)) + "_to_" + name(to) + (other == By::mpi ? "_of_the_mpi_" : "_") +
         std::to_string(count);
}

class GpuMessages : public testing::TestWithParam<Route> {
 protected:
  Memory from() const { return std::get<0>(GetParam()); }
  Memory to() const { return std::get<1>(GetParam()); }
  int count() const { return std::get<3>(GetParam()); }
  /// The side in host memory is the MPI's, where there is one.
  bool sends_by_mpi() const { return std::get<2>(GetParam()) == By::mpi && from() == Memory::host; }
  bool receives_by_mpi() const { return std::get<2>(GetParam()) == By::mpi && to() == Memory::host; }

  /// `count()` elements go round the ring. Returns what has come, with what lay there before.
  Ints round(MPI_Datatype type, int ints_each, int ints_in_all) {
    PlacedInts out(from(), counting(ints_in_all, 1000 * rank()));
    PlacedInts in(to(), Ints(static_cast<std::size_t>(ints_in_all), -1));
    MPI_Request native = MPI_REQUEST_NULL;
    Partita_Request receive = PARTITA_REQUEST_NULL;
    Partita_Request send = PARTITA_REQUEST_NULL;
    if (receives_by_mpi()) {
      EXPECT_OK(MPI_Irecv(in.data(), count(), type, left(), 7, MPI_COMM_WORLD, &native));
    } else {
      EXPECT_OK(Partita_Irecv(in.data(), count(), type, left(), 7, MPI_COMM_WORLD, &receive));
    }
    if (sends_by_mpi()) {
      EXPECT_OK(MPI_Send(out.data(), count(), type, right(), 7, MPI_COMM_WORLD));
    } else {
      EXPECT_OK(Partita_Isend(out.data(), count(), type, right(), 7, MPI_COMM_WORLD, &send));
    }
    MPI_Status status;
    if (receives_by_mpi()) {
      EXPECT_OK(MPI_Wait(&native, &status));
    } else {
      wait(receive, &status);
    }
    wait(send);
    int received = -1;
    EXPECT_OK(MPI_Get_count(&status, MPI_INT, &received));
    EXPECT_EQ(received, count() * ints_each);
    EXPECT_EQ(status.MPI_SOURCE, left());
    EXPECT_EQ(status.MPI_TAG, 7);
    return in.get();
  }
};

TEST_P(GpuMessages, arrive_without_gaps) {
  EXPECT_EQ(round(MPI_INT, 1, count()), counting(count(), 1000 * left()));
}

TEST_P(GpuMessages, arrive_with_gaps_and_leave_those_untouched) {
  const Type type(with_gaps());
  const int all = 3 * count() + 1;
  Ints expected = counting(all, 1000 * left());
  for (int i = 0; i < all; ++i) {
    if (i % 3 == 2 || i == all - 1) expected[static_cast<std::size_t>(i)] = -1;
  }
  EXPECT_EQ(round(type.get(), 2, all), expected);
}

TEST_P(GpuMessages, arrive_from_behind_the_address_of_the_buffer) {
  const Type type(shifted());
  const int all = 2 * count() + 2;
  Ints expected = counting(all, 1000 * left());
  expected[0] = expected[1] = -1;
  EXPECT_EQ(round(type.get(), 2, all), expected);
}

INSTANTIATE_TEST_SUITE_P(All, GpuMessages,
                         testing::Combine(testing::Values(Memory::host, Memory::gpu),
                                          testing::Values(Memory::host, Memory::gpu),
                                          testing::Values(By::partita, By::mpi), testing::Values(0, 1, 30'000)),
                         name_of_route);

TEST(GpuMessage, may_be_shorter_and_come_from_anybody) {
  PlacedInts out(Memory::gpu, counting(3, 10 * rank()));
  PlacedInts in(Memory::gpu, Ints(5, -1));
  Partita_Request requests[2];
  ASSERT_OK(Partita_Irecv(in.data(), 5, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[0]));
  ASSERT_OK(Partita_Isend(out.data(), 3, MPI_INT, right(), 4, MPI_COMM_WORLD, &requests[1]));
  MPI_Status statuses[2];
  ASSERT_OK(Partita_Waitall(2, requests, statuses));
  EXPECT_EQ(requests[0], PARTITA_REQUEST_NULL);
  int received = 0;
  EXPECT_OK(MPI_Get_count(&statuses[0], MPI_INT, &received));
  EXPECT_EQ(received, 3);
  EXPECT_EQ(statuses[0].MPI_SOURCE, left());
  EXPECT_EQ(statuses[0].MPI_TAG, 4);
  const int first = 10 * left();
  EXPECT_EQ(in.get(), (Ints{first, first + 1, first + 2, -1, -1}));
}

/// MPI's order holds among all calls: what was sent first on a communicator with a tag is received first.
TEST(GpuMessage, keeps_the_order_of_messages_in_either_memory) {
  constexpr int messages = 40;
  std::vector<std::unique_ptr<PlacedInts>> out, in;
  std::vector<MPI_Request> natives;
  std::vector<Partita_Request> requests;
  const auto memory_of = [](int i) { return i % 3 == 0 ? Memory::host : Memory::gpu; };
  for (int i = 0; i < messages; ++i) {
    const int count = i % 2 == 0 ? 1 : 5000;
    in.push_back(std::make_unique<PlacedInts>(memory_of(i + 1), Ints(5000, -1)));
    out.push_back(std::make_unique<PlacedInts>(memory_of(i), counting(count, i)));
    ASSERT_OK(Partita_Irecv(in.back()->data(), 5000, MPI_INT, left(), 3, MPI_COMM_WORLD, &requests.emplace_back()));
  }
  for (int i = 0; i < messages; ++i) {
    const int count = i % 2 == 0 ? 1 : 5000;
    if (memory_of(i) == Memory::host) {
      ASSERT_OK(MPI_Isend(out[static_cast<std::size_t>(i)]->data(), count, MPI_INT, right(), 3, MPI_COMM_WORLD,
                          &natives.emplace_back()));
    } else {
      ASSERT_OK(Partita_Isend(out[static_cast<std::size_t>(i)]->data(), count, MPI_INT, right(), 3, MPI_COMM_WORLD,
                              &requests.emplace_back()));
    }
  }
  ASSERT_OK(Partita_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE));
  ASSERT_OK(MPI_Waitall(static_cast<int>(natives.size()), natives.data(), MPI_STATUSES_IGNORE));
  for (int i = 0; i < messages; ++i) {
    EXPECT_EQ(in[static_cast<std::size_t>(i)]->get().front(), i);
    EXPECT_EQ(in[static_cast<std::size_t>(i)]->get()[1], i % 2 == 0 ? -1 : i + 1);
  }
}

TEST(GpuMessage, is_probed_and_received_by_its_handle) {
  PlacedInts out(Memory::gpu, {rank(), 5});
  PlacedInts in(Memory::gpu, {-1, -1});
  Partita_Request send = PARTITA_REQUEST_NULL;
  Partita_Request receive = PARTITA_REQUEST_NULL;
  ASSERT_OK(Partita_Isend(out.data(), 2, MPI_INT, right(), 8, MPI_COMM_WORLD, &send));
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Status status;
  ASSERT_OK(MPI_Mprobe(MPI_ANY_SOURCE, 8, MPI_COMM_WORLD, &message, &status));
  int found = 0;
  EXPECT_OK(MPI_Get_count(&status, MPI_INT, &found));
  EXPECT_EQ(found, 2);
  ASSERT_OK(Partita_Imrecv(in.data(), 2, MPI_INT, &message, &receive));
  EXPECT_EQ(message, MPI_MESSAGE_NULL);
  wait(receive, &status);
  wait(send);
  EXPECT_EQ(status.MPI_SOURCE, left());
  EXPECT_EQ(in.get(), (Ints{left(), 5}));
}

TEST(GpuMessage, has_the_modes_of_the_mpi) {
  PlacedInts out(Memory::gpu, {1, 2, 3, 4});
  PlacedInts in(Memory::gpu, {0, 0, 0, 0});
  std::array<Partita_Request, 4> receives{};
  std::array<Partita_Request, 3> sends{};
  for (int i = 0; i < 4; ++i) {
    ASSERT_OK(Partita_Irecv(in.data() + i, 1, MPI_INT, left(), i, MPI_COMM_WORLD, &receives[static_cast<unsigned>(i)]));
  }
  harness_barrier();
  std::vector<char> attached(MPI_BSEND_OVERHEAD + 1000);
  ASSERT_OK(MPI_Buffer_attach(attached.data(), static_cast<int>(attached.size())));
  ASSERT_OK(Partita_Issend(out.data(), 1, MPI_INT, right(), 0, MPI_COMM_WORLD, &sends[0]));
  ASSERT_OK(Partita_Irsend(out.data() + 1, 1, MPI_INT, right(), 1, MPI_COMM_WORLD, &sends[1]));
  ASSERT_OK(Partita_Ibsend(out.data() + 2, 1, MPI_INT, right(), 2, MPI_COMM_WORLD, &sends[2]));
  ASSERT_OK(Partita_Waitall(3, sends.data(), MPI_STATUSES_IGNORE));
  ASSERT_OK(MPI_Send(Ints{9}.data(), 1, MPI_INT, right(), 3, MPI_COMM_WORLD));
  ASSERT_OK(Partita_Waitall(4, receives.data(), MPI_STATUSES_IGNORE));
  EXPECT_EQ(in.get(), (Ints{1, 2, 3, 9}));
  void* buffer = nullptr;
  int size = 0;
  ASSERT_OK(MPI_Buffer_detach(&buffer, &size));
}

TEST(GpuMessage, of_a_synchronous_send_waits_for_the_receive) {
  PlacedInts out(Memory::gpu, {7});
  PlacedInts in(Memory::gpu, {0});
  Partita_Request send = PARTITA_REQUEST_NULL;
  ASSERT_OK(Partita_Issend(out.data(), 1, MPI_INT, right(), 2, MPI_COMM_WORLD, &send));
  int done = 1;
  ASSERT_OK(Partita_Test(&send, &done, MPI_STATUS_IGNORE));
  EXPECT_EQ(done, 0);
  harness_barrier();
  Partita_Request receive = PARTITA_REQUEST_NULL;
  ASSERT_OK(Partita_Irecv(in.data(), 1, MPI_INT, left(), 2, MPI_COMM_WORLD, &receive));
  wait(receive);
  wait(send);
  EXPECT_EQ(in.get(), Ints{7});
}

TEST(GpuMessage, takes_its_bytes_at_the_call) {
  PlacedInts out(Memory::gpu, {1, 2, 3});
  PlacedInts in(Memory::gpu, {0, 0, 0});
  Partita_Request send = PARTITA_REQUEST_NULL;
  Partita_Request receive = PARTITA_REQUEST_NULL;
  ASSERT_OK(Partita_Issend(out.data(), 3, MPI_INT, right(), 2, MPI_COMM_WORLD, &send));
  const Ints others{4, 5, 6};
  gpu_copy(out.data(), others.data(), sizeof(int) * others.size());
  harness_barrier();
  ASSERT_OK(Partita_Irecv(in.data(), 3, MPI_INT, left(), 2, MPI_COMM_WORLD, &receive));
  wait(receive);
  wait(send);
  EXPECT_EQ(in.get(), (Ints{1, 2, 3}));
}

TEST(GpuMessage, to_nobody_is_complete_and_touches_nothing) {
  PlacedInts memory(Memory::gpu, {7});
  Partita_Request requests[2];
  ASSERT_OK(Partita_Isend(memory.data(), 1, MPI_INT, MPI_PROC_NULL, 2, MPI_COMM_WORLD, &requests[0]));
  ASSERT_OK(Partita_Irecv(memory.data(), 1, MPI_INT, MPI_PROC_NULL, 2, MPI_COMM_WORLD, &requests[1]));
  MPI_Status statuses[2];
  ASSERT_OK(Partita_Waitall(2, requests, statuses));
  EXPECT_EQ(statuses[1].MPI_SOURCE, MPI_PROC_NULL);
  EXPECT_EQ(memory.get(), Ints{7});
}

TEST(GpuMessage, of_a_receive_can_be_cancelled) {
  PlacedInts in(Memory::gpu, {7});
  Partita_Request receive = PARTITA_REQUEST_NULL;
  ASSERT_OK(Partita_Irecv(in.data(), 1, MPI_INT, left(), 99, MPI_COMM_WORLD, &receive));
  ASSERT_OK(Partita_Cancel(&receive));
  MPI_Status status;
  wait(receive, &status);
  int cancelled = 0;
  ASSERT_OK(MPI_Test_cancelled(&status, &cancelled));
  EXPECT_EQ(cancelled, 1);
  EXPECT_EQ(in.get(), Ints{7});
}

/// A request that was freed completes by itself, with the copy to the GPU.
TEST(GpuMessage, goes_on_when_its_request_is_freed) {
  const int count = 50'000;
  PlacedInts out(Memory::gpu, counting(count, rank()));
  PlacedInts in(Memory::gpu, Ints(count, -1));
  Partita_Request receive = PARTITA_REQUEST_NULL;
  Partita_Request send = PARTITA_REQUEST_NULL;
  ASSERT_OK(Partita_Irecv(in.data(), count, MPI_INT, left(), 2, MPI_COMM_WORLD, &receive));
  ASSERT_OK(Partita_Request_free(&receive));
  EXPECT_EQ(receive, PARTITA_REQUEST_NULL);
  ASSERT_OK(Partita_Isend(out.data(), count, MPI_INT, right(), 2, MPI_COMM_WORLD, &send));
  ASSERT_OK(Partita_Request_free(&send));
  step("what the freed receive brings");
  for (int pending = 1; pending != 0; std::this_thread::yield()) ASSERT_OK(Partita_Progress(&pending));
  EXPECT_EQ(in.get(), counting(count, left()));
  harness_barrier();
}

TEST(GpuMessage, is_made_and_completed_by_threads_at_once) {
  if (thread_level() < MPI_THREAD_MULTIPLE) GTEST_SKIP() << "the MPI has no threads";
  constexpr int messages = 50;
  const auto exchange = [](int thread) {
    PlacedInts out(Memory::gpu, {0, 0});
    PlacedInts in(Memory::gpu, {0, 0});
    for (int i = 0; i < messages; ++i) {
      const Ints values{i, rank()};
      gpu_copy(out.data(), values.data(), 2 * sizeof(int));
      Partita_Request requests[2];
      ASSERT_OK(Partita_Irecv(in.data(), 2, MPI_INT, left(), thread, MPI_COMM_WORLD, &requests[0]));
      ASSERT_OK(Partita_Isend(out.data(), 2, MPI_INT, right(), thread, MPI_COMM_WORLD, &requests[1]));
      ASSERT_OK(Partita_Waitall(2, requests, MPI_STATUSES_IGNORE));
      ASSERT_EQ(in.get(), (Ints{i, left()}));
    }
  };
  std::thread other(exchange, 1);
  exchange(0);
  other.join();
}

/// Errors of the MPI's come with its codes, and are told once.
class GpuMessageMistakes : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm_));
    ASSERT_OK(Partita_Comm_register(comm_));
    ASSERT_OK(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN));
  }
  void TearDown() override { MPI_Comm_free(&comm_); }
  static void note(MPI_Comm*, int*, ...) { ++told; }

  static inline int told = 0;
  MPI_Comm comm_ = MPI_COMM_NULL;
};

TEST_F(GpuMessageMistakes, are_told_where_a_message_is_too_long) {
  if (ranks() == 1) GTEST_SKIP() << "Open MPI does not tell that of a message to oneself";
  PlacedInts out(Memory::gpu, counting(20, 0));
  PlacedInts in(Memory::gpu, Ints(10, -1));
  Partita_Request receive = PARTITA_REQUEST_NULL;
  Partita_Request send = PARTITA_REQUEST_NULL;
  ASSERT_OK(Partita_Irecv(in.data(), 10, MPI_INT, left(), 2, comm_, &receive));
  ASSERT_OK(Partita_Isend(out.data(), 20, MPI_INT, right(), 2, comm_, &send));
  step("the wait that fails");
  EXPECT_EQ(class_of(Partita_Wait(&receive, MPI_STATUS_IGNORE)), MPI_ERR_TRUNCATE);
  ASSERT_OK(Partita_Request_free(&receive));
  wait(send);
  harness_barrier();
}

/// However often it is looked at, by whatever call, a message that has failed has failed.
TEST_F(GpuMessageMistakes, stay_for_every_later_look) {
  if (ranks() == 1) GTEST_SKIP() << "Open MPI does not tell that of a message to oneself";
  for (const bool by_testall : {false, true}) {
    PlacedInts out(Memory::gpu, counting(20, 0));
    PlacedInts in(Memory::gpu, Ints(10, -1));
    Partita_Request requests[2] = {PARTITA_REQUEST_NULL, PARTITA_REQUEST_NULL};
    ASSERT_OK(Partita_Irecv(in.data(), 10, MPI_INT, left(), 2, comm_, &requests[0]));
    ASSERT_OK(Partita_Isend(out.data(), 20, MPI_INT, right(), 2, comm_, &requests[1]));
    MPI_Status statuses[2];
    int code = MPI_SUCCESS;
    step("the look that fails");
    if (by_testall) {
      for (int flag = 0; flag == 0 && code == MPI_SUCCESS; sched_yield()) {
        code = Partita_Testall(2, requests, &flag, statuses);
      }
    } else {
      for (int flag = 0; flag == 0 && code == MPI_SUCCESS; sched_yield()) {
        code = Partita_Request_get_status(requests[0], &flag, MPI_STATUS_IGNORE);
      }
      EXPECT_EQ(class_of(code), MPI_ERR_TRUNCATE);
      code = Partita_Waitall(2, requests, statuses);
    }
    EXPECT_EQ(class_of(code), MPI_ERR_IN_STATUS);
    EXPECT_EQ(class_of(statuses[0].MPI_ERROR), MPI_ERR_TRUNCATE);
    EXPECT_EQ(statuses[0].MPI_SOURCE, left());
    EXPECT_EQ(statuses[0].MPI_TAG, 2);
    EXPECT_EQ(statuses[1].MPI_ERROR, MPI_SUCCESS);
    ASSERT_OK(Partita_Request_free(&requests[0]));
    EXPECT_EQ(requests[1], PARTITA_REQUEST_NULL);
    harness_barrier();
  }
}

TEST_F(GpuMessageMistakes, of_arguments_are_the_mpis) {
  PlacedInts memory(Memory::gpu, {7});
  Partita_Request request = PARTITA_REQUEST_NULL;
  EXPECT_EQ(class_of(Partita_Isend(memory.data(), 1, MPI_INT, ranks(), 2, comm_, &request)), MPI_ERR_RANK);
  EXPECT_EQ(class_of(Partita_Isend(memory.data(), 1, MPI_INT, 0, -5, comm_, &request)), MPI_ERR_TAG);
  EXPECT_EQ(class_of(Partita_Isend(memory.data(), -1, MPI_INT, 0, 2, comm_, &request)), MPI_ERR_COUNT);
  EXPECT_EQ(class_of(Partita_Irecv(memory.data(), 1, MPI_INT, ranks(), 2, comm_, &request)), MPI_ERR_RANK);
  EXPECT_EQ(request, PARTITA_REQUEST_NULL);
}

TEST_F(GpuMessageMistakes, are_told_to_a_handler_of_the_program_once) {
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  ASSERT_OK(MPI_Comm_create_errhandler(&GpuMessageMistakes::note, &handler));
  ASSERT_OK(MPI_Comm_set_errhandler(comm_, handler));
  MPI_Errhandler_free(&handler);
  told = 0;
  PlacedInts memory(Memory::gpu, {7});
  Partita_Request request = PARTITA_REQUEST_NULL;
  EXPECT_NE(Partita_Isend(memory.data(), 1, MPI_INT, ranks(), 2, comm_, &request), MPI_SUCCESS);
  EXPECT_EQ(told, 1);
  EXPECT_EQ(request, PARTITA_REQUEST_NULL);
}

TEST_F(GpuMessageMistakes, of_calls_that_want_other_requests) {
  PlacedInts in(Memory::gpu, {7});
  Partita_Request receive = PARTITA_REQUEST_NULL;
  ASSERT_OK(Partita_Irecv(in.data(), 1, MPI_INT, left(), 77, comm_, &receive));
  EXPECT_ERROR(Partita_Start(&receive), MPI_ERR_REQUEST, "Start", "nonblocking MPI_Irecv");
  EXPECT_ERROR(Partita_Pready(0, receive), MPI_ERR_REQUEST, "Pready");
  EXPECT_ERROR(Partita_Match(&receive), MPI_ERR_REQUEST, "Match");
  ASSERT_OK(Partita_Cancel(&receive));
  wait(receive);
  Partita_Request partitioned = PARTITA_REQUEST_NULL;
  ASSERT_OK(
      Partita_Psend_init(in.data(), 1, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &partitioned));
  ErrorsReturn returned(MPI_COMM_WORLD);
  EXPECT_ERROR(Partita_Cancel(&partitioned), MPI_ERR_REQUEST, "Cancel", "cannot be cancelled", "partitioned");
  ASSERT_OK(Partita_Request_free(&partitioned));
}

/// In the entry timeout.
class GpuMessageTimeout : public testing::Test {};

TEST_F(GpuMessageTimeout, ends_the_wait_and_says_what_for) {
  ErrorsReturn returned(MPI_COMM_WORLD);
  PlacedInts in(Memory::gpu, {7});
  Partita_Request receive = PARTITA_REQUEST_NULL;
  ASSERT_OK(Partita_Irecv(in.data(), 1, MPI_INT, MPI_ANY_SOURCE, 44, MPI_COMM_WORLD, &receive));
  EXPECT_ERROR(Partita_Wait(&receive, MPI_STATUS_IGNORE), MPI_ERR_OTHER, "Wait", "took longer than", "receive",
               "from any rank with tag 44");
  ASSERT_OK(Partita_Request_free(&receive));
  EXPECT_EQ(in.get(), Ints{7});
}

}  // namespace
}  // namespace partita::test
