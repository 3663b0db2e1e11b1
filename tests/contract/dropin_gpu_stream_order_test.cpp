// The MPI's own calls on GPU memory behind a stream of the program's: what they send is what the stream has written
// before the call, and what they receive comes behind what it has read before it.
#include <gtest/gtest.h>
#include <mpi.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "support/errors.hpp"
#include "support/paced_stream.hpp"
#include "support/placed_ints.hpp"

namespace partita::test {
namespace {

using namespace std::chrono_literals;

constexpr int count = 20'000;
constexpr int old_values = -1'000'000;
constexpr std::size_t bytes = count * sizeof(int);

std::string text_of(StreamKind kind) {
  return kind == StreamKind::own ? "own" : kind == StreamKind::legacy ? "legacy" : "per-thread";
}

/// The job was started with this one's name.
bool is_of_job(StreamKind kind) {
  const char* const setting = std::getenv("PARTITA_GPU_AWARE_STREAM");
  return setting != nullptr && text_of(kind) == setting;
}

/// A communicator of all ranks, with one key.
class Told {
 public:
  explicit Told(const std::string& stream) {
    MPI_Info info = MPI_INFO_NULL;
    EXPECT_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm_));
    EXPECT_OK(MPI_Info_create(&info));
    EXPECT_OK(MPI_Info_set(info, "partita_stream", stream.c_str()));
    EXPECT_OK(MPI_Comm_set_info(comm_, info));
    EXPECT_OK(MPI_Info_free(&info));
  }
  Told() { EXPECT_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm_)); }
  ~Told() { EXPECT_OK(MPI_Comm_free(&comm_)); }
  Told(const Told&) = delete;
  Told& operator=(const Told&) = delete;

  MPI_Comm comm() const { return comm_; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

/// Where the environment names the stream the communicator says nothing of it.
class StreamOrder : public testing::TestWithParam<StreamKind> {
 protected:
  PacedStream stream{GetParam()};
  std::unique_ptr<Told> told{is_of_job(GetParam()) ? std::make_unique<Told>() : std::make_unique<Told>(stream.name())};
  MPI_Comm comm = told->comm();
  PlacedInts out{Memory::gpu, counting(count, old_values)};
  PlacedInts in{Memory::gpu, counting(count, old_values)};
  PlacedInts made{Memory::gpu, counting(count, rank())};
  PlacedInts seen{Memory::gpu, counting(count, 0)};

  void enqueue_fill() {
    stream.pause(30ms);
    stream.copy(out.data(), made.data(), bytes);
  }
  void enqueue_look() {
    stream.pause(30ms);
    stream.copy(seen.data(), in.data(), bytes);
  }
  /// The stream fills `out`, some time later.
  void fill_late() {
    out.set(counting(count, old_values));
    enqueue_fill();
  }
  /// The stream looks at `in`, some time later.
  void look_late() {
    in.set(counting(count, old_values));
    enqueue_look();
  }
  /// The copies of set() may wait for the stream, so they come first.
  void fill_and_look_late() {
    out.set(counting(count, old_values));
    in.set(counting(count, old_values));
    enqueue_fill();
    enqueue_look();
  }
  void expect_seen_before() {
    stream.drain();
    EXPECT_EQ(seen.get(), counting(count, old_values)) << "the stream has read what came later";
  }
  /// A message from the left is there, or on its way.
  MPI_Request send_from_host(const Ints& values) {
    MPI_Request send = MPI_REQUEST_NULL;
    EXPECT_OK(MPI_Isend(values.data(), count, MPI_INT, right(), 1, comm, &send));
    harness_barrier();
    return send;
  }

  /// The right one gets, in host memory, what the stream writes to `out` behind the call.
  void expect_sent(const std::function<int()>& send) {
    Ints got(count, -1);
    MPI_Request receive = MPI_REQUEST_NULL;
    ASSERT_OK(MPI_Irecv(got.data(), count, MPI_INT, left(), 1, comm, &receive));
    harness_barrier();
    fill_late();
    ASSERT_OK(send());
    ASSERT_OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
    EXPECT_EQ(got, counting(count, left())) << "a message holds what was there before the stream came to it";
    harness_barrier();
  }
  /// `receive` leaves `in` as it is until the stream has looked at it.
  void expect_received(const std::function<int()>& receive) {
    const Ints sent = counting(count, rank());
    MPI_Request send = send_from_host(sent);
    look_late();
    ASSERT_OK(receive());
    EXPECT_EQ(in.get(), counting(count, left()));
    expect_seen_before();
    ASSERT_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    harness_barrier();
  }
};

int completed(const std::function<int(MPI_Request*)>& begin) {
  MPI_Request request = MPI_REQUEST_NULL;
  if (const int code = begin(&request); code != MPI_SUCCESS) return code;
  return MPI_Wait(&request, MPI_STATUS_IGNORE);
}

TEST_P(StreamOrder, sends_take_what_the_stream_writes_before_the_call) {
  expect_sent([&] { return MPI_Send(out.data(), count, MPI_INT, right(), 1, comm); });
  expect_sent([&] { return MPI_Ssend(out.data(), count, MPI_INT, right(), 1, comm); });
  expect_sent([&] { return MPI_Rsend(out.data(), count, MPI_INT, right(), 1, comm); });
  expect_sent([&] {
    return completed([&](MPI_Request* send) { return MPI_Isend(out.data(), count, MPI_INT, right(), 1, comm, send); });
  });
  expect_sent([&] {
    return completed([&](MPI_Request* send) { return MPI_Issend(out.data(), count, MPI_INT, right(), 1, comm, send); });
  });
}

TEST_P(StreamOrder, elements_with_gaps_too) {
  MPI_Datatype pairs = MPI_DATATYPE_NULL;
  ASSERT_OK(MPI_Type_vector(count / 2, 1, 2, MPI_INT, &pairs));
  ASSERT_OK(MPI_Type_commit(&pairs));
  Ints got(count, -1);
  MPI_Request receive = MPI_REQUEST_NULL;
  ASSERT_OK(MPI_Irecv(got.data(), 1, pairs, left(), 1, comm, &receive));
  fill_late();
  ASSERT_OK(MPI_Send(out.data(), 1, pairs, right(), 1, comm));
  ASSERT_OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
  Ints expected(count, -1);
  for (std::size_t i = 0; i < count; i += 2) expected[i] = left() + static_cast<int>(i);
  EXPECT_EQ(got, expected);
  ASSERT_OK(MPI_Type_free(&pairs));
  harness_barrier();
}

TEST_P(StreamOrder, receives_come_behind_what_the_stream_reads_before_the_call) {
  expect_received([&] { return MPI_Recv(in.data(), count, MPI_INT, left(), 1, comm, MPI_STATUS_IGNORE); });
  expect_received([&] {
    return completed([&](MPI_Request* made) { return MPI_Irecv(in.data(), count, MPI_INT, left(), 1, comm, made); });
  });
}

TEST_P(StreamOrder, matched_receives_too) {
  expect_received([&] {
    MPI_Message message = MPI_MESSAGE_NULL;
    EXPECT_OK(MPI_Mprobe(left(), 1, comm, &message, MPI_STATUS_IGNORE));
    return MPI_Mrecv(in.data(), count, MPI_INT, &message, MPI_STATUS_IGNORE);
  });
  expect_received([&] {
    MPI_Message message = MPI_MESSAGE_NULL;
    int found = 0;
    while (found == 0) EXPECT_OK(MPI_Improbe(left(), 1, comm, &found, &message, MPI_STATUS_IGNORE));
    return completed([&](MPI_Request* made) { return MPI_Imrecv(in.data(), count, MPI_INT, &message, made); });
  });
}

TEST_P(StreamOrder, a_nonblocking_receive_waits_for_nothing_at_the_call) {
  const Ints sent = counting(count, rank());
  MPI_Request send = send_from_host(sent);
  stream.hold();
  stream.copy(seen.data(), in.data(), bytes);
  MPI_Request receive = MPI_REQUEST_NULL;
  ASSERT_OK(MPI_Irecv(in.data(), count, MPI_INT, left(), 1, comm, &receive));
  int complete = 0;
  for (const auto end = std::chrono::steady_clock::now() + 30ms; std::chrono::steady_clock::now() < end;) {
    ASSERT_OK(MPI_Test(&receive, &complete, MPI_STATUS_IGNORE));
    ASSERT_EQ(complete, 0) << "the stream has not come to the call";
  }
  stream.release();
  MPI_Status status;
  ASSERT_OK(MPI_Wait(&receive, &status));
  EXPECT_EQ(status.MPI_SOURCE, left());
  EXPECT_EQ(in.get(), counting(count, left()));
  expect_seen_before();
  ASSERT_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
  harness_barrier();
}

TEST_P(StreamOrder, what_comes_later_in_the_stream_is_not_awaited) {
  MPI_Request send = MPI_REQUEST_NULL;
  MPI_Request receive = MPI_REQUEST_NULL;
  fill_late();
  ASSERT_OK(MPI_Irecv(in.data(), count, MPI_INT, left(), 1, comm, &receive));
  ASSERT_OK(MPI_Isend(out.data(), count, MPI_INT, right(), 1, comm, &send));
  stream.hold();
  ASSERT_OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
  ASSERT_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
  stream.release();
  EXPECT_EQ(in.get(), counting(count, left()));
  harness_barrier();
}

TEST_P(StreamOrder, exchanges_are_ordered_both_ways) {
  fill_and_look_late();
  ASSERT_OK(MPI_Sendrecv(out.data(), count, MPI_INT, right(), 1, in.data(), count, MPI_INT, left(), 1, comm,
                         MPI_STATUS_IGNORE));
  EXPECT_EQ(in.get(), counting(count, left()));
  expect_seen_before();
  harness_barrier();
  fill_late();
  ASSERT_OK(MPI_Sendrecv_replace(out.data(), count, MPI_INT, right(), 1, left(), 1, comm, MPI_STATUS_IGNORE));
  EXPECT_EQ(out.get(), counting(count, left()));
  harness_barrier();
}

TEST_P(StreamOrder, each_start_of_persistent_messages_comes_behind_the_stream) {
  MPI_Request requests[2];
  ASSERT_OK(MPI_Send_init(out.data(), count, MPI_INT, right(), 1, comm, &requests[0]));
  ASSERT_OK(MPI_Recv_init(in.data(), count, MPI_INT, left(), 1, comm, &requests[1]));
  for (int epoch = 0; epoch < 2; ++epoch) {
    made.set(counting(count, rank() + 100 * epoch));
    fill_and_look_late();
    ASSERT_OK(MPI_Startall(2, requests));
    ASSERT_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    EXPECT_EQ(in.get(), counting(count, left() + 100 * epoch));
    expect_seen_before();
    harness_barrier();
  }
  ASSERT_OK(MPI_Request_free(&requests[0]));
  ASSERT_OK(MPI_Request_free(&requests[1]));
}

/// Sums of what all ranks have counted from their numbers on.
Ints sums() {
  Ints expected(count);
  for (int i = 0; i < count; ++i) expected[static_cast<std::size_t>(i)] = ranks() * i + ranks() * (ranks() - 1) / 2;
  return expected;
}

/// The streams of all ranks but one are there: nobody may count on its own.
#define EXPECT_ORDERED(expected, call)                \
  for (int late = 0; late < ranks(); ++late) {        \
    out.set(counting(count, rank()));                 \
    in.set(counting(count, old_values));              \
    seen.set(counting(count, old_values));            \
    harness_barrier();                                \
    if (rank() == late) {                             \
      fill_and_look_late();                           \
    }                                                 \
    ASSERT_OK(call);                                  \
    EXPECT_EQ(in.get(), expected) << "late " << late; \
    expect_seen_before();                             \
  }

TEST_P(StreamOrder, collectives_come_behind_the_streams_of_all_ranks) {
  EXPECT_ORDERED(sums(), MPI_Allreduce(out.data(), in.data(), count, MPI_INT, MPI_SUM, comm))
  const int part = count / ranks();
  const auto exchanged = [&] {
    Ints expected = counting(count, old_values);
    for (int peer = 0; peer < ranks(); ++peer) {
      for (int i = 0; i < part; ++i) expected[static_cast<std::size_t>(peer * part + i)] = peer + rank() * part + i;
    }
    return expected;
  };
  EXPECT_ORDERED(exchanged(), MPI_Alltoall(out.data(), part, MPI_INT, in.data(), part, MPI_INT, comm))
  const auto gathered = [&] {
    Ints expected = counting(count, old_values);
    for (int peer = 0; peer < ranks(); ++peer) {
      for (int i = 0; i < part; ++i) expected[static_cast<std::size_t>(peer * part + i)] = peer + i;
    }
    return expected;
  };
  EXPECT_ORDERED(gathered(), MPI_Allgather(out.data(), part, MPI_INT, in.data(), part, MPI_INT, comm))
}

TEST_P(StreamOrder, nonblocking_collectives_too){
    EXPECT_ORDERED(sums(), completed([&](MPI_Request* made_request) {
                     return MPI_Iallreduce(out.data(), in.data(), count, MPI_INT, MPI_SUM, comm, made_request);
                   }))}
#if MPI_VERSION >= 4
TEST_P(StreamOrder, each_start_of_persistent_collectives_too) {
  MPI_Request request = MPI_REQUEST_NULL;
  ASSERT_OK(MPI_Allreduce_init(out.data(), in.data(), count, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &request));
  EXPECT_ORDERED(sums(), (MPI_Start(&request), MPI_Wait(&request, MPI_STATUS_IGNORE)))
  ASSERT_OK(MPI_Request_free(&request));
}
#endif

TEST_P(StreamOrder, a_communicator_without_the_key_is_not_ordered) {
  const Told other("none");
  PlacedInts values(Memory::gpu, counting(count, rank()));
  stream.hold();
  ASSERT_OK(MPI_Sendrecv(values.data(), count, MPI_INT, right(), 1, in.data(), count, MPI_INT, left(), 1, other.comm(),
                         MPI_STATUS_IGNORE));
  stream.release();
  EXPECT_EQ(in.get(), counting(count, left()));
  harness_barrier();
}

TEST_P(StreamOrder, in_a_stream_that_is_being_captured_a_call_is_an_error) {
  if (GetParam() == StreamKind::legacy) GTEST_SKIP() << "the legacy stream cannot be captured";
  if (GetParam() == StreamKind::per_thread) GTEST_SKIP() << "the test itself copies in that stream";
  const ErrorsReturn errors_return(comm);
  stream.begin_capture();
  EXPECT_ERROR(MPI_Send(out.data(), count, MPI_INT, right(), 1, comm), MPI_ERR_OTHER, "MPI_Send", stream.name(),
               "captured into a graph", "expected");
  stream.end_capture();
}

/// In a native barrier, say: what has come meanwhile is taken when the stream is there, and its sender goes on.
TEST_P(StreamOrder, receives_need_no_further_call_for_their_sender_to_go_on) {
  if (ranks() < 2) GTEST_SKIP() << "needs two ranks";
  MPI_Request receive = MPI_REQUEST_NULL;
  if (rank() == 1) {
    stream.pause(50ms);
    ASSERT_OK(MPI_Irecv(in.data(), count, MPI_INT, 0, 1, comm, &receive));
  }
  if (rank() == 0) {
    ASSERT_OK(MPI_Ssend(made.data(), count, MPI_INT, 1, 1, comm));
  }
  harness_barrier();
  if (rank() != 1) return;
  ASSERT_OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
  EXPECT_EQ(in.get(), counting(count, 0));
}

/// The stream may wait for what a peer does behind such a message.
TEST_P(StreamOrder, calls_that_wait_for_the_stream_let_other_messages_go_on) {
  if (ranks() < 2) GTEST_SKIP() << "needs two ranks";
  constexpr int many = 1 << 20;
  void* words = nullptr;
  MPI_Win window = MPI_WIN_NULL;
  ASSERT_EQ(PMPI_Win_allocate_shared(rank() == 0 ? sizeof(int) : 0, 1, MPI_INFO_NULL, harness_comm(), &words, &window),
            MPI_SUCCESS);
  MPI_Aint size = 0;
  int unit = 0;
  ASSERT_EQ(PMPI_Win_shared_query(window, 0, &size, &unit, &words), MPI_SUCCESS);
  const std::atomic_ref has_left(*static_cast<int*>(words));
  if (rank() == 0) has_left = 0;
  harness_barrier();
  Ints large(many, rank());
  if (rank() == 0) {
    out.set(counting(count, old_values));
    MPI_Request receive = MPI_REQUEST_NULL;
    ASSERT_OK(MPI_Irecv(large.data(), many, MPI_INT, 1, 2, comm, &receive));
    stream.hold();
    stream.copy(out.data(), made.data(), bytes);
    bool in_time = false;
    std::thread releasing([&] {
      const auto limit = std::chrono::steady_clock::now() + 10s;
      while (!in_time && std::chrono::steady_clock::now() < limit) {
        in_time = has_left != 0;
        std::this_thread::yield();
      }
      stream.release();
    });
    EXPECT_OK(MPI_Send(out.data(), count, MPI_INT, 1, 1, comm));
    releasing.join();
    EXPECT_TRUE(in_time) << "the MPI moved nothing";
    ASSERT_OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
    EXPECT_EQ(large.back(), 1);
  } else if (rank() == 1) {
    ASSERT_OK(MPI_Send(large.data(), many, MPI_INT, 0, 2, comm));
    has_left = 1;
    Ints got(count, -1);
    ASSERT_OK(MPI_Recv(got.data(), count, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE));
    EXPECT_EQ(got, counting(count, 0));
  }
  harness_barrier();
  PMPI_Win_free(&window);
}

/// The stream of MPI_COMM_SELF says nothing of another communicator's messages.
TEST_P(StreamOrder, matched_receives_come_behind_no_stream_of_self) {
  if (is_of_job(GetParam())) GTEST_SKIP() << "all calls come behind the stream";
  const Told plain;
  MPI_Info info = MPI_INFO_NULL;
  ASSERT_OK(MPI_Info_create(&info));
  ASSERT_OK(MPI_Info_set(info, "partita_stream", stream.name().c_str()));
  ASSERT_OK(MPI_Comm_set_info(MPI_COMM_SELF, info));
  const Ints sent = counting(count, rank());
  MPI_Request send = MPI_REQUEST_NULL;
  ASSERT_OK(MPI_Isend(sent.data(), count, MPI_INT, right(), 1, plain.comm(), &send));
  MPI_Message message = MPI_MESSAGE_NULL;
  ASSERT_OK(MPI_Mprobe(left(), 1, plain.comm(), &message, MPI_STATUS_IGNORE));
  stream.hold();
  EXPECT_OK(MPI_Mrecv(in.data(), count, MPI_INT, &message, MPI_STATUS_IGNORE));  // or it would wait for ever
  stream.release();
  stream.drain();
  EXPECT_EQ(in.get(), counting(count, left()));
  ASSERT_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
  ASSERT_OK(MPI_Info_set(info, "partita_stream", "none"));
  ASSERT_OK(MPI_Comm_set_info(MPI_COMM_SELF, info));
  ASSERT_OK(MPI_Info_free(&info));
  harness_barrier();
}

INSTANTIATE_TEST_SUITE_P(All, StreamOrder, testing::Values(StreamKind::own, StreamKind::legacy, StreamKind::per_thread),
                         [](const auto& info) {
                           return info.param == StreamKind::per_thread ? std::string("per_thread")
                                                                       : text_of(info.param);
                         });

/// With one key, or two.
class Info {
 public:
  Info(const char* key, const std::string& value) {
    EXPECT_OK(MPI_Info_create(&info_));
    EXPECT_OK(MPI_Info_set(info_, key, value.c_str()));
  }
  ~Info() { EXPECT_OK(MPI_Info_free(&info_)); }
  Info(const Info&) = delete;
  Info& operator=(const Info&) = delete;
  MPI_Info get() const { return info_; }

 private:
  MPI_Info info_ = MPI_INFO_NULL;
};

/// What MPI_Comm_get_info says of the key; empty where it has none.
std::string stream_of(MPI_Comm comm) {
  MPI_Info info = MPI_INFO_NULL;
  char value[64] = "";
  int found = 0;
  EXPECT_OK(MPI_Comm_get_info(comm, &info));
  EXPECT_OK(MPI_Info_get(info, "partita_stream", sizeof value - 1, value, &found));
  EXPECT_OK(MPI_Info_free(&info));
  return found != 0 ? value : "";
}

TEST(StreamKey, a_value_that_names_no_stream_is_an_error_and_changes_nothing) {
  const Told told("legacy");
  const ErrorsReturn errors_return(told.comm());
  for (const char* const value : {"0", "0x", "0x0", "(nil)", "0xstream", "Legacy", "per_thread", " none", "0x12 "}) {
    const Info info("partita_stream", value);
    EXPECT_ERROR(MPI_Comm_set_info(told.comm(), info.get()), MPI_ERR_INFO_VALUE, "MPI_Comm_set_info",
                 "info key partita_stream is \"" + std::string(value) + "\"", "expected is none, legacy or per-thread");
    EXPECT_EQ(stream_of(told.comm()), "legacy") << value;
  }
}

TEST(StreamKey, a_misspelt_key_of_partitas_is_an_error) {
  const Told told;
  const ErrorsReturn errors_return(told.comm());
  const Info info("partita_steam", "legacy");
  EXPECT_ERROR(MPI_Comm_set_info(told.comm(), info.get()), MPI_ERR_INFO_KEY, "partita_steam", "partita_stream");
}

TEST(StreamKey, keys_of_requests_may_stand_beside_it) {
  const Told told;
  const Info info("partita_link", "direct");
  ASSERT_OK(MPI_Info_set(info.get(), "partita_stream", "legacy"));
  ASSERT_OK(MPI_Comm_set_info(told.comm(), info.get()));
  EXPECT_EQ(stream_of(told.comm()), "legacy");
}

TEST(StreamKey, other_keys_leave_it_as_it_is) {
  const Told told("per-thread");
  const Info info("mpi_assert_allow_overtaking", "false");
  ASSERT_OK(MPI_Comm_set_info(told.comm(), info.get()));
  EXPECT_EQ(stream_of(told.comm()), "per-thread");
}

TEST(StreamKey, a_duplicate_has_what_it_is_told_and_no_more) {
  const Told told("legacy");
  MPI_Comm plain = MPI_COMM_NULL;
  ASSERT_OK(MPI_Comm_dup(told.comm(), &plain));
  EXPECT_EQ(stream_of(plain), "");
  ASSERT_OK(MPI_Comm_free(&plain));

  const Info info("partita_stream", "0x2");
  MPI_Comm with_info = MPI_COMM_NULL;
  ASSERT_OK(MPI_Comm_dup_with_info(told.comm(), info.get(), &with_info));
  EXPECT_EQ(stream_of(with_info), "per-thread") << "CUDA's number of it";
  ASSERT_OK(MPI_Comm_free(&with_info));
#if MPI_VERSION >= 4
  MPI_Request request = MPI_REQUEST_NULL;
  ASSERT_OK(MPI_Comm_idup_with_info(told.comm(), info.get(), &with_info, &request));
  ASSERT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  EXPECT_EQ(stream_of(with_info), "per-thread");
  ASSERT_OK(MPI_Comm_free(&with_info));
#endif
}

/// The job was started with PARTITA_GPU_AWARE=off.
TEST(StreamKeyDisabled, is_an_error_where_the_mpi_makes_the_calls) {
  const ErrorsReturn errors_return(MPI_COMM_WORLD);
  const Info info("partita_stream", "legacy");
  EXPECT_ERROR(MPI_Comm_set_info(MPI_COMM_WORLD, info.get()), MPI_ERR_INFO_VALUE, "MPI_Comm_set_info", "partita_stream",
               "left to the MPI", "PARTITA_GPU_AWARE is off", "expected is PARTITA_GPU_AWARE=on");
  const Info none("partita_stream", "none");
  EXPECT_OK(MPI_Comm_set_info(MPI_COMM_WORLD, none.get()));
}

}  // namespace
}  // namespace partita::test
