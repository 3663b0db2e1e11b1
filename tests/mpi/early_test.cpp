// True early-bird transfer: what is marked arrives while the sender holds the rest back. An implementation that sends
// when all partitions are marked hangs here, and the watchdog says so.
#include <gtest/gtest.h>
#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "support/face.hpp"
#include "support/job.hpp"
#include "support/random.hpp"
#include "support/transfer.hpp"

namespace partita::test {
namespace {

constexpr int ack_tag = 900;

/// Sizes below and above what travels through slots on a node.
struct Shape {
  int send_partitions;
  int recv_partitions;
  std::int64_t total_bytes;
};
const std::vector<Shape> shapes = {{8, 8, 8 * 256 * 1024}, {8, 4, 8 * 256 * 1024}, {4, 8, 8 * 256 * 1024},
                                   {6, 4, 6 * 40 * 1024},  {8, 8, 8 * 128},        {12, 5, 60 * 16}};

bool over_link(const std::string& name) {
  const char* const link = std::getenv("PARTITA_LINK");
  return link != nullptr && link == name;
}

template <class Face>
class Early : public testing::Test {
 protected:
  void SetUp() override {
    job_seed();  // collective at first, and only two of the ranks come to use it
    if (ranks() < 2) GTEST_SKIP() << "needs a sender and a receiver";
  }

  static void send_ack() { ASSERT_EQ(MPI_Send(nullptr, 0, MPI_BYTE, 0, ack_tag, MPI_COMM_WORLD), MPI_SUCCESS); }
  static void await_ack(const std::string& of) {
    step("the sender holds the rest back until the receiver acknowledges " + of);
    ASSERT_EQ(MPI_Recv(nullptr, 0, MPI_BYTE, 1, ack_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_SUCCESS);
  }

  /// Receive partitions that are whole once the send partitions in `marked` are; none of the earlier ones again.
  static std::vector<int> newly_whole(const Shape& shape, const std::vector<bool>& marked, std::vector<bool>& told) {
    std::vector<int> whole;
    for (std::int64_t r = 0; r < shape.recv_partitions; ++r) {
      const auto first = r * shape.send_partitions / shape.recv_partitions;
      const auto last = ((r + 1) * shape.send_partitions - 1) / shape.recv_partitions;
      const bool is_whole = std::all_of(marked.begin() + first, marked.begin() + last + 1, [](bool m) { return m; });
      if (is_whole && !told[static_cast<std::size_t>(r)]) whole.push_back(static_cast<int>(r));
      if (is_whole) told[static_cast<std::size_t>(r)] = true;
    }
    return whole;
  }

  /// Marks the partitions one after another in `order`; goes on only when the receiver has seen what became whole.
  void hold_back(const Shape& shape, const std::vector<int>& order, std::uint64_t key, Sending<Face>& send,
                 Receiving<Face>& recv) {
    std::vector<bool> marked(static_cast<std::size_t>(shape.send_partitions)), told(marked.size() + 64);
    for (const int s : order) {
      marked[static_cast<std::size_t>(s)] = true;
      const auto whole = newly_whole(shape, marked, told);
      if (rank() == 0) {
        send.mark(s, key);
        RETURN_IF_FAILED();
        if (!whole.empty()) await_ack("send partition " + std::to_string(s));
      } else {
        for (const int r : whole) recv.await(r, key);
        RETURN_IF_FAILED();
        if (whole.empty()) continue;  // the sender goes on without an acknowledgement
        expect_others_not_arrived(recv, told);
        send_ack();
      }
    }
  }

  static void expect_others_not_arrived(Receiving<Face>& recv, const std::vector<bool>& told) {
    for (int r = 0; r < recv.partitions(); ++r) {
      if (told[static_cast<std::size_t>(r)]) continue;
      EXPECT_FALSE(recv.arrived(r)) << "receive partition " << r << " before all of its send partitions were marked";
    }
  }

  void run(const Shape& shape, int epochs, bool receiver_starts_late) {
    SCOPED_TRACE(std::to_string(shape.send_partitions) + " to " + std::to_string(shape.recv_partitions) +
                 " partitions, " + std::to_string(shape.total_bytes) + " bytes");
    Sending<Face> send;
    Receiving<Face> recv;
    MPI_Info info = info_with("partita_transport_partitions", std::to_string(shape.send_partitions));
    if (rank() == 0) {
      send.init(shape.send_partitions, shape.total_bytes / shape.send_partitions, 1, 3, MPI_COMM_WORLD, info);
    } else {
      recv.init(shape.recv_partitions, shape.total_bytes / shape.recv_partitions, 0, 3);
    }
    MPI_Info_free(&info);
    Random random(job_seed());
    for (int epoch = 1; epoch <= epochs; ++epoch) {
      const auto order = random.permutation(shape.send_partitions);
      if (rank() == 0) send.start();
      if (rank() == 1 && receiver_starts_late) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      if (rank() == 1) recv.start();
      RETURN_IF_FAILED();
      hold_back(shape, order, static_cast<std::uint64_t>(epoch), send, recv);
      RETURN_IF_FAILED();
      if (rank() == 0) send.wait();
      if (rank() == 1) recv.wait_for(static_cast<std::uint64_t>(epoch));
      RETURN_IF_FAILED();
    }
    if (rank() == 0) send.free();
    if (rank() == 1) recv.free();
  }
};

TYPED_TEST_SUITE(Early, Faces, FaceNames);

TYPED_TEST(Early, each_partition_arrives_while_the_sender_holds_the_others_back) {
  for (const auto& shape : shapes) {
    if (rank() < 2) this->run(shape, 3, false);
    RETURN_IF_FAILED();
  }
}

TYPED_TEST(Early, what_was_marked_before_the_receiver_started_arrives_once_it_starts) {
  for (const auto& shape : shapes) {
    if (rank() < 2) this->run(shape, 3, true);
    RETURN_IF_FAILED();
  }
}

/// By default, whatever the size, and however the epochs before went.
TYPED_TEST(Early, partitions_from_1_KiB_leave_alone_without_being_asked_to) {
  constexpr int partitions = 8;
  if (rank() > 1) return;
  for (const std::int64_t partition_bytes : {1024, 4096, 24 * 1024, 80 * 1024, 256 * 1024, 512 * 1024, 1024 * 1024}) {
    SCOPED_TRACE(std::to_string(partition_bytes) + " bytes a partition");
    Sending<TypeParam> send;
    Receiving<TypeParam> recv;
    const Shape shape{partitions, partitions, partitions * partition_bytes};
    if (rank() == 0) send.init(partitions, partition_bytes, 1, 6, MPI_COMM_WORLD);
    if (rank() == 1) recv.init(partitions, partition_bytes, 0, 6);
    Random random(job_seed());
    const int epochs = partition_bytes > 512 * 1024 ? 15 : 45;  // more bytes take longer
    for (int epoch = 1; epoch <= epochs; ++epoch) {
      const auto key = static_cast<std::uint64_t>(epoch);
      const auto order = random.permutation(partitions);
      if (rank() == 0) send.start();
      if (rank() == 1) recv.start();
      RETURN_IF_FAILED();
      // The marks of most epochs come together, which a request may get used to.
      if (epoch == 1 || epoch == 2 || epoch % 15 == 0) {
        this->hold_back(shape, order, key, send, recv);
      } else if (rank() == 0) {
        for (const int p : order) send.mark(p, key);
      }
      RETURN_IF_FAILED();
      if (rank() == 0) send.wait();
      if (rank() == 1) recv.wait_for(key);
      RETURN_IF_FAILED();
    }
    if (rank() == 0) send.free();
    if (rank() == 1) recv.free();
  }
}

/// However the epochs before went, and whoever makes progress: once the receiver has started, the sender waits past
/// Partita for what it has marked to arrive.
TYPED_TEST(Early, what_is_marked_arrives_without_another_call_of_the_sender) {
  constexpr int partitions = 8;
  if (over_link("ucx")) GTEST_SKIP() << "UCX may need the sender's steps";
  if (ranks() != 2) GTEST_SKIP() << "needs a sender and a receiver alone";
  Sending<TypeParam> send;
  Receiving<TypeParam> recv;
  if (rank() == 0) send.init(partitions, 1024, 1, 8, MPI_COMM_WORLD);
  if (rank() == 1) recv.init(partitions, 1024, 0, 8);
  for (int epoch = 1; epoch <= 45; ++epoch) {
    const auto key = static_cast<std::uint64_t>(epoch);
    if (rank() == 0) send.start();
    if (rank() == 1) recv.start();
    RETURN_IF_FAILED();
    harness_barrier();
    for (int p = 0; p < partitions; ++p) {
      if (rank() == 0) send.mark(p, key);
      RETURN_IF_FAILED();
      if (epoch % 15 != 0) continue;
      if (rank() == 1) recv.await(p, key);
      RETURN_IF_FAILED();
      harness_barrier();
    }
    if (rank() == 0) send.wait();
    if (rank() == 1) recv.wait_for(key);
    RETURN_IF_FAILED();
  }
  if (rank() == 0) send.free();
  if (rank() == 1) recv.free();
}

TYPED_TEST(Early, a_transport_partition_leaves_when_it_is_complete) {
  if (rank() > 1) return;
  for (const std::int64_t partition_bytes : {64, 64 * 1024}) {
    Sending<TypeParam> send;
    Receiving<TypeParam> recv;
    MPI_Info info = info_with("partita_transport_partitions", "2");
    if (rank() == 0) {
      send.init(8, partition_bytes, 1, 4, MPI_COMM_WORLD, info);
      send.start();
      RETURN_IF_FAILED();
      for (const int s : {7, 5, 4, 6}) send.mark(s, 9);
      this->await_ack("the second half");
      for (const int s : {2, 0, 3, 1}) send.mark(s, 9);
      send.wait();
      send.free();
    } else {
      recv.init(8, partition_bytes, 0, 4);
      recv.start();
      RETURN_IF_FAILED();
      for (const int r : {4, 5, 6, 7}) recv.await(r, 9);
      for (const int r : {0, 1, 2, 3}) EXPECT_FALSE(recv.arrived(r)) << "partition " << r << " is not marked";
      this->send_ack();
      recv.wait_for(9);
      recv.free();
    }
    MPI_Info_free(&info);
  }
}

/// By default, too: eight of these make 4 KiB.
TYPED_TEST(Early, small_partitions_share_what_arrives_while_the_others_are_held_back) {
  constexpr int partitions = 16;
  constexpr std::int64_t partition_bytes = 512;
  if (rank() > 1) return;
  Sending<TypeParam> send;
  Receiving<TypeParam> recv;
  if (rank() == 0) send.init(partitions, partition_bytes, 1, 7, MPI_COMM_WORLD);
  if (rank() == 1) recv.init(partitions, partition_bytes, 0, 7);
  for (std::uint64_t key = 1; key <= 3; ++key) {
    if (rank() == 0) {
      send.start();
      RETURN_IF_FAILED();
      for (int s = 0; s < partitions / 2; ++s) send.mark(s, key);
      this->await_ack("the first 4 KiB");
      for (int s = partitions / 2; s < partitions; ++s) send.mark(s, key);
      send.wait();
    } else {
      recv.start();
      RETURN_IF_FAILED();
      for (int r = 0; r < partitions / 2; ++r) recv.await(r, key);
      for (int r = partitions / 2; r < partitions; ++r) EXPECT_FALSE(recv.arrived(r)) << "partition " << r;
      this->send_ack();
      recv.wait_for(key);
    }
    RETURN_IF_FAILED();
  }
  if (rank() == 0) send.free();
  if (rank() == 1) recv.free();
}

TYPED_TEST(Early, arrival_is_seen_by_parrived_alone_and_in_one_process_too) {
  Sending<TypeParam> send;
  Receiving<TypeParam> recv;
  MPI_Info info = info_with("partita_transport_partitions", "4");
  for (const std::int64_t partition_bytes : {16, 128 * 1024}) {
    send.init(4, partition_bytes, rank(), 5, MPI_COMM_WORLD, info);
    recv.init(4, partition_bytes, rank(), 5);
    RETURN_IF_FAILED();
    for (std::uint64_t key = 1; key <= 3; ++key) {
      send.start();
      recv.start();
      RETURN_IF_FAILED();
      for (const int p : {2, 0, 3, 1}) {
        EXPECT_FALSE(recv.arrived(p));
        send.mark(p, key);
        recv.await(p, key);
        RETURN_IF_FAILED();
      }
      send.wait();
      recv.wait_for(key);
      RETURN_IF_FAILED();
    }
    send.free();
    recv.free();
  }
  MPI_Info_free(&info);
}

}  // namespace
}  // namespace partita::test
