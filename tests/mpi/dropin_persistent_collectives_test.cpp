// Persistent collectives by the names of MPI-4 through the drop-in: the MPI's until they are matched, then Partita's,
// and Partita's from the beginning where the MPI has none.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/mpix.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "persistent_collective_cases.hpp"
#include "support/completion.hpp"
#include "support/errors.hpp"
#include "support/job.hpp"

namespace partita::test {
namespace {

#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)
constexpr bool are_the_mpis = true;
#else
constexpr bool are_the_mpis = false;
#endif

// clang-format off
const std::vector<Collective<MPI_Request>> collectives = {
#define COLLECTIVE(NAME, SHAPE, ...) PERSISTENT_COLLECTIVE(MPI_Request, NAME, MPI_##NAME##_init, SHAPE, __VA_ARGS__),
#include "persistent_collective_cases.inc"
#undef COLLECTIVE
};
#if MPI_VERSION >= 4
const std::vector<Collective<MPI_Request>> collectives_with_large_counts = {
#define COLLECTIVE(NAME, SHAPE, ...) PERSISTENT_COLLECTIVE(MPI_Request, NAME, MPI_##NAME##_init_c, SHAPE, __VA_ARGS__),
#include "persistent_collective_cases.inc"
#undef COLLECTIVE
};
#endif
// clang-format on

bool is_matched(MPI_Request request) {
  int flag = -1;
  EXPECT_OK(MPIX_Is_matched(request, &flag));
  return flag == 1;
}

/// The value of `key` in what is told of the request.
std::string told(MPI_Request request, const char* key) {
  MPI_Info info = MPI_INFO_NULL;
  EXPECT_OK(Partita_mpi_Request_get_info(request, &info));
  char value[MPI_MAX_INFO_VAL] = {};
  int flag = 0;
  MPI_Info_get(info, key, MPI_MAX_INFO_VAL - 1, value, &flag);
  MPI_Info_free(&info);
  return value;
}

/// Starts and completes the request: the host by one call or another, or, once it is matched, a queue.
void run(MPI_Request& request, std::size_t epoch, MPIX_Queue queue) {
  if (queue != MPIX_QUEUE_NULL) {
    ASSERT_OK(MPIX_Enqueue_start(queue, &request));
    ASSERT_OK(MPIX_Enqueue_wait(queue, &request));
    return;
  }
  ASSERT_OK(MPI_Start(&request));
  int flag = 0;
  while (epoch % 2 == 0 && flag == 0) ASSERT_OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
  ASSERT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

/// Four epochs of one request, of which `match_before` run before the match.
void expect_like_the_mpi(const Made<MPI_Request>& made, InPlace in_place, int root, std::size_t match_before) {
  const auto [sends_in_place, receives_in_place] = Places(in_place, root);
  const std::vector<Epoch> epochs = reference_epochs(made, sends_in_place, receives_in_place);
  std::vector<int> sent = epochs[0].sent, received = epochs[0].before;
  MPI_Request request = MPI_REQUEST_NULL;
  MPIX_Queue queue = MPIX_QUEUE_NULL;
  ASSERT_OK(made.init(sends_in_place ? MPI_IN_PLACE : sent.data(), receives_in_place ? MPI_IN_PLACE : received.data(),
                      &request));
  for (std::size_t epoch = 0; epoch < epochs.size(); ++epoch) {
    if (epoch == match_before) {
      EXPECT_FALSE(are_the_mpis && is_matched(request));
      ASSERT_OK(MPIX_Match(&request));
      EXPECT_TRUE(is_matched(request));
      EXPECT_EQ(0U, told(request, "partita_kind").find("persistent_"));
      ASSERT_OK(MPIX_Queue_init(&queue, MPIX_QUEUE_HOST, nullptr));
    }
    std::ranges::copy(epochs[epoch].sent, sent.begin());
    std::ranges::copy(epochs[epoch].before, received.begin());
    run(request, epoch, epoch % 2 == 1 ? queue : MPIX_QUEUE_NULL);
    const auto defined = made.result >= 0 ? made.result : static_cast<int>(received.size());
    const std::vector<int>& expected = epochs[epoch].expected;
    ASSERT_EQ(std::vector<int>(expected.begin(), expected.begin() + defined),
              std::vector<int>(received.begin(), received.begin() + defined))
        << "epoch " << epoch << " of a request that is matched before epoch " << match_before << ", root " << root;
  }
  if (queue != MPIX_QUEUE_NULL) {
    ASSERT_OK(MPIX_Queue_free(&queue));
  }
  ASSERT_OK(MPI_Request_free(&request));
  EXPECT_EQ(MPI_REQUEST_NULL, request);
}

class DropinPersistentCollectives : public testing::TestWithParam<Collective<MPI_Request>> {
 protected:
  ErrorsReturn handler_{MPI_COMM_WORLD};
};

TEST_P(DropinPersistentCollectives, give_what_the_mpis_own_give) {
  const RingOfNeighbours ring;
  const int last = ranks() - 1;
  expect_like_the_mpi(GetParam().make(Terms{.n = 500, .root = last, .ring = ring.comm()}), InPlace::none, last, 2);
  const Made<MPI_Request> small = GetParam().make(Terms{.n = 1, .root = 0, .ring = ring.comm()});
  expect_like_the_mpi(small, small.in_place, 0, 0);
}

const auto name_of_collective = [](const auto& each) { return std::string(each.param.name); };
INSTANTIATE_TEST_SUITE_P(All, DropinPersistentCollectives, testing::ValuesIn(collectives), name_of_collective);

#if MPI_VERSION >= 4
class DropinLargeCollectives : public DropinPersistentCollectives {};

TEST_P(DropinLargeCollectives, give_what_the_mpis_own_give) {
  const RingOfNeighbours ring;
  expect_like_the_mpi(GetParam().make(Terms{.n = 3, .root = 0, .ring = ring.comm()}), InPlace::none, 0, 1);
}

INSTANTIATE_TEST_SUITE_P(All, DropinLargeCollectives, testing::ValuesIn(collectives_with_large_counts),
                         name_of_collective);
#endif

class DropinPersistentCollective : public testing::Test {
 protected:
  static int sum_of_ranks() { return ranks() * (ranks() - 1) / 2; }
  int allreduce(MPI_Request* request, MPI_Comm comm = MPI_COMM_WORLD, MPI_Info info = MPI_INFO_NULL) {
    return MPI_Allreduce_init(in_.data(), out_.data(), 4, MPI_INT, MPI_SUM, comm, info, request);
  }
  void expect_epoch_of(MPI_Request& request) {
    out_.assign(4, -1);
    ASSERT_OK(MPI_Start(&request));
    ASSERT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    EXPECT_EQ(std::vector<int>(4, sum_of_ranks()), out_);
  }

  ErrorsReturn handler_{MPI_COMM_WORLD};
  std::vector<int> in_ = std::vector<int>(4, rank());
  std::vector<int> out_ = std::vector<int>(4, -1);
};

TEST_F(DropinPersistentCollective, barrier_ends_on_no_rank_before_all_have_started) {
  MPI_Request request = MPI_REQUEST_NULL;
  ASSERT_OK(MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &request));
  for (const bool matched : {false, true}) {
    if (matched) {
      ASSERT_OK(MPIX_Match(&request));
    }
    for (int late = 0; late < ranks(); ++late) {
      if (rank() != late) {
        ASSERT_OK(MPI_Start(&request));
      }
      harness_barrier();  // all others have started
      for (int look = 0; rank() != late && look < 50; ++look) {
        int flag = 0;
        ASSERT_OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
        ASSERT_EQ(0, flag) << "rank " << late << " has not started";
      }
      harness_barrier();
      if (rank() == late) {
        ASSERT_OK(MPI_Start(&request));
      }
      ASSERT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
  }
  EXPECT_EQ("persistent_barrier", told(request, "partita_kind"));
  ASSERT_OK(MPI_Request_free(&request));
}

/// The arrays and all objects but the buffers are the program's again once the call has returned.
TEST_F(DropinPersistentCollective, arguments_are_kept_from_the_init_call_on) {
  const auto size = static_cast<std::size_t>(ranks());
  const int bytes = 2 * static_cast<int>(sizeof(int));
  std::vector<int> counts(size, 1), places(size);
  for (std::size_t i = 0; i < size; ++i) places[i] = static_cast<int>(i) * bytes;
  MPI_Datatype every_other = MPI_DATATYPE_NULL;
  MPI_Type_vector(1, 1, 2, MPI_INT, &every_other);
  MPI_Type_commit(&every_other);
  std::vector<MPI_Datatype> types(size, every_other);
  std::vector<int> out(2 * size, rank()), in(2 * size, -1);
  MPI_Info info = MPI_INFO_NULL;
  MPI_Info_create(&info);
  MPI_Info_set(info, "partita_algorithm", "pairwise");
  MPI_Request request = MPI_REQUEST_NULL;
  ASSERT_OK(MPI_Alltoallw_init(out.data(), counts.data(), places.data(), types.data(), in.data(), counts.data(),
                               places.data(), types.data(), MPI_COMM_WORLD, info, &request));
  MPI_Info_free(&info);
  MPI_Type_free(&every_other);
  counts.assign(size, 17);
  places.assign(size, 4);
  types.assign(size, MPI_DATATYPE_NULL);
  ASSERT_OK(MPIX_Match(&request));
  EXPECT_EQ("pairwise", told(request, "partita_algorithm"));
  ASSERT_OK(MPI_Start(&request));
  ASSERT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  for (std::size_t i = 0; i < size; ++i) {
    EXPECT_EQ(static_cast<int>(i), in[2 * i]);
    EXPECT_EQ(-1, in[2 * i + 1]);
  }
  ASSERT_OK(MPI_Request_free(&request));
}

/// As many entries in the arrays as the topology has neighbours.
TEST_F(DropinPersistentCollective, neighbourhoods_of_every_topology_are_kept) {
  const int right = (rank() + 1) % ranks(), left = (rank() + ranks() - 1) % ranks();
  const int size = ranks(), periodic = 1;
  std::vector<int> index, edges;
  for (int r = 0; r < size; ++r) {
    edges.insert(edges.end(), {(r + size - 1) % size, (r + 1) % size});
    index.push_back(static_cast<int>(edges.size()));
  }
  std::array<MPI_Comm, 2> comms;
  ASSERT_OK(MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 0, comms.data()));
  ASSERT_OK(MPI_Graph_create(MPI_COMM_WORLD, size, index.data(), edges.data(), 0, &comms[1]));
  for (MPI_Comm& comm : comms) {
    const int out = rank();
    std::array<int, 3> in = {-1, -1, -1};
    std::array<int, 2> counts = {1, 1}, places = {2, 0};
    MPI_Request request = MPI_REQUEST_NULL;
    ASSERT_OK(MPI_Neighbor_allgatherv_init(&out, 1, MPI_INT, in.data(), counts.data(), places.data(), MPI_INT, comm,
                                           MPI_INFO_NULL, &request));
    counts.fill(3);
    places.fill(1);
    ASSERT_OK(MPIX_Match(&request));
    ASSERT_OK(MPI_Start(&request));
    ASSERT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    EXPECT_EQ((std::array{right, -1, left}), in);
    ASSERT_OK(MPI_Request_free(&request));
    ASSERT_OK(MPI_Comm_free(&comm));
  }
}

/// What an operation of the program's was called with last.
MPI_Datatype seen_type = MPI_DATATYPE_NULL;

/// a ∘ b = a.x b.x, a.y b.x + b.y: associative, and does not commute.
void compose(void* in, void* inout, int* length, MPI_Datatype* type) {
  seen_type = *type;
  const auto* a = static_cast<const int*>(in);
  auto* b = static_cast<int*>(inout);
  for (int i = 0; i < *length; ++i, a += 2, b += 2) {
    b[1] += a[1] * b[0];
    b[0] *= a[0];
  }
}

/// MPI lets a program free both as soon as the request is made.
TEST_F(DropinPersistentCollective, operations_and_their_datatypes_live_as_long_as_the_request) {
  std::vector<int> expected = {1, 0};
  for (int r = 0; r < ranks(); ++r) {
    int next[2] = {r + 2, r + 1}, one = 1;
    MPI_Datatype none = MPI_DATATYPE_NULL;
    compose(expected.data(), next, &one, &none);
    expected.assign(next, next + 2);
  }
  enum class Matched { first, behind_the_frees, never };
  for (const Matched matched : {Matched::first, Matched::behind_the_frees, Matched::never}) {
    MPI_Op op = MPI_OP_NULL;
    MPI_Datatype pair = MPI_DATATYPE_NULL;
    ASSERT_OK(MPI_Op_create(compose, 0, &op));
    ASSERT_OK(MPI_Type_contiguous(2, MPI_INT, &pair));
    ASSERT_OK(MPI_Type_commit(&pair));
    const MPI_Datatype given = pair;
    const std::vector<int> in = {rank() + 2, rank() + 1};
    std::vector<int> out(2), scanned(2);
    std::array<MPI_Request, 2> requests;
    ASSERT_OK(MPI_Allreduce_init(in.data(), out.data(), 1, pair, op, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]));
    ASSERT_OK(MPI_Scan_init(in.data(), scanned.data(), 1, pair, op, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]));
    if (matched == Matched::first) {
      ASSERT_OK(MPIX_Matchall(2, requests.data()));
    }
    ASSERT_OK(MPI_Op_free(&op));
    EXPECT_EQ(MPI_OP_NULL, op);
    ASSERT_OK(MPI_Type_free(&pair));
    if (matched == Matched::behind_the_frees) {
      ASSERT_OK(MPIX_Matchall(2, requests.data()));
    }
    for (int epoch = 0; epoch < 2; ++epoch) {
      out.assign(2, -1);
      seen_type = MPI_DATATYPE_NULL;
      ASSERT_OK(MPI_Startall(2, requests.data()));
      ASSERT_OK(MPI_Waitall(2, requests.data(), MPI_STATUSES_IGNORE));
      EXPECT_EQ(expected, out);
      if (rank() == ranks() - 1) {
        EXPECT_EQ(expected, scanned);
      }
      if (ranks() > 1 && (matched != Matched::never || !are_the_mpis)) {
        EXPECT_EQ(given, seen_type);
      }
    }
    ASSERT_OK(MPI_Request_free(&requests[0]));
    ASSERT_OK(MPI_Start(&requests[1]));  // which still needs them
    ASSERT_OK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
    ASSERT_OK(MPI_Request_free(&requests[1]));
  }
}

TEST_F(DropinPersistentCollective, predefined_operations_are_not_freed) {
  MPI_Request request = MPI_REQUEST_NULL;
  ASSERT_OK(allreduce(&request));
  MPI_Op sum = MPI_SUM;
  EXPECT_NE(MPI_SUCCESS, MPI_Op_free(&sum));
  ASSERT_OK(MPIX_Match(&request));
  EXPECT_NE(MPI_SUCCESS, MPI_Op_free(&sum));
  expect_epoch_of(request);
  ASSERT_OK(MPI_Request_free(&request));
}

TEST_F(DropinPersistentCollective, goes_on_when_its_communicator_is_freed_behind_the_match) {
  MPI_Comm copy = MPI_COMM_NULL;
  ASSERT_OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
  MPI_Request request = MPI_REQUEST_NULL;
  ASSERT_OK(allreduce(&request, copy));
  ASSERT_OK(MPIX_Match(&request));
  ASSERT_OK(MPI_Comm_free(&copy));
  expect_epoch_of(request);
  ASSERT_OK(MPI_Request_free(&request));
}

TEST_F(DropinPersistentCollective, collectives_between_two_groups_stay_the_mpis) {
  if (ranks() < 2) GTEST_SKIP() << "an intercommunicator needs two groups";
  MPI_Comm half = MPI_COMM_NULL, between = MPI_COMM_NULL;
  ASSERT_OK(MPI_Comm_split(MPI_COMM_WORLD, rank() % 2, rank(), &half));
  ASSERT_OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank() % 2, 99, &between));
  MPI_Comm_set_errhandler(between, MPI_ERRORS_RETURN);
  MPI_Request request = MPI_REQUEST_NULL;
  const int code = allreduce(&request, between);
  if (are_the_mpis) {
    ASSERT_OK(code);
    EXPECT_ERROR(MPIX_Match(&request), MPI_ERR_COMM, "MPIX_Match", "intercommunicator");
    EXPECT_FALSE(is_matched(request));
    ASSERT_OK(MPI_Start(&request));
    ASSERT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    int of_the_others = 0;
    for (int r = 1 - rank() % 2; r < ranks(); r += 2) of_the_others += r;
    EXPECT_EQ(std::vector<int>(4, of_the_others), out_);
    ASSERT_OK(MPI_Request_free(&request));
  } else {
    EXPECT_ERROR(code, MPI_ERR_COMM, "MPI_Allreduce_init", "intercommunicator");
    EXPECT_EQ(MPI_REQUEST_NULL, request);
  }
  ASSERT_OK(MPI_Comm_free(&between));
  ASSERT_OK(MPI_Comm_free(&half));
}

TEST_F(DropinPersistentCollective, starts_and_completes_beside_every_other_kind) {
  const int right = (rank() + 1) % ranks(), left = (rank() + ranks() - 1) % ranks();
  std::vector<int> sums(4), parts(4);
  const int out = rank();
  int in = -1, in_matched = -1;
  std::array<MPI_Request, 7> requests;
  ASSERT_OK(allreduce(requests.data()));
  ASSERT_OK(MPI_Scan_init(in_.data(), sums.data(), 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]));
  ASSERT_OK(MPI_Send_init(&out, 1, MPI_INT, right, 1, MPI_COMM_WORLD, &requests[2]));
  ASSERT_OK(MPI_Recv_init(&in, 1, MPI_INT, left, 1, MPI_COMM_WORLD, &requests[3]));
  ASSERT_OK(MPI_Send_init(&out, 1, MPI_INT, right, 2, MPI_COMM_WORLD, &requests[4]));
  ASSERT_OK(MPI_Recv_init(&in_matched, 1, MPI_INT, left, 2, MPI_COMM_WORLD, &requests[5]));
  ASSERT_OK(MPIX_Pallreduce_init(in_.data(), parts.data(), 1, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL,
                                 &requests[6]));
  std::array matched = {requests[1], requests[4], requests[5]};
  ASSERT_OK(MPIX_Matchall(3, matched.data()));
  requests[1] = matched[0];
  requests[4] = matched[1];
  requests[5] = matched[2];
  for (int how = 0; how < completion_count; ++how) {
    SCOPED_TRACE(name_of(static_cast<Completion>(how)));
    in = in_matched = -1;
    for (std::vector<int>* each : {&out_, &sums, &parts}) each->assign(4, -1);
    ASSERT_OK(MPI_Startall(7, requests.data()));
    ASSERT_OK(MPI_Pready(0, requests[6]));
    // MPICH's own Testall on a persistent collective that succeeds says MPI_ERR_IN_STATUS (5.0.2).
    const bool can_testall = !are_the_mpis || static_cast<Completion>(how) != Completion::testall;
    if (!can_testall) {
      ASSERT_OK(MPI_Wait(requests.data(), MPI_STATUS_IGNORE));
    }
    std::vector<MPI_Request> pending(requests.begin() + (can_testall ? 0 : 1), requests.end());
    const std::vector<MPI_Request> before = pending;
    std::vector<MPI_Status> statuses;
    complete<StandardFace>(static_cast<Completion>(how), pending, statuses);
    EXPECT_EQ(before, pending);
    EXPECT_EQ(left, in);
    EXPECT_EQ(left, in_matched);
    EXPECT_EQ(std::vector<int>(4, sum_of_ranks()), out_);
    EXPECT_EQ(std::vector<int>(4, sum_of_ranks()), parts);
    EXPECT_EQ(std::vector<int>(4, rank() * (rank() + 1) / 2), sums);
  }
  for (MPI_Request& each : requests) ASSERT_OK(MPI_Request_free(&each));
}

TEST_F(DropinPersistentCollective, imatch_takes_it_beside_messages) {
  const int right = (rank() + 1) % ranks(), left = (rank() + ranks() - 1) % ranks();
  const int out = rank();
  int in = -1;
  std::array<MPI_Request, 3> requests;
  ASSERT_OK(allreduce(requests.data()));
  ASSERT_OK(MPI_Send_init(&out, 1, MPI_INT, right, 1, MPI_COMM_WORLD, &requests[1]));
  ASSERT_OK(MPI_Recv_init(&in, 1, MPI_INT, left, 1, MPI_COMM_WORLD, &requests[2]));
  MPI_Request matching = MPI_REQUEST_NULL;
  ASSERT_OK(MPIX_Imatchall(3, requests.data(), &matching));
  ASSERT_OK(MPI_Wait(&matching, MPI_STATUS_IGNORE));
  EXPECT_EQ(MPI_REQUEST_NULL, matching);
  for (const MPI_Request each : requests) EXPECT_TRUE(is_matched(each));
  ASSERT_OK(MPI_Startall(3, requests.data()));
  ASSERT_OK(MPI_Waitall(3, requests.data(), MPI_STATUSES_IGNORE));
  EXPECT_EQ(left, in);
  EXPECT_EQ(std::vector<int>(4, sum_of_ranks()), out_);
  for (MPI_Request& each : requests) ASSERT_OK(MPI_Request_free(&each));
}

/// The collective stays what it was, and is matched later.
TEST_F(DropinPersistentCollective, of_a_group_with_one_that_cannot_be_matched_none_is) {
  MPI_Request collective = MPI_REQUEST_NULL, nonblocking = MPI_REQUEST_NULL, other = MPI_REQUEST_NULL;
  int in = -1;
  const int out = rank();
  ASSERT_OK(allreduce(&collective));
  ASSERT_OK(MPI_Irecv(&in, 1, MPI_INT, rank(), 8, MPI_COMM_WORLD, &nonblocking));
  ASSERT_OK(MPI_Recv_init(&in, 1, MPI_INT, MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, &other));
  for (const auto& [bad, error_class, word] :
       {std::tuple(nonblocking, MPI_ERR_REQUEST, "nonblocking"), std::tuple(other, MPI_ERR_RANK, "wildcard"),
        std::tuple(MPI_REQUEST_NULL, MPI_ERR_REQUEST, "MPI_REQUEST_NULL")}) {
    std::array group = {collective, bad};
    EXPECT_ERROR(MPIX_Matchall(2, group.data()), error_class, "MPIX_Matchall", word);
    EXPECT_EQ(collective, group[0]);
  }
  for (int epoch = 0; epoch < 2; ++epoch) {
    expect_epoch_of(collective);
    if (epoch == 0) {
      ASSERT_OK(MPIX_Match(&collective));
    }
  }
  ASSERT_OK(MPI_Start(&collective));
  EXPECT_ERROR(MPIX_Match(&collective), MPI_ERR_REQUEST, "MPIX_Match", "active");
  ASSERT_OK(MPI_Wait(&collective, MPI_STATUS_IGNORE));
  ASSERT_OK(MPI_Send(&out, 1, MPI_INT, rank(), 8, MPI_COMM_WORLD));
  ASSERT_OK(MPI_Wait(&nonblocking, MPI_STATUS_IGNORE));
  for (MPI_Request* each : {&collective, &other}) ASSERT_OK(MPI_Request_free(each));
}

/// An active one, which is not matched: the barrier's late rank has not started.
TEST_F(DropinPersistentCollective, an_active_one_is_not_matched) {
  if (ranks() < 2) GTEST_SKIP() << "one rank alone is through at once";
  MPI_Request request = MPI_REQUEST_NULL;
  ASSERT_OK(MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &request));
  if (rank() != 0) {
    ASSERT_OK(MPI_Start(&request));
    EXPECT_ERROR(MPIX_Match(&request), MPI_ERR_REQUEST, "MPIX_Match", "active");
    int flag = 1;
    ASSERT_OK(MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE));
    EXPECT_EQ(0, flag);
  }
  harness_barrier();
  if (rank() == 0) {
    ASSERT_OK(MPI_Start(&request));
  }
  ASSERT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  ASSERT_OK(MPIX_Match(&request));
  ASSERT_OK(MPI_Start(&request));
  ASSERT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  ASSERT_OK(MPI_Request_free(&request));
}

TEST_F(DropinPersistentCollective, has_no_partitions_and_is_not_cancelled) {
  MPI_Request request = MPI_REQUEST_NULL;
  ASSERT_OK(allreduce(&request));
  for (const bool matched : {false, true}) {
    if (matched) {
      ASSERT_OK(MPIX_Match(&request));
    }
    int flag = 0;
    EXPECT_ERROR(MPI_Pready(0, request), MPI_ERR_REQUEST, "MPI_Pready", "no partitions");
    EXPECT_ERROR(MPI_Parrived(request, 0, &flag), MPI_ERR_REQUEST, "MPI_Parrived", "no partitions");
  }
  EXPECT_ERROR(MPI_Cancel(&request), MPI_ERR_REQUEST, "cancelled");
  ASSERT_OK(MPI_Request_free(&request));
}

/// Each MPI has its own sentences; ours name the call and the argument.
TEST_F(DropinPersistentCollective, wrong_arguments_are_errors_of_the_init_call) {
  MPI_Request request = MPI_REQUEST_NULL;
  const auto refuses = [&](int code, int error_class, const char* call, const char* argument) {
    EXPECT_EQ(error_class, class_of(code)) << call << ", " << argument;
    if (!are_the_mpis) {
      EXPECT_ERROR(code, error_class, call, argument);
    }
    EXPECT_EQ(MPI_REQUEST_NULL, request);
  };
  refuses(MPI_Bcast_init(in_.data(), 4, MPI_INT, ranks(), MPI_COMM_WORLD, MPI_INFO_NULL, &request), MPI_ERR_ROOT,
          "MPI_Bcast_init", "root");
  refuses(MPI_Bcast_init(in_.data(), -4, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request), MPI_ERR_COUNT,
          "MPI_Bcast_init", "buffer");
  refuses(MPI_Barrier_init(MPI_COMM_NULL, MPI_INFO_NULL, &request), MPI_ERR_COMM, "MPI_Barrier_init", "comm");
  refuses(MPI_Bcast_init(in_.data(), 4, MPI_DATATYPE_NULL, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request), MPI_ERR_TYPE,
          "MPI_Bcast_init", "datatype");
  refuses(MPI_Allreduce_init(in_.data(), out_.data(), 1, MPI_DOUBLE, MPI_BAND, MPI_COMM_WORLD, MPI_INFO_NULL, &request),
          MPI_ERR_OP, "MPI_Allreduce_init", "MPI_BAND");
  if (!are_the_mpis) {
    refuses(MPI_Allgatherv_init(in_.data(), 1, MPI_INT, out_.data(), nullptr, nullptr, MPI_INT, MPI_COMM_WORLD,
                                MPI_INFO_NULL, &request),
            MPI_ERR_ARG, "MPI_Allgatherv_init", "recvcounts");
    EXPECT_ERROR(MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, nullptr), MPI_ERR_ARG, "MPI_Barrier_init", "request");
  }
}

}  // namespace
}  // namespace partita::test
