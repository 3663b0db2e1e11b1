// Requests on communicators of every constructor: they match on their own communicator alone.
#include <gtest/gtest.h>
#include <mpi.h>

#include <functional>
#include <string>
#include <vector>

#include "support/face.hpp"
#include "support/job.hpp"
#include "support/transfer.hpp"

namespace partita::test {
namespace {

template <class Face>
class Communicators : public testing::Test {
 protected:
  /// Around the ring of `comm`, twice; nothing for a rank that is not in it.
  void exchange(MPI_Comm comm, std::uint64_t key) {
    if (comm == MPI_COMM_NULL) return;
    int own = 0, size = 0;
    MPI_Comm_rank(comm, &own);
    MPI_Comm_size(comm, &size);
    exchange_with(comm, (own + 1) % size, (own + size - 1) % size, key + static_cast<std::uint64_t>(own),
                  key + static_cast<std::uint64_t>((own + size - 1) % size));
  }

  void exchange_with(MPI_Comm comm, int to, int from, std::uint64_t send_key, std::uint64_t recv_key) {
    Sending<Face> send;
    Receiving<Face> recv;
    send.init(4, 200, to, 3, comm);
    recv.init(2, 400, from, 3, comm);
    RETURN_IF_FAILED();
    for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
      recv.start();
      send.start();
      send.mark_all(send_key + 1000 * epoch);
      recv.wait_for(recv_key + 1000 * epoch);
      send.wait();
      RETURN_IF_FAILED();
    }
    send.free();
    recv.free();
  }

  /// Makes, uses and frees a communicator, several times.
  void use(const std::string& how, const std::function<MPI_Comm()>& make) {
    for (std::uint64_t round = 0; round < 3; ++round) {
      step(how + ", round " + std::to_string(round));
      SCOPED_TRACE(how);
      MPI_Comm comm = make();
      exchange(comm, 10 * round);
      if (comm != MPI_COMM_NULL) MPI_Comm_free(&comm);
      RETURN_IF_FAILED();
    }
  }

  /// Halves of the world: the first `ranks() / 2`, and the others.
  bool in_first_half() const { return rank() < ranks() / 2; }
};

TYPED_TEST_SUITE(Communicators, Faces, FaceNames);

TYPED_TEST(Communicators, every_constructor_over_one_parent_makes_a_usable_communicator) {
  this->use("dup", [] {
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    return comm;
  });
  this->use("dup_with_info", [] {
    MPI_Comm comm;
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, MPI_INFO_NULL, &comm);
    return comm;
  });
  this->use("idup", [] {
    MPI_Comm comm;
    MPI_Request request;
    MPI_Comm_idup(MPI_COMM_WORLD, &comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return comm;
  });
  this->use("split, ranks reversed", [] {
    MPI_Comm comm;
    MPI_Comm_split(MPI_COMM_WORLD, rank() % 2, -rank(), &comm);
    return comm;
  });
  this->use("split with MPI_UNDEFINED", [] {
    MPI_Comm comm;
    MPI_Comm_split(MPI_COMM_WORLD, rank() == 0 ? MPI_UNDEFINED : 0, 0, &comm);
    return comm;
  });
  this->use("split_type", [] {
    MPI_Comm comm;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &comm);
    return comm;
  });
  this->use("create", [] {
    MPI_Comm comm;
    MPI_Group world, part;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    const int excluded = ranks() - 1;
    MPI_Group_excl(world, ranks() > 1 ? 1 : 0, &excluded, &part);
    MPI_Comm_create(MPI_COMM_WORLD, part, &comm);
    MPI_Group_free(&part);
    MPI_Group_free(&world);
    return comm;
  });
  this->use("cart_create, periodic and reordered", [] {
    MPI_Comm comm;
    const int dims[1] = {ranks()}, periods[1] = {1};
    MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 1, &comm);
    return comm;
  });
  this->use("cart_sub of cart_create", [] {
    MPI_Comm grid, line;
    const int dims[2] = {1, ranks()}, periods[2] = {0, 1}, remain[2] = {0, 1};
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &grid);
    MPI_Cart_sub(grid, remain, &line);
    MPI_Comm_free(&grid);
    return line;
  });
  this->use("dist_graph_create_adjacent", [] {
    MPI_Comm comm;
    const int to = (rank() + 1) % ranks(), from = (rank() + ranks() - 1) % ranks();
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &from, MPI_UNWEIGHTED, 1, &to, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                   &comm);
    return comm;
  });
}

TYPED_TEST(Communicators, create_group_makes_one_over_a_part_of_the_ranks) {
  this->use("create_group", []() -> MPI_Comm {
    if (rank() == ranks() - 1 && ranks() > 1) return MPI_COMM_NULL;  // takes no part in the call either
    MPI_Comm comm;
    MPI_Group world, part;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    const int excluded = ranks() - 1;
    MPI_Group_excl(world, ranks() > 1 ? 1 : 0, &excluded, &part);
    MPI_Comm_create_group(MPI_COMM_WORLD, part, 12, &comm);
    MPI_Group_free(&part);
    MPI_Group_free(&world);
    return comm;
  });
}

TYPED_TEST(Communicators, communicators_of_communicators_keep_apart) {
  MPI_Comm first, second, nested;
  MPI_Comm_dup(MPI_COMM_WORLD, &first);
  MPI_Comm_dup(first, &second);
  MPI_Comm_split(second, 0, rank(), &nested);
  const std::vector<MPI_Comm> comms = {nested, MPI_COMM_WORLD, second, first};
  std::vector<Sending<TypeParam>> sends(comms.size());
  std::vector<Receiving<TypeParam>> recvs(comms.size());
  const int right = (rank() + 1) % ranks(), left = (rank() + ranks() - 1) % ranks();
  // All of them use one rank and tag; sends are made in one order and receives in the other.
  for (std::size_t i = 0; i < comms.size(); ++i) sends[i].init(2, 50, right, 3, comms[i]);
  for (std::size_t i = comms.size(); i-- > 0;) recvs[i].init(2, 50, left, 3, comms[i]);
  RETURN_IF_FAILED();
  for (auto& recv : recvs) recv.start();
  for (auto& send : sends) send.start();
  for (std::size_t i = 0; i < comms.size(); ++i) sends[i].mark_all(i + 40);
  for (std::size_t i = 0; i < comms.size(); ++i) recvs[i].wait_for(i + 40);
  for (auto& send : sends) send.wait();
  RETURN_IF_FAILED();
  for (auto& send : sends) send.free();
  for (auto& recv : recvs) recv.free();
  MPI_Comm_free(&nested);
  MPI_Comm_free(&second);
  MPI_Comm_free(&first);
}

TYPED_TEST(Communicators, a_communicator_may_be_freed_before_its_requests_end) {
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  Sending<TypeParam> send;
  Receiving<TypeParam> recv;
  send.init(2, 50, (rank() + 1) % ranks(), 3, comm);
  recv.init(2, 50, (rank() + ranks() - 1) % ranks(), 3, comm);
  MPI_Comm_free(&comm);
  RETURN_IF_FAILED();
  for (std::uint64_t key = 1; key < 4; ++key) {
    recv.start();
    send.start();
    send.mark_all(key);
    recv.wait_for(key);
    send.wait();
    RETURN_IF_FAILED();
  }
  send.free();
  recv.free();
}

TYPED_TEST(Communicators, an_intercommunicator_carries_both_directions) {
  if (ranks() < 2) GTEST_SKIP() << "an intercommunicator needs two groups";
  for (std::uint64_t round = 0; round < 2; ++round) {
    MPI_Comm half, inter, merged, copy;
    MPI_Comm_split(MPI_COMM_WORLD, this->in_first_half() ? 0 : 1, rank(), &half);
    const int remote_leader = this->in_first_half() ? ranks() / 2 : 0;
    step("MPI_Intercomm_create");
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, remote_leader, 99, &inter);
    int own = 0, remote_size = 0;
    MPI_Comm_rank(inter, &own);
    MPI_Comm_remote_size(inter, &remote_size);
    if (own < remote_size) {
      const auto key_of = [](bool first, int r) { return static_cast<std::uint64_t>((first ? 0 : 500) + r); };
      this->exchange_with(inter, own, own, key_of(this->in_first_half(), own), key_of(!this->in_first_half(), own));
    }
    RETURN_IF_FAILED();
    MPI_Comm_dup(inter, &copy);
    if (own < remote_size) this->exchange_with(copy, own, own, 70, 70);
    MPI_Intercomm_merge(inter, this->in_first_half() ? 0 : 1, &merged);
    this->exchange(merged, 30);
    RETURN_IF_FAILED();
    for (MPI_Comm* comm : {&merged, &copy, &inter, &half}) MPI_Comm_free(comm);
  }
}

TYPED_TEST(Communicators, thousands_of_communicators_can_come_and_go) {
  const auto rounds = environment_number("PARTITEST_ROUNDS", 300);
  for (int round = 0; round < rounds; ++round) {
    if (round % 50 == 0) step("round " + std::to_string(round));
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    if (round % 10 == 0) this->exchange(comm, static_cast<std::uint64_t>(round));
    MPI_Comm_free(&comm);
    RETURN_IF_FAILED();
  }
}

}  // namespace
}  // namespace partita::test
