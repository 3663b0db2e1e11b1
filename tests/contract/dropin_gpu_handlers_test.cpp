// Completion calls on requests behind which the MPI has some of its own, while an error handler of the program's or
// another thread acts on the same requests.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "capi/state.hpp"
#include "core/native.hpp"
#include "support/errors.hpp"
#include "support/job.hpp"
#include "support/placed_ints.hpp"

namespace partita::test {
namespace {

constexpr int room = 100;  ///< ints of each receive, which may be an offer
constexpr int of_other_tag = 50;

std::function<void()> in_handler;
int handled = 0;

void handle(MPI_Comm*, int*, ...) {
  if (++handled == 1) in_handler();
}

/// Open MPI does not tell that a message to oneself is too long.
bool nothing_fails() {
#ifdef OPEN_MPI
  return ranks() == 1;
#else
  return false;
#endif
}

template <class Condition>
bool comes_true(Condition condition) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!condition() && std::chrono::steady_clock::now() < give_up) std::this_thread::yield();
  return condition();
}

/// A request of the MPI's own, which is not complete while this lives.
class OfTheMpi {
 public:
  explicit OfTheMpi(MPI_Request* request) {
    const auto query = [](void*, MPI_Status* status) {
      MPI_Status_set_cancelled(status, 0);
      return MPI_Status_set_elements(status, MPI_INT, 0);
    };
    EXPECT_OK(MPI_Grequest_start(
        query, [](void*) { return MPI_SUCCESS; }, [](void*, int) { return MPI_SUCCESS; }, nullptr, request));
    request_ = *request;
  }
  ~OfTheMpi() {
    if (request_ != MPI_REQUEST_NULL) complete(&request_);
  }
  /// By `handle`, which becomes null.
  void complete(MPI_Request* handle) {
    EXPECT_OK(MPI_Grequest_complete(*handle));
    EXPECT_OK(MPI_Wait(handle, MPI_STATUS_IGNORE));
    request_ = MPI_REQUEST_NULL;
  }
  OfTheMpi(const OfTheMpi&) = delete;
  OfTheMpi& operator=(const OfTheMpi&) = delete;

 private:
  MPI_Request request_ = MPI_REQUEST_NULL;
};

/// A communicator whose error handler calls `in_handler` once. MPICH takes that of MPI_COMM_SELF in calls on arrays.
class HandledComm {
 public:
  explicit HandledComm(std::function<void()> handler) {
    in_handler = std::move(handler);
    handled = 0;
    EXPECT_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    EXPECT_OK(MPI_Comm_create_errhandler(handle, &handler_));
    for (const MPI_Comm each : {comm, MPI_COMM_SELF}) EXPECT_OK(MPI_Comm_set_errhandler(each, handler_));
  }
  ~HandledComm() {
    EXPECT_OK(MPI_Errhandler_free(&handler_));
    EXPECT_OK(MPI_Comm_free(&comm));
    in_handler = nullptr;
  }
  HandledComm(const HandledComm&) = delete;
  HandledComm& operator=(const HandledComm&) = delete;

  MPI_Comm comm = MPI_COMM_NULL;

 private:
  const ErrorsReturn returned_{MPI_COMM_WORLD};
  MPI_Errhandler handler_ = MPI_ERRHANDLER_NULL;
};

/// Receives into GPU memory, of tags from 0 on. The message of `failing` is too long for it.
class Receives {
 public:
  static constexpr int count = 5;
  static constexpr int failing = 1;

  void post(MPI_Comm comm) {
    comm_ = comm;
    for (int i = 0; i < count; ++i) {
      in_.push_back(std::make_unique<PlacedInts>(Memory::gpu, Ints(room, -1)));
      ASSERT_OK(MPI_Irecv(in_.back()->data(), room, MPI_INT, left(), i, comm, &at(i)));
    }
  }
  MPI_Request& at(int i) { return requests_[static_cast<std::size_t>(i)]; }
  MPI_Request* all() { return requests_.data(); }
  Ints content(int i) const { return in_[static_cast<std::size_t>(i)]->get(); }

  void send_too_long() const {
    const Ints values = counting(2 * room, rank());
    EXPECT_OK(MPI_Send(values.data(), 2 * room, MPI_INT, right(), failing, comm_));
  }
  void send_to_rest() const {
    const Ints values = counting(room, rank());
    for_rest([&](int i) { EXPECT_OK(MPI_Send(values.data(), room, MPI_INT, right(), i, comm_)); });
  }
  void cancel_and_wait(int i) {
    MPI_Status status{};
    int cancelled = -1;
    EXPECT_OK(MPI_Cancel(&at(i)));
    EXPECT_OK(MPI_Wait(&at(i), &status));
    EXPECT_OK(MPI_Test_cancelled(&status, &cancelled));
    EXPECT_EQ(cancelled, 1);
    EXPECT_EQ(at(i), MPI_REQUEST_NULL);
  }
  template <class Act>
  void for_rest(Act act) const {
    for (int i = 0; i < count; ++i) {
      if (i != failing) act(i);
    }
  }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
  std::vector<MPI_Request> requests_ = std::vector<MPI_Request>(count + 1, MPI_REQUEST_NULL);  ///< one more may follow
  std::vector<std::unique_ptr<PlacedInts>> in_;
};

/// A call that ends once the one that fails has failed, whatever it says of that (MPICH 5.0 says success). MPI_Testall
/// need not look at it while others are open.
struct Call {
  const char* name;
  void (*complete)(Receives&);
};

const std::vector<Call>& calls() {
  constexpr int count = Receives::count;
  static const std::vector<Call> all = {
      {"waitany",
       [](Receives& receives) {
         int index = -1;
         MPI_Waitany(count, receives.all(), &index, MPI_STATUS_IGNORE);
         EXPECT_EQ(index, Receives::failing);
       }},
      {"waitany_with_one_of_the_mpis",
       [](Receives& receives) {
         int index = -1;
         const OfTheMpi open(&receives.at(count));
         MPI_Waitany(count + 1, receives.all(), &index, MPI_STATUS_IGNORE);
         EXPECT_EQ(index, Receives::failing);
       }},
      {"testany",
       [](Receives& receives) {
         int index = -1;
         for (int flag = 0; flag == 0;) {
           if (MPI_Testany(count, receives.all(), &index, &flag, MPI_STATUS_IGNORE) != MPI_SUCCESS) break;
         }
         EXPECT_EQ(index, Receives::failing);
       }},
      {"waitsome",
       [](Receives& receives) {
         int done = 0;
         std::array<int, count> indices{};
         std::array<MPI_Status, count> statuses{};
         MPI_Waitsome(count, receives.all(), &done, indices.data(), statuses.data());
         EXPECT_EQ(done, 1);
         EXPECT_EQ(indices[0], Receives::failing);
       }},
      {"testsome",
       [](Receives& receives) {
         int done = 0;
         std::array<int, count> indices{};
         std::array<MPI_Status, count> statuses{};
         while (done == 0) MPI_Testsome(count, receives.all(), &done, indices.data(), statuses.data());
         EXPECT_EQ(done, 1);
         EXPECT_EQ(indices[0], Receives::failing);
       }},
      {"waitall",
       [](Receives& receives) {
         std::array<MPI_Status, count> statuses{};
         MPI_Waitall(count, receives.all(), statuses.data());
       }},
  };
  return all;
}

/// The parameter is an entry of calls().
class Handlers : public testing::TestWithParam<std::size_t> {
 protected:
  void SetUp() override {
    if (nothing_fails()) GTEST_SKIP() << "Open MPI does not tell that a message to oneself is too long";
  }
  /// The program's handler runs `act` while the call looks at all.
  void complete(std::function<void()> act) {
    const HandledComm handled_comm(std::move(act));
    receives.post(handled_comm.comm);
    harness_barrier();
    receives.send_too_long();
    harness_barrier();
    calls()[GetParam()].complete(receives);
    EXPECT_GE(handled, 1);
    EXPECT_EQ(receives.at(Receives::failing), MPI_REQUEST_NULL);
    harness_barrier();
    at_end(handled_comm.comm);
    harness_barrier();
  }
  virtual void at_end(MPI_Comm) {}

  Receives receives;
};

TEST_P(Handlers, complete_the_others) {
  complete([this] { receives.for_rest([this](int i) { receives.cancel_and_wait(i); }); });
  receives.for_rest([this](int i) { EXPECT_EQ(receives.at(i), MPI_REQUEST_NULL); });
}

TEST_P(Handlers, test_the_others_until_they_are_complete) {
  complete([this] {
    receives.for_rest([this](int i) {
      EXPECT_OK(MPI_Cancel(&receives.at(i)));
      for (int flag = 0; flag == 0;) ASSERT_OK(MPI_Test(&receives.at(i), &flag, MPI_STATUS_IGNORE));
    });
  });
}

TEST_P(Handlers, complete_the_others_in_calls_on_arrays) {
  complete([this] {
    receives.for_rest([this](int i) { EXPECT_OK(MPI_Cancel(&receives.at(i))); });
    EXPECT_OK(MPI_Waitall(Receives::count - 2, receives.all() + 2, MPI_STATUSES_IGNORE));
    EXPECT_OK(MPI_Wait(&receives.at(0), MPI_STATUS_IGNORE));
  });
}

#if MPI_VERSION >= 4
/// Where nobody else makes progress their tests do.
TEST_P(Handlers, wait_for_partitions_by_tests) {
  const Ints out = counting(room, rank());
  Ints in(room, -1);
  std::array<MPI_Request, 2> partitioned{MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  ASSERT_OK(MPI_Psend_init(out.data(), 1, room, MPI_INT, rank(), of_other_tag, MPI_COMM_WORLD, MPI_INFO_NULL,
                           partitioned.data()));
  ASSERT_OK(MPI_Precv_init(in.data(), 1, room, MPI_INT, rank(), of_other_tag, MPI_COMM_WORLD, MPI_INFO_NULL,
                           &partitioned[1]));
  complete([&] {
    ASSERT_OK(MPI_Startall(2, partitioned.data()));
    ASSERT_OK(MPI_Pready(0, partitioned[0]));
    for (MPI_Request& each : partitioned) {
      EXPECT_TRUE(comes_true([&] {
        int flag = 0;
        EXPECT_OK(MPI_Test(&each, &flag, MPI_STATUS_IGNORE));
        return flag != 0;
      }));
    }
    receives.for_rest([this](int i) { receives.cancel_and_wait(i); });
  });
  EXPECT_EQ(in, out);
  for (MPI_Request& each : partitioned) EXPECT_OK(MPI_Request_free(&each));
}
#endif

/// That has ended for the MPI, and does nothing.
TEST_P(Handlers, cancel_the_one_that_has_failed) {
  complete([this] {
    receives.for_rest([this](int i) { receives.cancel_and_wait(i); });
    EXPECT_OK(MPI_Cancel(&receives.at(Receives::failing)));
  });
}

/// The call that was to tell of it finds nothing then.
TEST(Handler, completes_the_one_that_has_failed) {
  if (nothing_fails()) GTEST_SKIP() << "Open MPI does not tell that a message to oneself is too long";
  Receives receives;
  int code = MPI_SUCCESS;
  const HandledComm handled_comm([&] {
    code = MPI_Wait(&receives.at(Receives::failing), MPI_STATUS_IGNORE);
    EXPECT_EQ(receives.at(Receives::failing), MPI_REQUEST_NULL);
    receives.for_rest([&](int i) { receives.cancel_and_wait(i); });
  });
  receives.post(handled_comm.comm);
  harness_barrier();
  receives.send_too_long();
  harness_barrier();
  int index = -1;
  EXPECT_OK(MPI_Waitany(Receives::count, receives.all(), &index, MPI_STATUS_IGNORE));
  EXPECT_EQ(index, MPI_UNDEFINED);
  EXPECT_EQ(handled, 1);
  EXPECT_EQ(class_of(code), MPI_ERR_OTHER);
  harness_barrier();
}

/// Calls on both kinds of requests find no trace of it.
TEST(Handler, completes_a_request_of_the_mpis_in_the_array) {
  if (nothing_fails()) GTEST_SKIP() << "Open MPI does not tell that a message to oneself is too long";
  constexpr int count = Receives::count + 1;
  enum Way { any, some, all, ways };
  for (int way = any; way != ways; ++way) {
    SCOPED_TRACE(testing::Message() << "way " << way);
    Receives receives;
    MPI_Request& of_the_mpi = receives.at(Receives::count);
    OfTheMpi open(&of_the_mpi);
    const HandledComm handled_comm([&] {
      open.complete(&of_the_mpi);
      receives.for_rest([&](int i) { receives.cancel_and_wait(i); });
    });
    receives.post(handled_comm.comm);
    harness_barrier();
    receives.send_too_long();
    harness_barrier();
    std::array<int, count> indices{};
    std::array<MPI_Status, count> statuses{};
    int done = 0;
    if (way == any) MPI_Waitany(count, receives.all(), indices.data(), statuses.data());
    if (way == some) MPI_Waitsome(count, receives.all(), &done, indices.data(), statuses.data());
    if (way == all) MPI_Waitall(count, receives.all(), statuses.data());
    EXPECT_EQ(handled, 1);
    for (int i = 0; i < count; ++i) EXPECT_EQ(receives.at(i), MPI_REQUEST_NULL) << "request " << i;
    harness_barrier();
  }
}

/// MPI_Testall looks at some alone before it asks for the rest, whose first one the handler completes.
TEST(Handler, completes_where_a_testall_has_come_to) {
  if (nothing_fails()) GTEST_SKIP() << "Open MPI does not tell that a message to oneself is too long";
  constexpr int alone = 4;
  constexpr int failing = alone + 1;
  constexpr int count = failing + 2;
  std::vector<MPI_Request> requests(count, MPI_REQUEST_NULL);
  const auto cancel_and_wait = [&](int i) {
    MPI_Request& request = requests[static_cast<std::size_t>(i)];
    EXPECT_OK(MPI_Cancel(&request));
    EXPECT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  };
  const HandledComm handled_comm([&] { cancel_and_wait(alone); });
  std::vector<std::unique_ptr<PlacedInts>> in;
  for (int i = 0; i < count; ++i) {
    in.push_back(std::make_unique<PlacedInts>(Memory::gpu, Ints(room, -1)));
    ASSERT_OK(MPI_Irecv(in.back()->data(), room, MPI_INT, left(), i, handled_comm.comm,
                        &requests[static_cast<std::size_t>(i)]));
  }
  harness_barrier();
  const Ints values = counting(2 * room, rank());
  for (const int i : {0, 1, 2, 3, failing})
    ASSERT_OK(MPI_Send(values.data(), i == failing ? 2 * room : room, MPI_INT, right(), i, handled_comm.comm));
  harness_barrier();
  const bool has_failed = comes_true([&] {
    int flag = 0;
    MPI_Testall(count, requests.data(), &flag, MPI_STATUSES_IGNORE);
    return handled > 0;
  });
  EXPECT_TRUE(has_failed);
  EXPECT_EQ(requests[alone], MPI_REQUEST_NULL);
  cancel_and_wait(count - 1);
  MPI_Waitall(count, requests.data(), MPI_STATUSES_IGNORE);
  EXPECT_EQ(requests, std::vector<MPI_Request>(count, MPI_REQUEST_NULL));
  harness_barrier();
}

class FreeingHandlers : public Handlers {
 protected:
  void at_end(MPI_Comm) override {
    receives.send_to_rest();
    harness_barrier();
    for (int pending = 1; pending != 0; std::this_thread::yield()) ASSERT_OK(Partita_Progress(&pending));
    receives.for_rest([this](int i) { EXPECT_EQ(receives.content(i), counting(room, left())); });
  }
};

TEST_P(FreeingHandlers, free_the_others_which_go_on) {
  complete([this] { receives.for_rest([this](int i) { EXPECT_OK(MPI_Request_free(&receives.at(i))); }); });
  receives.for_rest([this](int i) { EXPECT_EQ(receives.at(i), MPI_REQUEST_NULL); });
}

const auto name_of_call = [](const auto& info) { return calls()[info.param].name; };
INSTANTIATE_TEST_SUITE_P(All, Handlers, testing::Range(std::size_t{0}, calls().size()), name_of_call);
INSTANTIATE_TEST_SUITE_P(All, FreeingHandlers, testing::Range(std::size_t{0}, calls().size()), name_of_call);

#if MPI_VERSION >= 4
TEST(FreeingHandler, frees_an_exchange_which_goes_on) {
  if (nothing_fails()) GTEST_SKIP() << "Open MPI does not tell that a message to oneself is too long";
  std::array<MPI_Request, 2> requests{MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  const HandledComm handled_comm([&] { EXPECT_OK(MPI_Request_free(&requests[1])); });
  PlacedInts to_short(Memory::gpu, Ints(room, -1));
  PlacedInts out(Memory::gpu, counting(room, rank()));
  PlacedInts in(Memory::gpu, Ints(room, -1));
  ASSERT_OK(MPI_Irecv(to_short.data(), room, MPI_INT, left(), 0, handled_comm.comm, requests.data()));
  ASSERT_OK(MPI_Isendrecv(out.data(), room, MPI_INT, left(), 7, in.data(), room, MPI_INT, left(), 8, handled_comm.comm,
                          &requests[1]));
  harness_barrier();
  const Ints too_long = counting(2 * room, rank());
  ASSERT_OK(MPI_Send(too_long.data(), 2 * room, MPI_INT, right(), 0, handled_comm.comm));
  int index = -1;
  MPI_Waitany(2, requests.data(), &index, MPI_STATUS_IGNORE);
  EXPECT_EQ(index, 0);
  EXPECT_EQ(handled, 1);
  harness_barrier();
  ASSERT_OK(MPI_Send(too_long.data(), room, MPI_INT, right(), 8, handled_comm.comm));
  PlacedInts met(Memory::gpu, Ints(room, -1));
  ASSERT_OK(MPI_Recv(met.data(), room, MPI_INT, right(), 7, handled_comm.comm, MPI_STATUS_IGNORE));
  EXPECT_EQ(met.get(), counting(room, right()));
  for (int pending = 1; pending != 0; std::this_thread::yield()) ASSERT_OK(Partita_Progress(&pending));
  EXPECT_EQ(in.get(), counting(room, left()));
  harness_barrier();
}
#endif

std::atomic<int> cancels{0};
std::atomic<int> tests{0};
std::atomic<int> looks{0};
decltype(native::Cancel) real_cancel = nullptr;
decltype(native::Test) real_test = nullptr;
decltype(native::Testany) real_testany = nullptr;

/// While it lives the library's calls of the MPI are counted.
class CountedCalls {
 public:
  CountedCalls() {
    const auto no_steps = capi::runtime().progress.exclusive();
    cancels = tests = looks = 0;
    real_cancel = native::Cancel;
    real_test = native::Test;
    real_testany = native::Testany;
    native::Cancel = [](MPI_Request* request) {
      ++cancels;
      return real_cancel(request);
    };
    native::Test = [](MPI_Request* request, int* flag, MPI_Status* status) {
      ++tests;
      return real_test(request, flag, status);
    };
    native::Testany = [](int count, MPI_Request* requests, int* index, int* flag, MPI_Status* status) {
      ++looks;
      return real_testany(count, requests, index, flag, status);
    };
  }
  ~CountedCalls() {
    const auto no_steps = capi::runtime().progress.exclusive();
    native::Cancel = real_cancel;
    native::Test = real_test;
    native::Testany = real_testany;
  }
  CountedCalls(const CountedCalls&) = delete;
  CountedCalls& operator=(const CountedCalls&) = delete;
};

#if MPI_VERSION >= 4
/// Both halves of each, and each half where the other one is complete.
TEST(Exchanges, are_asked_for_at_once) {
  constexpr int sent = 10;  // too few for an offer
  std::vector<MPI_Request> requests(2, MPI_REQUEST_NULL);
  std::vector<std::unique_ptr<PlacedInts>> in;
  PlacedInts out(Memory::gpu, counting(sent, rank()));
  for (int i = 0; i < 2; ++i) {
    in.push_back(std::make_unique<PlacedInts>(Memory::gpu, Ints(room, -1)));
    ASSERT_OK(MPI_Isendrecv(out.data(), sent, MPI_INT, right(), i, in.back()->data(), room, MPI_INT, left(), 10 + i,
                            MPI_COMM_WORLD, &requests[static_cast<std::size_t>(i)]));
  }
  harness_barrier();
  {
    const CountedCalls counted;
    for (int look = 0; look < 100; ++look) {
      int index = -1;
      int flag = -1;
      ASSERT_OK(MPI_Testany(2, requests.data(), &index, &flag, MPI_STATUS_IGNORE));
      ASSERT_EQ(flag, 0);
    }
    EXPECT_GE(looks, 100);
    EXPECT_EQ(tests, 0);
  }
  harness_barrier();
  const Ints values = counting(room, rank());
  for (int i = 0; i < 2; ++i) {
    PlacedInts met(Memory::gpu, Ints(room, -1));
    ASSERT_OK(MPI_Send(values.data(), room, MPI_INT, right(), 10 + i, MPI_COMM_WORLD));
    ASSERT_OK(MPI_Recv(met.data(), room, MPI_INT, left(), i, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    Ints expected(room, -1);
    std::ranges::copy(counting(sent, left()), expected.begin());
    EXPECT_EQ(met.get(), expected);
  }
  ASSERT_OK(MPI_Waitall(2, requests.data(), MPI_STATUSES_IGNORE));
  for (const auto& each : in) EXPECT_EQ(each->get(), counting(room, left()));
  harness_barrier();
}
#endif

/// Receives in GPU memory that nobody sends to, two unless said otherwise. One more may stand behind them.
class InVain {
 public:
  explicit InVain(std::size_t count = 2) : requests(count + 1, MPI_REQUEST_NULL) {
    for (std::size_t i = 0; i < count; ++i) {
      in_.push_back(std::make_unique<PlacedInts>(Memory::gpu, Ints(room, -1)));
      EXPECT_OK(MPI_Irecv(in_[i]->data(), room, MPI_INT, left(), of_other_tag, MPI_COMM_WORLD, &requests[i]));
    }
  }

  std::vector<MPI_Request> requests;

 private:
  std::vector<std::unique_ptr<PlacedInts>> in_;
};

/// A cancel comes at any time of a call that looks at several, and is not lost.
TEST(OtherThreads, cancel_while_one_looks_at_several) {
  constexpr int rounds = 500;
  for (int round = 0; round < rounds; ++round) {
    InVain posted(6);
    std::vector<MPI_Request> copies(posted.requests.begin(), posted.requests.end() - 1);
    std::atomic<bool> begins{false};
    std::thread other([&] {
      while (!begins) std::this_thread::yield();
      for (MPI_Request& each : copies) EXPECT_OK(MPI_Cancel(&each));
    });
    begins = true;
    // No cancel comes to what is gone: most calls are short, and none completes one before the other is cancelled.
    for (int flag = 0; flag == 0;)
      ASSERT_OK(MPI_Testall(6, posted.requests.data(), &flag, MPI_STATUSES_IGNORE)) << "round " << round;
    other.join();
  }
  harness_barrier();
}

/// As the one that is left of several in a wait for requests of the MPI's, too.
TEST(OtherThreads, cancel_the_last_of_several_while_one_waits_for_the_mpi) {
  InVain posted;
  std::array<MPI_Request, 2> copies{posted.requests[0], posted.requests[1]};
  const auto query = [](void*, MPI_Status* status) {
    MPI_Status_set_cancelled(status, 0);
    return MPI_Status_set_elements(status, MPI_INT, 0);
  };
  ASSERT_OK(MPI_Grequest_start(
      query, [](void*) { return MPI_SUCCESS; }, [](void*, int) { return MPI_SUCCESS; }, nullptr, &posted.requests[2]));
  MPI_Request foreign = posted.requests[2];
  {
    const CountedCalls counted;
    std::thread other([&] {
      EXPECT_TRUE(comes_true([] { return looks > 10; }));
      EXPECT_OK(MPI_Cancel(&copies[0]));
      EXPECT_TRUE(comes_true([] { return cancels == 1; }));
      std::this_thread::sleep_for(std::chrono::milliseconds(50));  // it is complete
      EXPECT_OK(MPI_Cancel(&copies[1]));
      EXPECT_TRUE(comes_true([] { return cancels == 2; }));
      EXPECT_OK(MPI_Grequest_complete(foreign));
    });
    EXPECT_OK(MPI_Waitall(3, posted.requests.data(), MPI_STATUSES_IGNORE));
    other.join();
  }
  harness_barrier();
}

TEST(OtherThreads, do_not_ask_the_mpi_for_what_a_call_asks_for) {
  InVain posted;
  MPI_Request copy = posted.requests[0];
  {
    const CountedCalls counted;
    std::thread other([&] {
      EXPECT_TRUE(comes_true([] { return looks > 10; }));
      for (int look = 0; look < 100; ++look) {
        int flag = -1;
        EXPECT_OK(MPI_Request_get_status(copy, &flag, MPI_STATUS_IGNORE));
        EXPECT_EQ(flag, 0);
      }
      EXPECT_EQ(tests, 0);
      EXPECT_OK(MPI_Cancel(&copy));
    });
    int index = -1;
    EXPECT_OK(MPI_Waitany(2, posted.requests.data(), &index, MPI_STATUS_IGNORE));
    EXPECT_EQ(index, 0);
    other.join();
  }
  EXPECT_OK(MPI_Cancel(&posted.requests[1]));
  EXPECT_OK(MPI_Wait(&posted.requests[1], MPI_STATUS_IGNORE));
  harness_barrier();
}

}  // namespace
}  // namespace partita::test
