// Many epochs with flat memory.
#include <gtest/gtest.h>
#include <mpi.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "support/face.hpp"
#include "support/footprint.hpp"
#include "support/job.hpp"
#include "support/transfer.hpp"

namespace partita::test {
namespace {

/// The size of a partition in plain memory: where ranks of a node have cores for it, both copy (docs/design/link.md).
constexpr std::int64_t shared_copy_bytes = 512 * 1024;

template <class Face>
class Soak : public testing::Test {};
TYPED_TEST_SUITE(Soak, Faces, FaceNames);

TYPED_TEST(Soak, memory_stays_flat_over_many_epochs) {
  const long epochs = environment_number("PARTITEST_EPOCHS", 100000);
  const int right = (rank() + 1) % ranks(), left = (rank() + ranks() - 1) % ranks();
  struct Pair {
    int every;  ///< epochs
    Sending<TypeParam> send{};
    Receiving<TypeParam> recv{};
  };
  std::array<Pair, 3> pairs{{{1}, {100}, {500}}};
  pairs[0].send.init(8, 16, right, 1);
  pairs[0].recv.init(4, 32, left, 1);
  pairs[1].send.init(4, 40000, right, 2);
  pairs[1].recv.init(8, 20000, left, 2);
  pairs[2].send.init(2, shared_copy_bytes, right, 3);
  pairs[2].recv.init(2, shared_copy_bytes, left, 3);
  RETURN_IF_FAILED();
  std::optional<Footprint> warm;
  for (long epoch = 0; epoch < epochs; ++epoch) {
    if (epoch == epochs / 5) warm.emplace();
    if (epoch % 1000 == 0) step("epoch " + std::to_string(epoch));
    const auto key = static_cast<std::uint64_t>(epoch);
    const auto of_this_epoch = [&](auto action) {
      for (Pair& pair : pairs) {
        if (epoch % pair.every == 0) action(pair);
      }
    };
    of_this_epoch([](Pair& pair) { pair.recv.start(); });
    of_this_epoch([](Pair& pair) { pair.send.start(); });
    of_this_epoch([&](Pair& pair) { pair.send.mark_all(key); });
    of_this_epoch([&](Pair& pair) { pair.recv.wait_for(key); });
    of_this_epoch([](Pair& pair) { pair.send.wait(); });
    if (this->HasFailure()) return;
  }
  expect_flat(warm.value(), std::to_string(epochs * 4 / 5) + " epochs");
  for (Pair& pair : pairs) {
    pair.send.free();
    pair.recv.free();
  }
}

/// Epochs that a queue of the host starts and awaits: messages of each mode, partitions and a collective.
TEST(SoakOfQueues, memory_stays_flat_over_many_epochs) {
  const long epochs = environment_number("PARTITEST_EPOCHS", 100000);
  const int right = (rank() + 1) % ranks(), left = (rank() + ranks() - 1) % ranks();
  std::array<int, 16> out{}, in{}, synchronous_in{}, buffered_in{}, sums{}, parts_in{};
  std::array<Partita_Request, 9> requests{};
  const auto receive = [&](int tag, std::array<int, 16>& into, Partita_Request& made) {
    ASSERT_EQ(MPI_SUCCESS, Partita_Recv_init(into.data(), 16, MPI_INT, left, tag, MPI_COMM_WORLD, &made));
  };
  receive(1, in, requests[0]);
  receive(2, synchronous_in, requests[1]);
  receive(3, buffered_in, requests[2]);
  ASSERT_EQ(MPI_SUCCESS, Partita_Send_init(out.data(), 16, MPI_INT, right, 1, MPI_COMM_WORLD, &requests[3]));
  ASSERT_EQ(MPI_SUCCESS, Partita_Ssend_init(out.data(), 16, MPI_INT, right, 2, MPI_COMM_WORLD, &requests[4]));
  ASSERT_EQ(MPI_SUCCESS, Partita_Bsend_init(out.data(), 16, MPI_INT, right, 3, MPI_COMM_WORLD, &requests[5]));
  ASSERT_EQ(MPI_SUCCESS,
            Partita_Precv_init(parts_in.data(), 2, 8, MPI_INT, left, 4, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[6]));
  ASSERT_EQ(MPI_SUCCESS,
            Partita_Psend_init(out.data(), 4, 4, MPI_INT, right, 4, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[7]));
  ASSERT_EQ(MPI_SUCCESS, Partita_Allreduce_init(out.data(), sums.data(), 16, MPI_INT, MPI_SUM, MPI_COMM_WORLD,
                                                MPI_INFO_NULL, &requests[8]));
  ASSERT_EQ(MPI_SUCCESS, Partita_Matchall(9, requests.data()));
  Partita_Queue queue = PARTITA_QUEUE_NULL;
  ASSERT_EQ(MPI_SUCCESS, Partita_Queue_init(&queue, PARTITA_QUEUE_HOST, nullptr));
  constexpr long every = 10;  // epochs have all of them, the others a message alone
  std::optional<Footprint> warm;
  for (long epoch = 0; epoch < epochs; ++epoch) {
    if (epoch == epochs / 5) warm.emplace();
    if (epoch % 1000 == 0) step("epoch " + std::to_string(epoch));
    const int value = static_cast<int>(epoch);
    out.fill(value + rank());
    const bool has_all = epoch % every == 0;
    if (has_all) {
      ASSERT_EQ(MPI_SUCCESS, Partita_Enqueue_startall(queue, 9, requests.data()));
      ASSERT_EQ(MPI_SUCCESS, Partita_Pready_range(0, 3, requests[7]));
      ASSERT_EQ(MPI_SUCCESS, Partita_Enqueue_waitall(queue, 9, requests.data()));
    } else {
      for (const int which : {0, 3}) ASSERT_EQ(MPI_SUCCESS, Partita_Enqueue_start(queue, &requests[which]));
      for (const int which : {0, 3}) ASSERT_EQ(MPI_SUCCESS, Partita_Enqueue_wait(queue, &requests[which]));
    }
    ASSERT_EQ(MPI_SUCCESS, Partita_Queue_wait(queue));
    ASSERT_EQ(value + left, in[15]);
    if (!has_all) continue;
    for (const auto* const each : {&synchronous_in, &buffered_in, &parts_in}) ASSERT_EQ(value + left, (*each)[15]);
    ASSERT_EQ(ranks() * value + ranks() * (ranks() - 1) / 2, sums[15]);
  }
  expect_flat(warm.value(), std::to_string(epochs * 4 / 5) + " epochs");
  ASSERT_EQ(MPI_SUCCESS, Partita_Queue_free(&queue));
  for (Partita_Request& each : requests) ASSERT_EQ(MPI_SUCCESS, Partita_Request_free(&each));
}

/// What stays of a tag is the count of its requests, each way.
TEST(SoakOfTags, a_used_tag_keeps_a_few_bytes) {
  constexpr long most_bytes = 2 * 24;
  const long tags = environment_number("PARTITEST_EPOCHS", 100000);
  const long first_tags = tags / 10;
  const int other = 1 - rank();
  std::optional<Footprint> warm;
  for (long tag = 0; tag < first_tags + tags; ++tag) {
    if (tag == first_tags) warm.emplace();
    if (tag % 1000 == 0) step("tag " + std::to_string(tag));
    Sending<CFace> send;
    Receiving<CFace> recv;
    send.init(1, 64, other, static_cast<int>(tag));
    recv.init(1, 64, other, static_cast<int>(tag));
    recv.start();
    send.start();
    send.mark_all(1);
    recv.wait_for(1);
    send.wait();
    send.free();
    recv.free();
    RETURN_IF_FAILED();
  }
  const long grown_kib = Footprint().own_kib - warm->own_kib;
  EXPECT_LE(grown_kib, tags * most_bytes / 1024 + allowed_growth_kib)
      << "private memory grew by " << grown_kib * 1024 / tags << " bytes a tag over " << tags << " tags each way";
}

TYPED_TEST(Soak, memory_stays_flat_over_many_requests) {
  const long rounds = environment_number("PARTITEST_EPOCHS", 100000) / 20;
  const int right = (rank() + 1) % ranks(), left = (rank() + ranks() - 1) % ranks();
  std::optional<Footprint> warm;
  for (long round = 0; round < rounds; ++round) {
    if (round == rounds / 2) warm.emplace();
    if (round % 100 == 0) step("round " + std::to_string(round));
    Sending<TypeParam> send;
    Receiving<TypeParam> recv;
    const std::int64_t partition_bytes = round % 50 == 0 ? shared_copy_bytes : round % 2 == 0 ? 64 : 50000;
    send.init(2, partition_bytes, right, 3);
    recv.init(2, partition_bytes, left, 3);
    recv.start();
    send.start();
    send.mark_all(1);
    recv.wait_for(1);
    send.wait();
    send.free();
    recv.free();
    if (this->HasFailure()) return;
  }
  expect_flat(warm.value(), std::to_string(rounds / 2) + " requests each way");
}

}  // namespace
}  // namespace partita::test
