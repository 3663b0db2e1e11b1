// Transfers of the library's own beside the program's requests, and what they know of communicators: collectives and
// queues build on both.
#include <gtest/gtest.h>
#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>
#include <vector>

#include "capi/state.hpp"
#include "support/face.hpp"
#include "support/job.hpp"
#include "support/party.hpp"
#include "support/pattern.hpp"
#include "support/transfer.hpp"

namespace partita::test {
namespace {

constexpr int ring_tag = 3;
constexpr std::int32_t ring_partitions = 4;
constexpr std::int64_t ring_partition_bytes = 3000;
constexpr std::int64_t ring_bytes = ring_partitions * ring_partition_bytes;

/// Around a ring of all ranks, everything with one tag.
class InternalTransfers : public testing::Test {
 protected:
  int right() const { return (rank() + 1) % ranks(); }
  int left() const { return (rank() + ranks() - 1) % ranks(); }
  HalfTerms terms(Side side, Space space) const {
    HalfTerms terms;
    terms.side = side;
    terms.peer = side == Side::send ? right() : left();
    terms.space = space;
    terms.communicator = runtime_.communicators.find(MPI_COMM_WORLD);
    terms.tag = ring_tag;
    terms.shape = {{ring_partitions, ring_bytes}, 0, 0};
    terms.link = runtime_.settings.link;
    return terms;
  }
  /// Its place in the order comes when it is added.
  template <class Kind>
  std::shared_ptr<Party<Kind>> make(Space space) const {
    constexpr Side side = std::is_same_v<Kind, Outgoing> ? Side::send : Side::recv;
    return std::make_shared<Party<Kind>>(runtime_.services, terms(side, space));
  }
  template <class Kind>
  std::shared_ptr<Party<Kind>> add(std::shared_ptr<Party<Kind>> party) const {
    runtime_.matcher.add(party->half);
    return party;
  }
  std::shared_ptr<SendParty> send(Space space) const { return add(make<Outgoing>(space)); }
  std::shared_ptr<RecvParty> recv(Space space) const { return add(make<Incoming>(space)); }
  template <class Kind>
  void free(std::shared_ptr<Party<Kind>>& party) const {
    party->half.set_active(false);
    Half* half = &party->half;
    runtime_.matcher.free(std::shared_ptr<Half>(std::move(party), half));
  }

  template <class Condition>
  void await(const char* what, Condition condition) const {
    step(what);
    while (!condition()) {
      runtime_.progress.poll();
      sched_yield();
    }
  }
  /// One epoch from `from` to the right, whose bytes are `key`'s, and from the left into `to`.
  void exchange(SendParty& from, RecvParty& to, std::uint64_t key) const {
    await("the match of an internal transfer", [&] { return from.half.matched() && to.half.matched(); });
    write_pattern(from.buffer.data(), key, 0, ring_bytes);
    from.start();
    to.start();
    from.half.submit({0, from.half.plan().transport_partitions()});
    await("the arrival of an internal transfer", [&] {
      from.half.flush();
      return to.half.all_arrived() && from.half.all_finished();
    });
    if (to.half.landing() != to.buffer.data()) std::copy_n(to.half.landing(), ring_bytes, to.buffer.data());
    EXPECT_EQ(first_off_pattern(to.buffer.data(), key, 0, ring_bytes), ring_bytes);
    from.half.set_active(false);
    to.half.set_active(false);
  }

  Runtime& runtime_ = capi::runtime();
};

TEST_F(InternalTransfers, do_not_shift_the_order_of_the_programs_requests) {
  Sending<CFace> send_first, send_second;
  Receiving<CFace> recv_first, recv_second;
  // Between the sends here, behind the receives at the other end.
  send_first.init(ring_partitions, ring_partition_bytes, right(), ring_tag);
  auto collective_send = send(Space::collective);
  auto queue_send = send(Space::queue);
  send_second.init(ring_partitions, ring_partition_bytes, right(), ring_tag);
  recv_first.init(ring_partitions, ring_partition_bytes, left(), ring_tag);
  recv_second.init(ring_partitions, ring_partition_bytes, left(), ring_tag);
  auto queue_recv = recv(Space::queue);
  auto collective_recv = recv(Space::collective);
  RETURN_IF_FAILED();

  for (std::uint64_t round = 0; round < 3; ++round) {
    recv_first.start();
    recv_second.start();
    send_second.start();
    send_second.mark_all(4 * round + 2);
    send_first.start();
    send_first.mark_all(4 * round + 1);
    exchange(*collective_send, *collective_recv, 4 * round + 3);
    exchange(*queue_send, *queue_recv, 4 * round + 4);
    recv_first.wait_for(4 * round + 1);
    recv_second.wait_for(4 * round + 2);
    send_first.wait();
    send_second.wait();
    RETURN_IF_FAILED();
  }
  for (auto* request : {&send_first, &send_second}) request->free();
  for (auto* request : {&recv_first, &recv_second}) request->free();
  free(collective_send);
  free(queue_recv);
  free(collective_recv);
  free(queue_send);
}

TEST_F(InternalTransfers, made_early_and_added_late_take_the_later_place) {
  auto late_send = make<Outgoing>(Space::queue);
  auto early_send = send(Space::queue);
  auto early_recv = recv(Space::queue);
  auto late_recv = recv(Space::queue);
  harness_barrier();
  add(late_send);
  exchange(*early_send, *early_recv, 1);
  exchange(*late_send, *late_recv, 2);
  free(early_send);
  free(late_send);
  free(early_recv);
  free(late_recv);
}

/// The communicator's record; without the drop-in it has to be registered.
std::shared_ptr<Communicator> registered(MPI_Comm comm) {
  EXPECT_EQ(Partita_Comm_register(comm), MPI_SUCCESS);
  return capi::runtime().communicators.find(comm);
}

class CommunicatorGroups : public testing::Test {
 protected:
  const World& world_ = capi::runtime().world;
};

TEST_F(CommunicatorGroups, are_known_by_world_ranks) {
  std::vector<int> all(static_cast<std::size_t>(ranks()));
  std::iota(all.begin(), all.end(), 0);
  const auto world = capi::runtime().communicators.find(MPI_COMM_WORLD);
  EXPECT_EQ(world->members(world_), all);
  EXPECT_EQ(world->peers(world_), all);
  EXPECT_EQ(capi::runtime().communicators.find(MPI_COMM_SELF)->members(world_), std::vector{rank()});

  MPI_Comm reversed = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, 0, -rank(), &reversed);
  const auto record = registered(reversed);
  std::reverse(all.begin(), all.end());
  EXPECT_EQ(record->members(world_), all);
  MPI_Comm_free(&reversed);
  EXPECT_EQ(record->members(world_), all) << "they outlive the communicator";
}

TEST_F(CommunicatorGroups, of_an_intercommunicator_are_its_own_and_the_remote_one) {
  if (ranks() < 2) return;
  const int half = ranks() / 2;
  const bool first = rank() < half;
  MPI_Comm own = MPI_COMM_NULL;
  MPI_Comm inter = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, first ? 0 : 1, 0, &own);
  MPI_Intercomm_create(own, 0, MPI_COMM_WORLD, first ? half : 0, 1, &inter);
  const auto record = registered(inter);
  std::vector<int> lower(static_cast<std::size_t>(half));
  std::vector<int> upper(static_cast<std::size_t>(ranks() - half));
  std::iota(lower.begin(), lower.end(), 0);
  std::iota(upper.begin(), upper.end(), half);
  EXPECT_EQ(record->members(world_), first ? lower : upper);
  EXPECT_EQ(record->peers(world_), first ? upper : lower);
  MPI_Comm_free(&inter);
  MPI_Comm_free(&own);
}

}  // namespace
}  // namespace partita::test
