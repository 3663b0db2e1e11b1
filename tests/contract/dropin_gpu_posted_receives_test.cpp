// Many posted receives where messages may be offers (PARTITA_PEER_MESSAGES=1000): each gets what the MPI would give it,
// whatever is posted beside it and in which order, and none costs the others anything. On the fake GPU.
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "capi/state.hpp"
#include "contract/gpu_aware_job.hpp"
#include "core/native.hpp"
#include "dropin/native.hpp"
#include "support/errors.hpp"
#include "support/fake_gpu.hpp"
#include "support/placed_ints.hpp"
#include "support/random.hpp"
#include "support/received_ints.hpp"

namespace partita::test {
namespace {

constexpr int some = 300;  ///< ints, which are an offer
constexpr int unused_tag = 4000;

std::atomic<std::uint64_t> asked{0};
decltype(native::Test) real_test = nullptr;
decltype(native::Testany) real_testany = nullptr;

int counting_test(MPI_Request* request, int* flag, MPI_Status* status) {
  ++asked;
  return real_test(request, flag, status);
}

int counting_testany(int count, MPI_Request* requests, int* index, int* flag, MPI_Status* status) {
  ++asked;
  return real_testany(count, requests, index, flag, status);
}

/// While it lives it is counted how many times the library asks the MPI for a request, or for several at once.
class CountedTests {
 public:
  CountedTests() {
    const auto no_steps = capi::runtime().progress.exclusive();
    real_test = native::Test;
    real_testany = native::Testany;
    native::Test = counting_test;
    native::Testany = counting_testany;
    asked = 0;
  }
  ~CountedTests() {
    const auto no_steps = capi::runtime().progress.exclusive();
    native::Test = real_test;
    native::Testany = real_testany;
  }
  CountedTests(const CountedTests&) = delete;
  CountedTests& operator=(const CountedTests&) = delete;

  std::uint64_t so_far() const { return asked; }
};

/// Receives that nobody sends to, of host and GPU memory in turns.
class PostedInVain {
 public:
  explicit PostedInVain(int count, int first_tag = unused_tag) : requests_(static_cast<std::size_t>(count)) {
    for (int i = 0; i < count; ++i) {
      memory_.push_back(std::make_unique<PlacedInts>(i % 2 == 0 ? Memory::host : Memory::gpu, Ints(some, -1)));
      EXPECT_OK(MPI_Irecv(memory_.back()->data(), some, MPI_INT, i % 3 == 0 ? MPI_ANY_SOURCE : left(), first_tag + i,
                          MPI_COMM_WORLD, &requests_[static_cast<std::size_t>(i)]));
    }
  }
  ~PostedInVain() {
    for (MPI_Request& request : requests_) EXPECT_OK(request == MPI_REQUEST_NULL ? MPI_SUCCESS : MPI_Cancel(&request));
    EXPECT_OK(MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE));
    for (const auto& each : memory_) EXPECT_EQ(each->get(), Ints(some, -1));
  }
  PostedInVain(const PostedInVain&) = delete;
  PostedInVain& operator=(const PostedInVain&) = delete;

  std::vector<MPI_Request>& requests() { return requests_; }

 private:
  std::vector<std::unique_ptr<PlacedInts>> memory_;
  std::vector<MPI_Request> requests_;
};

int native_receives = 0;
dropin::Native real_native{};

/// While it lives it is counted how many receives the drop-in itself has the MPI look for.
class CountedReceives {
 public:
  CountedReceives() {
    dropin::Native& native = dropin::internal::native_calls;
    native_receives = 0;
    real_native = native;
    native.Irecv = [](void* buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Request* made) {
      ++native_receives;
      return real_native.Irecv(buf, count, type, source, tag, comm, made);
    };
    native.Start = [](MPI_Request* request) {
      ++native_receives;
      return real_native.Start(request);
    };
  }
  ~CountedReceives() { dropin::internal::native_calls = real_native; }
  CountedReceives(const CountedReceives&) = delete;
  CountedReceives& operator=(const CountedReceives&) = delete;

  int so_far() const { return native_receives; }
};

/// The MPI looks through what is posted for each message that comes. The handles that stand for receives are none.
TEST(PostedReceives, are_posted_to_the_mpi_once) {
  const CountedReceives counted;
  {
    const PostedInVain posted(100);
    EXPECT_EQ(counted.so_far(), 0);
  }
  EXPECT_EQ(counted.so_far(), 0);
  harness_barrier();
}

constexpr int looks = 500;
constexpr int posted_in_vain = 400;

/// Asks `looks` times for a message that has not come.
void look_in_vain(MPI_Request& request) {
  for (int look = 0; look < looks; ++look) {
    int done = -1;
    ASSERT_OK(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
    ASSERT_EQ(done, 0);
  }
}

/// The MPI is asked for what the program asks for, and for nothing else.
void expect_no_other_test(MPI_Request& request) {
  const CountedTests tests;
  look_in_vain(request);
  EXPECT_EQ(tests.so_far(), std::uint64_t{looks});
}

TEST(PostedReceives, cost_nothing_while_no_offer_is_on_its_way) {
  PlacedInts in(Memory::host, Ints(some, -1));
  PlacedInts out(Memory::host, counting(some, rank()));
  for (const int count : {0, posted_in_vain}) {
    harness_barrier();
    const PostedInVain posted(count);
    MPI_Request request = MPI_REQUEST_NULL;
    ASSERT_OK(MPI_Irecv(in.data(), some, MPI_INT, left(), 1, MPI_COMM_WORLD, &request));
    SCOPED_TRACE(std::to_string(count) + " receives posted");
    expect_no_other_test(request);
    harness_barrier();
    ASSERT_OK(MPI_Send(out.data(), some, MPI_INT, right(), 1, MPI_COMM_WORLD));
    ASSERT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    EXPECT_EQ(in.get(), counting(some, left()));
  }
}

/// The calls on arrays that do not wait.
void look_in_vain(std::vector<MPI_Request>& requests) {
  const int count = static_cast<int>(requests.size());
  std::vector<int> indices(requests.size());
  for (int look = 0; look < looks; ++look) {
    int found = -1;
    int flag = -1;
    switch (look % 3) {
      case 0:
        ASSERT_OK(MPI_Testany(count, requests.data(), &found, &flag, MPI_STATUS_IGNORE));
        break;
      case 1:
        ASSERT_OK(MPI_Testsome(count, requests.data(), &flag, indices.data(), MPI_STATUSES_IGNORE));
        break;
      default:
        ASSERT_OK(MPI_Testall(count, requests.data(), &flag, MPI_STATUSES_IGNORE));
    }
    ASSERT_EQ(flag, 0);
  }
}

/// The MPI looks at all of them when it is asked once.
TEST(PostedReceives, are_asked_for_once_in_a_look_at_many) {
  harness_barrier();
  {
    PostedInVain posted(posted_in_vain);
    const CountedTests tests;
    look_in_vain(posted.requests());
    EXPECT_EQ(tests.so_far(), std::uint64_t{looks});
  }
  harness_barrier();
}

TEST(PostedReceives, are_cancelled_by_another_thread_while_one_waits_for_several) {
  harness_barrier();
  for (const bool by_some : {false, true}) {
    PostedInVain posted(20);
    MPI_Request seventh = posted.requests()[7];
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      EXPECT_OK(MPI_Cancel(&seventh));
    });
    int index = -1;
    int done = 1;
    MPI_Status status{};
    std::vector<MPI_Status> statuses(20);
    EXPECT_OK(by_some ? MPI_Waitsome(20, posted.requests().data(), &done, &index, statuses.data())
                      : MPI_Waitany(20, posted.requests().data(), &index, &status));
    other.join();
    int cancelled = -1;
    EXPECT_OK(MPI_Test_cancelled(by_some ? statuses.data() : &status, &cancelled));
    EXPECT_EQ(cancelled, 1);
    EXPECT_EQ(done, 1);
    EXPECT_EQ(index, 7);
  }
  harness_barrier();
}

/// An offer that nobody receives has the engine ask for others. It does so in turns: a few in each step, and more only
/// as time passes.
TEST(PostedReceives, cost_a_few_looks_each_while_an_offer_is_unmet) {
  PlacedInts in(Memory::gpu, Ints(some, -1));
  PlacedInts out(Memory::gpu, counting(some, rank()));
  MPI_Request offered = MPI_REQUEST_NULL;
  ASSERT_OK(MPI_Isend(out.data(), some, MPI_INT, right(), 2, MPI_COMM_WORLD, &offered));
  harness_barrier();
  {
    const PostedInVain posted(posted_in_vain);
    MPI_Request request = MPI_REQUEST_NULL;
    ASSERT_OK(MPI_Irecv(in.data(), some, MPI_INT, left(), 1, MPI_COMM_WORLD, &request));
    {
      const CountedTests tests;
      using Clock = std::chrono::steady_clock;
      const auto begin = Clock::now();
      look_in_vain(request);
      const auto passed = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin);
      EXPECT_LE(tests.so_far(), 4 * std::uint64_t{looks} + static_cast<std::uint64_t>(passed.count()) / 5 + 200);
    }
    harness_barrier();
    ASSERT_OK(MPI_Send(out.data(), some, MPI_INT, right(), 1, MPI_COMM_WORLD));
    ASSERT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    EXPECT_EQ(in.get(), counting(some, left()));
    in.set(Ints(some, -1));
    ASSERT_OK(MPI_Recv(in.data(), some, MPI_INT, left(), 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    EXPECT_EQ(in.get(), counting(some, left()));
    ASSERT_OK(MPI_Wait(&offered, MPI_STATUS_IGNORE));
    // It was met: the engine asks for none again.
    ASSERT_OK(MPI_Irecv(in.data(), some, MPI_INT, left(), 3, MPI_COMM_WORLD, &request));
    harness_barrier();
    expect_no_other_test(request);
    ASSERT_OK(MPI_Cancel(&request));
    ASSERT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  }
  harness_barrier();
}

/// What was given up is on its way no more.
TEST(PostedReceives, cost_nothing_behind_an_offer_that_was_refused) {
  const ErrorsReturn returned(MPI_COMM_WORLD);
  PlacedInts in(Memory::host, Ints(some, -1));
  PlacedInts out(Memory::gpu, counting(some, rank()));
  MPI_Request offered = MPI_REQUEST_NULL;
  ASSERT_OK(MPI_Isend(out.data(), some, MPI_INT, right(), 2, MPI_COMM_WORLD, &offered));
  EXPECT_EQ(class_of(MPI_Recv(in.data(), some - 1, MPI_INT, left(), 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE)),
            MPI_ERR_TRUNCATE);
  ASSERT_OK(MPI_Wait(&offered, MPI_STATUS_IGNORE));
  harness_barrier();
  const PostedInVain posted(posted_in_vain);
  MPI_Request request = MPI_REQUEST_NULL;
  ASSERT_OK(MPI_Irecv(in.data(), some, MPI_INT, left(), 1, MPI_COMM_WORLD, &request));
  expect_no_other_test(request);
  ASSERT_OK(MPI_Cancel(&request));
  ASSERT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  harness_barrier();
}

/// Whoever computes, or sits in a barrier of the MPI, has the engine find them all, the last that it would ask for,
/// too.
TEST(PostedReceives, get_their_offers_while_their_rank_is_elsewhere) {
  constexpr int count = 250;
  PlacedInts out(Memory::gpu, Ints(std::size_t{count} * some, -1));
  Ints all;
  for (int i = 0; i < count; ++i) {
    const Ints one = counting(some, 1000 * rank() + i);
    all.insert(all.end(), one.begin(), one.end());
  }
  out.set(all);
  for (const bool backwards : {false, true}) {
    const PostedInVain before(100);
    std::vector<std::unique_ptr<PlacedInts>> in;
    std::vector<MPI_Request> receives(count);
    for (int i = 0; i < count; ++i) {
      in.push_back(std::make_unique<PlacedInts>(i % 2 == 0 ? Memory::gpu : Memory::host, Ints(some, -1)));
      ASSERT_OK(MPI_Irecv(in.back()->data(), some, MPI_INT, i % 5 == 0 ? MPI_ANY_SOURCE : left(), i, MPI_COMM_WORLD,
                          &receives[static_cast<std::size_t>(i)]));
    }
    const PostedInVain behind(100, unused_tag + 100);
    harness_barrier();
    std::vector<MPI_Request> sends;
    for (int k = 0; k < count; ++k) {
      const int i = backwards ? count - 1 - k : k;
      sends.push_back(MPI_REQUEST_NULL);
      ASSERT_OK(
          MPI_Issend(out.data() + std::ptrdiff_t{i} * some, some, MPI_INT, right(), i, MPI_COMM_WORLD, &sends.back()));
    }
    ASSERT_OK(MPI_Waitall(count, sends.data(), MPI_STATUSES_IGNORE));
    harness_barrier();
    for (int i = 0; i < count; ++i) {
      int done = 0;
      MPI_Status status;
      while (done == 0) ASSERT_OK(MPI_Test(&receives[static_cast<std::size_t>(i)], &done, &status));
      expect_from(status, left(), i, some);
      ASSERT_EQ(in[static_cast<std::size_t>(i)]->get(), counting(some, 1000 * left() + i)) << "receive " << i;
    }
    harness_barrier();
  }
}

/// Nobody waits for the sends, or makes a call where they are: the engine serves every wish.
TEST(PendingSends, are_staged_for_whoever_wishes_it_while_their_rank_is_elsewhere) {
  constexpr int count = 250;
  PlacedInts out(Memory::gpu, counting(some, 1000 * rank()));
  PlacedInts in(Memory::host, Ints(some, -1));
  std::vector<MPI_Request> sends(count);
  for (int i = 0; i < count; ++i) {
    ASSERT_OK(
        MPI_Isend(out.data(), some - i % 9, MPI_INT, right(), i, MPI_COMM_WORLD, &sends[static_cast<std::size_t>(i)]));
  }
  for (int turn = 0; turn < ranks(); ++turn) {
    harness_barrier();
    for (int k = 0; turn == rank() && k < count; ++k) {
      const int i = k * 77 % count;
      ASSERT_OK(MPI_Recv(in.data(), some, MPI_INT, left(), i, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
      Ints expected = counting(some - i % 9, 1000 * left());
      expected.resize(some, -1);
      ASSERT_EQ(in.get(), expected) << "message " << i;
      in.set(Ints(some, -1));
    }
    harness_barrier();
  }
  ASSERT_OK(MPI_Waitall(count, sends.data(), MPI_STATUSES_IGNORE));
}

/// Random receives, all posted before the first message is sent, with wildcards among them, on two communicators. Each
/// message goes to the first one that it meets, as MPI says; receives that are left are cancelled.
class RandomlyPosted {
 public:
  RandomlyPosted(int round, MPI_Comm other)
      : comms_{MPI_COMM_WORLD, other}, random_(job_seed(), static_cast<std::uint64_t>(round)) {}

  void exchange() {
    draw();
    post();
    harness_barrier();
    send();
    cancel_some();
    complete();
    ASSERT_OK(MPI_Waitall(static_cast<int>(sends_.size()), sends_.data(), MPI_STATUSES_IGNORE));
    harness_barrier();
  }

 private:
  static constexpr int tags = 4;
  static constexpr int most = 700;

  /// All ranks draw the same.
  struct Receive {
    int comm;
    bool any_source;
    int tag;
    bool on_gpu;
    int message = -1;  ///< that it meets
  };
  struct Message {
    int comm;
    int tag;
    int count;
    bool on_gpu;
  };

  void draw() {
    const int messages = random_.integer(1, 60);
    for (int i = 0; i < messages; ++i) {
      // Less than an offer, as long as one, and more; in bytes 4 times as much.
      const int count = random_.one_in(3) ? random_.integer(0, 70) : random_.integer(250, most);
      messages_.push_back({random_.integer(0, 1), random_.integer(0, tags - 1), count, !random_.one_in(3)});
    }
    for (int i = 0; i < messages; ++i) {
      receives_.push_back({random_.integer(0, 1), random_.one_in(3),
                           random_.one_in(4) ? MPI_ANY_TAG : random_.integer(0, tags - 1), random_.one_in(2)});
    }
    // Where these are too few or do not fit, those behind them take what is left.
    for (int message = 0; message < messages; ++message) {
      if (!meets(message)) {
        receives_.push_back({at(message).comm, random_.one_in(2), at(message).tag, random_.one_in(2)});
        meets(message);
      }
    }
    random_ = Random(job_seed(), random_.bits() % 1'000'000 * 8 + static_cast<std::uint64_t>(rank()));
  }

  const Message& at(int message) const { return messages_[static_cast<std::size_t>(message)]; }
  bool meets(int message) {
    for (Receive& receive : receives_) {
      const bool fits = receive.message < 0 && receive.comm == at(message).comm &&
                        (receive.tag == MPI_ANY_TAG || receive.tag == at(message).tag);
      if (!fits) continue;
      receive.message = message;
      return true;
    }
    return false;
  }

  Ints content(int from, int message) const { return counting(at(message).count, 100'000 * from + 1000 * message); }

  void post() {
    for (const Receive& receive : receives_) {
      in_.push_back(std::make_unique<PlacedInts>(receive.on_gpu ? Memory::gpu : Memory::host, Ints(most, -1)));
      requests_.push_back(MPI_REQUEST_NULL);
      ASSERT_OK(MPI_Irecv(in_.back()->data(), most, MPI_INT, receive.any_source ? MPI_ANY_SOURCE : left(), receive.tag,
                          comms_[receive.comm], &requests_.back()));
    }
  }

  void send() {
    for (int message = 0; message < static_cast<int>(messages_.size()); ++message) {
      out_.push_back(
          std::make_unique<PlacedInts>(at(message).on_gpu ? Memory::gpu : Memory::host, content(rank(), message)));
      MPI_Request request = MPI_REQUEST_NULL;
      const auto send_call = random_.one_in(3) ? MPI_Issend : MPI_Isend;
      ASSERT_OK(send_call(out_.back()->data(), at(message).count, MPI_INT, right(), at(message).tag,
                          comms_[at(message).comm], &request));
      if (send_call == MPI_Isend && random_.one_in(6)) {
        ASSERT_OK(MPI_Request_free(&request));
      } else {
        sends_.push_back(request);
      }
    }
  }

  void cancel_some() {
    for (std::size_t i = 0; i < receives_.size(); ++i) {
      if (receives_[i].message >= 0) continue;
      ASSERT_OK(MPI_Cancel(&requests_[i]));
      if (random_.one_in(2)) continue;
      MPI_Status status;
      ASSERT_OK(MPI_Wait(&requests_[i], &status));
      check(i, status);
    }
  }

  void complete() {
    while (std::ranges::any_of(requests_, [](MPI_Request each) { return each != MPI_REQUEST_NULL; })) {
      const auto count = static_cast<int>(requests_.size());
      std::vector<MPI_Status> statuses(requests_.size());
      std::vector<int> indices(requests_.size());
      int done = 0;
      switch (random_.integer(0, 3)) {
        case 0:
          ASSERT_OK(MPI_Waitany(count, requests_.data(), indices.data(), statuses.data()));
          done = 1;
          break;
        case 1:
          ASSERT_OK(MPI_Testsome(count, requests_.data(), &done, indices.data(), statuses.data()));
          break;
        case 2: {
          const std::size_t i = static_cast<std::size_t>(random_.integer(0, count - 1));
          if (requests_[i] == MPI_REQUEST_NULL) break;
          ASSERT_OK(MPI_Test(&requests_[i], &done, statuses.data()));
          indices[0] = static_cast<int>(i);
          break;
        }
        default:
          if (!random_.one_in(20)) break;
          const std::vector<MPI_Request> before = requests_;
          ASSERT_OK(MPI_Waitall(count, requests_.data(), statuses.data()));
          for (std::size_t i = 0; i < before.size(); ++i) {
            if (before[i] != MPI_REQUEST_NULL) check(i, statuses[i]);
          }
      }
      for (int each = 0; each < done; ++each) {
        check(static_cast<std::size_t>(indices[static_cast<std::size_t>(each)]),
              statuses[static_cast<std::size_t>(each)]);
      }
      if (testing::Test::HasFatalFailure()) return;
    }
  }

  void check(std::size_t receive, const MPI_Status& status) {
    const int message = receives_[receive].message;
    int cancelled = -1;
    ASSERT_OK(MPI_Test_cancelled(&status, &cancelled));
    ASSERT_EQ(cancelled, message < 0 ? 1 : 0) << "receive " << receive;
    Ints expected;
    if (message >= 0) {
      expect_from(status, left(), at(message).tag, at(message).count);
      expected = content(left(), message);
    }
    expected.resize(most, -1);
    EXPECT_EQ(in_[receive]->get(), expected) << "receive " << receive << ", message " << message;
  }

  MPI_Comm comms_[2];
  Random random_;
  std::vector<Message> messages_;
  std::vector<Receive> receives_;
  std::vector<std::unique_ptr<PlacedInts>> in_;
  std::vector<std::unique_ptr<PlacedInts>> out_;
  std::vector<MPI_Request> requests_;
  std::vector<MPI_Request> sends_;
};

TEST(PostedReceives, meet_messages_in_the_order_in_which_they_were_posted) {
  MPI_Comm other = MPI_COMM_NULL;
  ASSERT_OK(MPI_Comm_dup(MPI_COMM_WORLD, &other));
  const auto rounds = static_cast<int>(environment_number("PARTITEST_ITERATIONS", 60));
  for (int round = 0; round < rounds && !testing::Test::HasFailure(); ++round) {
    step("round " + std::to_string(round));
    SCOPED_TRACE("round " + std::to_string(round));
    RandomlyPosted(round, other).exchange();
  }
  ASSERT_OK(MPI_Comm_free(&other));
}

TEST(PostedReceives, that_are_persistent_start_again_and_again) {
  constexpr int count = 120;
  PlacedInts out(Memory::gpu, counting(some, 100 * rank()));
  std::vector<std::unique_ptr<PlacedInts>> in;
  std::vector<MPI_Request> receives(count);
  std::vector<MPI_Request> sends(count);
  for (int i = 0; i < count; ++i) {
    in.push_back(std::make_unique<PlacedInts>(i % 3 == 0 ? Memory::host : Memory::gpu, Ints(some, -1)));
    ASSERT_OK(MPI_Recv_init(in.back()->data(), some, MPI_INT, i % 4 == 0 ? MPI_ANY_SOURCE : left(), i, MPI_COMM_WORLD,
                            &receives[static_cast<std::size_t>(i)]));
  }
  for (int start = 0; start < 5; ++start) {
    ASSERT_OK(MPI_Startall(count, receives.data()));
    harness_barrier();
    for (int i = count - 1; i >= 0; --i) {
      ASSERT_OK(MPI_Isend(out.data(), some - start, MPI_INT, right(), i, MPI_COMM_WORLD,
                          &sends[static_cast<std::size_t>(i)]));
    }
    ASSERT_OK(MPI_Waitall(count, sends.data(), MPI_STATUSES_IGNORE));
    for (int i = 0; i < count; ++i) {
      MPI_Status status;
      ASSERT_OK(MPI_Wait(&receives[static_cast<std::size_t>(i)], &status));
      expect_from(status, left(), i, some - start);
      Ints expected = counting(some - start, 100 * left());
      expected.resize(some, -1);
      EXPECT_EQ(in[static_cast<std::size_t>(i)]->get(), expected);
      in[static_cast<std::size_t>(i)]->set(Ints(some, -1));
    }
    harness_barrier();
  }
  for (MPI_Request& request : receives) ASSERT_OK(MPI_Request_free(&request));
}

/// Some post and cancel, some receive, and one computes, all at once.
TEST(PostedReceives, of_several_threads_come_and_go_at_once) {
  constexpr int threads = 3;
  constexpr int rounds = 30;
  constexpr int at_once = 24;
  std::atomic<int> wrong{0};
  std::atomic<bool> over{false};
  std::vector<std::thread> all;
  for (int thread = 0; thread < threads; ++thread) {
    all.emplace_back([&, thread] {
      const int first_tag = 100 * (thread + 1);
      PlacedInts out(Memory::gpu, counting(some, 1000 * rank() + thread));
      std::vector<std::unique_ptr<PlacedInts>> in;
      for (int i = 0; i < at_once; ++i)
        in.push_back(std::make_unique<PlacedInts>((i + thread) % 2 == 0 ? Memory::gpu : Memory::host, Ints(some, -1)));
      for (int round = 0; round < rounds; ++round) {
        std::vector<MPI_Request> requests(2 * at_once);
        for (int i = 0; i < at_once; ++i) {
          MPI_Irecv(in[static_cast<std::size_t>(i)]->data(), some, MPI_INT, i % 3 == 0 ? MPI_ANY_SOURCE : left(),
                    first_tag + i, MPI_COMM_WORLD, &requests[static_cast<std::size_t>(i)]);
        }
        for (int i = at_once - 1; i >= 0; --i) {
          MPI_Isend(out.data(), some, MPI_INT, right(), first_tag + i, MPI_COMM_WORLD,
                    &requests[static_cast<std::size_t>(at_once + i)]);
        }
        MPI_Waitall(2 * at_once, requests.data(), MPI_STATUSES_IGNORE);
        for (const auto& each : in) {
          if (each->get() != counting(some, 1000 * left() + thread)) ++wrong;
          each->set(Ints(some, -1));
        }
      }
    });
  }
  std::thread cancelling([&] {
    while (!over) {
      const PostedInVain posted(20);
      std::this_thread::yield();
    }
  });
  for (std::thread& thread : all) thread.join();
  over = true;
  cancelling.join();
  EXPECT_EQ(wrong, 0);
  harness_barrier();
}

}  // namespace
}  // namespace partita::test
