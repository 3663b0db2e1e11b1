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
enum class Met { recv, irecv, any_source, any_tag, recv_init, probe, mprobe, iprobe_then_any };

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
      receive_one(wanted.from, wanted.tag);
    }
  }

  void receive_one(int from, int tag) {
    const auto met = static_cast<Met>(own_.integer(0, 7));
    step("receives from " + std::to_string(from) + " with tag " + std::to_string(tag) + " by way " +
         std::to_string(static_cast<int>(met)));
    const bool any_tag = met == Met::any_tag || met == Met::iprobe_then_any;
    const int source = met == Met::any_source ? MPI_ANY_SOURCE : from;
    const int wanted_tag = any_tag ? MPI_ANY_TAG : tag;
    const int room = most_ + own_.integer(0, 20);
    PlacedInts in(own_.one_in(2) ? Memory::gpu : Memory::host, Ints(static_cast<std::size_t>(room), -1));
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
        ASSERT_OK(MPI_Probe(source, wanted_tag, MPI_COMM_WORLD, &probed));
        was_probed = true;
        ASSERT_OK(MPI_Recv(in.data(), room, MPI_INT, probed.MPI_SOURCE, probed.MPI_TAG, MPI_COMM_WORLD, &status));
        break;
      case Met::mprobe:
        ASSERT_OK(MPI_Mprobe(source, wanted_tag, MPI_COMM_WORLD, &message, &probed));
        was_probed = true;
        ASSERT_OK(MPI_Mrecv(in.data(), room, MPI_INT, &message, &status));
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
