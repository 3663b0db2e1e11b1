// Random messages by every call of the MPI's, in GPU and host memory: their envelopes, lengths, order and bytes are
// those that the MPI itself has of the same messages in host memory. PARTITEST_SEED repeats a run.
#include <gtest/gtest.h>
#include <mpi.h>

#include <memory>
#include <string>
#include <vector>

#include "support/errors.hpp"
#include "support/placed_ints.hpp"
#include "support/random.hpp"

namespace partita::test {
namespace {

/// One message, as all ranks know it.
struct Sent {
  int from;
  int to;
  int tag;
  int count;
  bool on_gpu;
  enum class By { isend, issend, send_init } by;
};

/// How its receiver meets a message.
enum class Met {
  recv,
  irecv,
  any_source,
  any_tag,
  recv_init,
  probe,
  mprobe,
  iprobe_then_any,
  probe_of_any,
  improbe,
  cancelled,
  cancelled_late,
  truncated,
};
constexpr int ways_to_meet = 13;

/// Ints in the least that is an offer, where messages are offers: what is cut shorter leaves its sender waiting.
constexpr int least_room = 63;
constexpr int unused_tag = 77;

int value_in(int message, int i) {
  return message * 1'000'003 + i;
}

Ints content(int message, int count) {
  Ints values(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) values[static_cast<std::size_t>(i)] = value_in(message, i);
  return values;
}

class Messages {
 public:
  explicit Messages(std::uint64_t stream) : shared_(job_seed(), stream), own_(job_seed(), stream * 64 + 32 + rank()) {}

  /// Each rank sends and receives in its own order; receives of a pair and a tag meet in the order of the sends.
  void exchange() {
    draw();
    std::vector<MPI_Request> requests;
    std::vector<MPI_Request> persistent;
    for (int message = 0; message < static_cast<int>(all_.size()); ++message) {
      if (at(message).from == rank()) begin_send(message, requests, persistent);
    }
    receive_all();
    ASSERT_OK(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE));
    ASSERT_OK(MPI_Waitall(static_cast<int>(persistent.size()), persistent.data(), MPI_STATUSES_IGNORE));
    for (MPI_Request& request : persistent) ASSERT_OK(MPI_Request_free(&request));
  }

 private:
  static constexpr int tags = 3;

  void draw() {
    const int messages = shared_.integer(1, 24);
    for (int message = 0; message < messages; ++message) {
      const int count = shared_.one_in(3) ? shared_.integer(0, 80) : shared_.integer(0, 30'000);
      all_.push_back({shared_.integer(0, ranks() - 1), shared_.integer(0, ranks() - 1), shared_.integer(1, tags), count,
                      !shared_.one_in(3), static_cast<Sent::By>(shared_.integer(0, 2))});
    }
  }

  const Sent& at(int message) const { return all_[static_cast<std::size_t>(message)]; }

  /// Blocking ones would have to meet their receives at once.
  void begin_send(int message, std::vector<MPI_Request>& requests, std::vector<MPI_Request>& persistent) {
    const Sent& sent = at(message);
    outs_.push_back(
        std::make_unique<PlacedInts>(sent.on_gpu ? Memory::gpu : Memory::host, content(message, sent.count)));
    MPI_Request request = MPI_REQUEST_NULL;
    int* const data = outs_.back()->data();
    switch (sent.by) {
      case Sent::By::issend:
        ASSERT_OK(MPI_Issend(data, sent.count, MPI_INT, sent.to, sent.tag, MPI_COMM_WORLD, &request));
        break;
      case Sent::By::send_init:
        ASSERT_OK(MPI_Send_init(data, sent.count, MPI_INT, sent.to, sent.tag, MPI_COMM_WORLD, &request));
        ASSERT_OK(MPI_Start(&request));
        persistent.push_back(request);
        return;
      case Sent::By::isend:
        ASSERT_OK(MPI_Isend(data, sent.count, MPI_INT, sent.to, sent.tag, MPI_COMM_WORLD, &request));
    }
    if (own_.one_in(8) && sent.by != Sent::By::issend) {
      ASSERT_OK(MPI_Request_free(&request));
    } else {
      requests.push_back(request);
    }
  }

  /// The next message that comes from there with that tag, of those that nobody has received.
  int next_from(int source, int tag) const {
    for (int message = 0; message < static_cast<int>(all_.size()); ++message) {
      const Sent& sent = at(message);
      const bool fits = sent.to == rank() && sent.from == source && (tag == MPI_ANY_TAG || tag == sent.tag);
      if (fits && !received_[static_cast<std::size_t>(message)]) return message;
    }
    return -1;
  }

  void receive_all() {
    received_.assign(all_.size(), false);
    while (true) {
      std::vector<int> left;
      for (int message = 0; message < static_cast<int>(all_.size()); ++message) {
        if (at(message).to == rank() && !received_[static_cast<std::size_t>(message)]) left.push_back(message);
      }
      if (left.empty()) return;
      const Sent& wanted = at(own_.of(left));
      if (::testing::Test::HasFatalFailure()) return;
      receive_by(static_cast<Met>(own_.integer(0, ways_to_meet - 1)), wanted.from, wanted.tag);
    }
  }

  Memory some_memory() { return own_.one_in(2) ? Memory::gpu : Memory::host; }

  void receive_by(Met met, int from, int tag) {
    step("receives from " + std::to_string(from) + " with tag " + std::to_string(tag) + " by way " +
         std::to_string(static_cast<int>(met)));
    switch (met) {
      case Met::cancelled:
        find_nothing(from);
        return cancel(from, unused_tag);
      case Met::cancelled_late:
        return cancel(from, tag);
      case Met::truncated:
        return receive_too_little(from, tag);
      default:
        return receive_one(met, from, tag);
    }
  }

  /// No probe finds what nobody has sent.
  void find_nothing(int from) {
    int found = -1;
    ASSERT_OK(MPI_Iprobe(from, unused_tag, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE));
    EXPECT_EQ(found, 0);
    MPI_Message message = MPI_MESSAGE_NULL;
    ASSERT_OK(MPI_Improbe(MPI_ANY_SOURCE, unused_tag, MPI_COMM_WORLD, &found, &message, MPI_STATUS_IGNORE));
    EXPECT_EQ(found, 0);
  }

  /// A receive is either cancelled, and has left the message and its buffer, or has its message.
  void cancel(int from, int tag) {
    PlacedInts in(some_memory(), Ints(most_, -1));
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Status status{};
    int cancelled = -1;
    ASSERT_OK(MPI_Irecv(in.data(), most_, MPI_INT, from, tag, MPI_COMM_WORLD, &request));
    ASSERT_OK(MPI_Cancel(&request));
    ASSERT_OK(MPI_Wait(&request, &status));
    ASSERT_OK(MPI_Test_cancelled(&status, &cancelled));
    if (cancelled == 0) return expect_next(status, tag, nullptr, in, most_);
    EXPECT_EQ(in.get(), Ints(most_, -1));
  }

  /// A receive without room is an error, takes its message, and writes nothing behind its room.
  void receive_too_little(int from, int tag) {
    const int message = next_from(from, tag);
    const int count = at(message).count;
    // Open MPI does not tell that a message to oneself is too long.
    if (count <= least_room || from == rank()) return receive_one(Met::recv, from, tag);
    const int room = own_.integer(least_room, count - 1);
    PlacedInts in(some_memory(), Ints(most_, -1));
    const ErrorsReturn returned(MPI_COMM_WORLD);
    if (own_.one_in(2)) {
      EXPECT_EQ(class_of(MPI_Recv(in.data(), room, MPI_INT, from, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE)),
                MPI_ERR_TRUNCATE);
    } else {
      MPI_Request request = MPI_REQUEST_NULL;
      ASSERT_OK(MPI_Irecv(in.data(), room, MPI_INT, from, tag, MPI_COMM_WORLD, &request));
      EXPECT_EQ(class_of(MPI_Wait(&request, MPI_STATUS_IGNORE)), MPI_ERR_TRUNCATE);
      EXPECT_EQ(request, MPI_REQUEST_NULL);
    }
    const Ints all = in.get();
    EXPECT_EQ(Ints(all.begin() + room, all.end()), Ints(static_cast<std::size_t>(most_ - room), -1))
        << "behind room for " << room << " of message " << message << " of " << count;
    received_[static_cast<std::size_t>(message)] = true;
  }

  void receive_one(Met met, int from, int tag) {
    const bool any_tag = met == Met::any_tag || met == Met::iprobe_then_any || met == Met::probe_of_any;
    const int source = met == Met::any_source || met == Met::probe_of_any ? MPI_ANY_SOURCE : from;
    const int wanted_tag = any_tag ? MPI_ANY_TAG : tag;
    const int room = most_ + own_.integer(0, 20);
    PlacedInts in(some_memory(), Ints(static_cast<std::size_t>(room), -1));
    MPI_Status status{};
    MPI_Status probed{};
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Message message = MPI_MESSAGE_NULL;
    bool was_probed = false;
    int found = 0;
    switch (met) {
      case Met::irecv:
        ASSERT_OK(MPI_Irecv(in.data(), room, MPI_INT, source, wanted_tag, MPI_COMM_WORLD, &request));
        while (found == 0) ASSERT_OK(MPI_Test(&request, &found, &status));
        break;
      case Met::recv_init:
        ASSERT_OK(MPI_Recv_init(in.data(), room, MPI_INT, source, wanted_tag, MPI_COMM_WORLD, &request));
        ASSERT_OK(MPI_Start(&request));
        ASSERT_OK(MPI_Wait(&request, &status));
        ASSERT_OK(MPI_Request_free(&request));
        break;
      case Met::probe:
      case Met::probe_of_any:
        ASSERT_OK(MPI_Probe(source, wanted_tag, MPI_COMM_WORLD, &probed));
        was_probed = true;
        ASSERT_OK(MPI_Recv(in.data(), room, MPI_INT, probed.MPI_SOURCE, probed.MPI_TAG, MPI_COMM_WORLD, &status));
        break;
      case Met::mprobe:
        ASSERT_OK(MPI_Mprobe(source, wanted_tag, MPI_COMM_WORLD, &message, &probed));
        was_probed = true;
        ASSERT_OK(MPI_Mrecv(in.data(), room, MPI_INT, &message, &status));
        break;
      case Met::improbe:
        while (found == 0) ASSERT_OK(MPI_Improbe(source, wanted_tag, MPI_COMM_WORLD, &found, &message, &probed));
        was_probed = true;
        ASSERT_OK(MPI_Imrecv(in.data(), room, MPI_INT, &message, &request));
        ASSERT_OK(MPI_Wait(&request, &status));
        break;
      case Met::iprobe_then_any:
        // What is probed last need not be what comes first.
        while (found == 0) ASSERT_OK(MPI_Iprobe(from, tag, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE));
        [[fallthrough]];
      default:
        ASSERT_OK(MPI_Recv(in.data(), room, MPI_INT, source, wanted_tag, MPI_COMM_WORLD, &status));
    }
    expect_next(status, wanted_tag, was_probed ? &probed : nullptr, in, room);
  }

  void expect_next(const MPI_Status& status, int wanted_tag, const MPI_Status* probed, PlacedInts& in, int room) {
    const int expected = next_from(status.MPI_SOURCE, wanted_tag);
    ASSERT_GE(expected, 0) << "from " << status.MPI_SOURCE << " with tag " << status.MPI_TAG;
    const Sent& sent = at(expected);
    EXPECT_EQ(status.MPI_TAG, sent.tag);
    int count = -1;
    ASSERT_OK(MPI_Get_count(&status, MPI_INT, &count));
    EXPECT_EQ(count, sent.count);
    if (probed != nullptr) {
      ASSERT_OK(MPI_Get_count(probed, MPI_INT, &count));
      EXPECT_EQ(count, sent.count);
    }
    Ints all = content(expected, sent.count);
    all.resize(static_cast<std::size_t>(room), -1);
    EXPECT_EQ(in.get(), all) << "message " << expected << " of " << sent.count;
    received_[static_cast<std::size_t>(expected)] = true;
  }

  static constexpr int most_ = 30'000;
  Random shared_;
  Random own_;
  std::vector<Sent> all_;
  std::vector<bool> received_;
  std::vector<std::unique_ptr<PlacedInts>> outs_;
};

TEST(RandomMessages, have_the_mpis_envelopes_lengths_and_order) {
  const auto rounds = static_cast<int>(environment_number("PARTITEST_ITERATIONS", 60));
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    Messages messages(static_cast<std::uint64_t>(round));
    messages.exchange();
    harness_barrier();  // requests that were freed are complete
  }
}

}  // namespace
}  // namespace partita::test
