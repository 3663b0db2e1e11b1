// Persistent collectives without partitions beside the MPI's own blocking ones of the same arguments; wrong arguments,
// wrong use, and ranks that have made different calls.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/errors.hpp"
#include "support/face.hpp"
#include "support/job.hpp"

namespace partita::test {
namespace {

/// An array as both the MPI, which takes int, and Partita, which takes Wide, want it.
template <class Wide>
class Numbers {
 public:
  void add(int number) {
    narrow_.push_back(number);
    wide_.push_back(number);
  }
  operator const int*() const { return narrow_.data(); }
  operator const Wide*() const { return wide_.data(); }

 private:
  std::vector<int> narrow_;
  std::vector<Wide> wide_;
};

/// Blocks of integers with a gap behind each.
struct Blocks {
  explicit Blocks(const std::vector<int>& sizes) {
    for (const int size : sizes) {
      counts.add(size);
      places.add(ints);
      byte_places.add(ints * static_cast<int>(sizeof(int)));
      ints += size + 1;
    }
  }

  Numbers<MPI_Count> counts;
  Numbers<MPI_Aint> places, byte_places;
  int ints = 0;
};

/// 0, n or 2 n in turn, from the `first`-th on.
std::vector<int> various(int n, int first) {
  std::vector<int> sizes;
  for (int block = 0; block < ranks(); ++block) sizes.push_back((first + block) % 3 * n);
  return sizes;
}

/// Every rank's left neighbour and itself send to it; its right one and itself hear from it.
class Ring {
 public:
  Ring() {
    const int left = (rank() + ranks() - 1) % ranks(), right = (rank() + 1) % ranks(), me = rank();
    const int sources[] = {left, me}, destinations[] = {right, me};
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, sources, MPI_UNWEIGHTED, 2, destinations, MPI_UNWEIGHTED,
                                   MPI_INFO_NULL, 0, &comm_);
    EXPECT_OK(Partita_Comm_register(comm_));
  }
  ~Ring() { MPI_Comm_free(&comm_); }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  MPI_Comm comm() const { return comm_; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

/// The arguments of a collective but for its buffers.
struct Terms {
  int n;
  int root;
  MPI_Comm ring;
  int me = rank();
  int size = ranks();
  int own = various(n, 1)[static_cast<std::size_t>(me)];
  Blocks all = Blocks(various(n, 1));        ///< alike on all ranks; that of rank 0 is not empty
  Blocks crossing = Blocks(various(n, me));  ///< what i sends to j is as long as what j sends to i
  Blocks two = Blocks({2 * n, n});           ///< for the two neighbours
  Blocks same_two = Blocks({n, n});
  std::vector<MPI_Datatype> types = std::vector<MPI_Datatype>(static_cast<std::size_t>(size) + 2, MPI_INT);
};

/// Which ranks may give MPI_IN_PLACE.
enum class InPlace { none, all, sending_root, receiving_root };

struct Made {
  InPlace in_place = InPlace::none;
  int sent = 0;      ///< integers
  int received = 0;  ///< likewise
  int result = -1;   ///< so many of them are defined in the end; -1: all
  bool has_one_buffer = false;
  std::function<int(const void* sendbuf, void* recvbuf, Partita_Request*)> init = {};
  std::function<int(const void* sendbuf, void* recvbuf)> reference = {};
};

/// `pass` gives either call the arguments that both have, and then the rest.
template <class Pass, class Init, class Reference>
Made made(Made shape, Pass pass, Init init, Reference reference) {
  shape.init = [=](const void* s, void* r, Partita_Request* request) {
    return pass(init, s, r, MPI_INFO_NULL, request);
  };
  shape.reference = [=](const void* s, void* r) { return pass(reference, s, r); };
  return shape;
}

struct Collective {
  const char* name;
  Made (*make)(const Terms& t);
};

// clang-format off
#define COLLECTIVE(NAME, SHAPE, ...)                                                                              \
  {#NAME, [](const Terms& t) {                                                                                    \
    return made(SHAPE, [=](auto call, [[maybe_unused]] const void* s, void* r, auto... rest) {                    \
      return call(__VA_ARGS__, rest...);                                                                          \
    }, Partita_##NAME##_init, PMPI_##NAME);                                                                       \
  }}
#define SHAPE(...) (Made{__VA_ARGS__})

const std::vector<Collective> collectives = {
  COLLECTIVE(Bcast, SHAPE(.received = t.n, .has_one_buffer = true), r, t.n, MPI_INT, t.root, MPI_COMM_WORLD),
  COLLECTIVE(Gather, SHAPE(InPlace::sending_root, t.n, t.n * t.size), s, t.n, MPI_INT, r, t.n, MPI_INT, t.root, MPI_COMM_WORLD),
  COLLECTIVE(Gatherv, SHAPE(InPlace::sending_root, t.own, t.all.ints), s, t.own, MPI_INT, r, t.all.counts, t.all.places, MPI_INT, t.root, MPI_COMM_WORLD),
  COLLECTIVE(Scatter, SHAPE(InPlace::receiving_root, t.n * t.size, t.n), s, t.n, MPI_INT, r, t.n, MPI_INT, t.root, MPI_COMM_WORLD),
  COLLECTIVE(Scatterv, SHAPE(InPlace::receiving_root, t.all.ints, t.own), s, t.all.counts, t.all.places, MPI_INT, r, t.own, MPI_INT, t.root, MPI_COMM_WORLD),
  COLLECTIVE(Allgather, SHAPE(InPlace::all, t.n, t.n * t.size), s, t.n, MPI_INT, r, t.n, MPI_INT, MPI_COMM_WORLD),
  COLLECTIVE(Allgatherv, SHAPE(InPlace::all, t.own, t.all.ints), s, t.own, MPI_INT, r, t.all.counts, t.all.places, MPI_INT, MPI_COMM_WORLD),
  COLLECTIVE(Alltoall, SHAPE(InPlace::all, t.n * t.size, t.n * t.size), s, t.n, MPI_INT, r, t.n, MPI_INT, MPI_COMM_WORLD),
  COLLECTIVE(Alltoallv, SHAPE(InPlace::all, t.crossing.ints, t.crossing.ints), s, t.crossing.counts, t.crossing.places, MPI_INT, r, t.crossing.counts, t.crossing.places, MPI_INT, MPI_COMM_WORLD),
  COLLECTIVE(Alltoallw, SHAPE(InPlace::all, t.crossing.ints, t.crossing.ints), s, t.crossing.counts, t.crossing.byte_places, t.types.data(), r, t.crossing.counts, t.crossing.byte_places, t.types.data(), MPI_COMM_WORLD),
  COLLECTIVE(Reduce, SHAPE(InPlace::sending_root, t.n, t.n), s, r, t.n, MPI_INT, MPI_SUM, t.root, MPI_COMM_WORLD),
  COLLECTIVE(Allreduce, SHAPE(InPlace::all, t.n, t.n), s, r, t.n, MPI_INT, MPI_MAX, MPI_COMM_WORLD),
  COLLECTIVE(Reduce_scatter, SHAPE(InPlace::all, t.all.ints, t.all.ints, t.own), s, r, t.all.counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD),
  COLLECTIVE(Reduce_scatter_block, SHAPE(InPlace::all, t.n * t.size, t.n * t.size, t.n), s, r, t.n, MPI_INT, MPI_BXOR, MPI_COMM_WORLD),
  COLLECTIVE(Scan, SHAPE(InPlace::all, t.n, t.n), s, r, t.n, MPI_INT, MPI_SUM, MPI_COMM_WORLD),
  COLLECTIVE(Exscan, SHAPE(InPlace::all, t.n, t.n, t.me == 0 ? 0 : t.n), s, r, t.n, MPI_INT, MPI_SUM, MPI_COMM_WORLD),
  COLLECTIVE(Neighbor_allgather, SHAPE(InPlace::none, t.n, 2 * t.n), s, t.n, MPI_INT, r, t.n, MPI_INT, t.ring),
  COLLECTIVE(Neighbor_allgatherv, SHAPE(InPlace::none, t.n, t.same_two.ints), s, t.n, MPI_INT, r, t.same_two.counts, t.same_two.places, MPI_INT, t.ring),
  COLLECTIVE(Neighbor_alltoall, SHAPE(InPlace::none, 2 * t.n, 2 * t.n), s, t.n, MPI_INT, r, t.n, MPI_INT, t.ring),
  COLLECTIVE(Neighbor_alltoallv, SHAPE(InPlace::none, t.two.ints, t.two.ints), s, t.two.counts, t.two.places, MPI_INT, r, t.two.counts, t.two.places, MPI_INT, t.ring),
  COLLECTIVE(Neighbor_alltoallw, SHAPE(InPlace::none, t.two.ints, t.two.ints), s, t.two.counts, t.two.byte_places, t.types.data(), r, t.two.counts, t.two.byte_places, t.types.data(), t.ring),
};
#undef SHAPE
#undef COLLECTIVE
// clang-format on

/// Waits in one way or the other.
void complete(Partita_Request& request, int epoch) {
  int flag = 0;
  while (epoch % 2 == 0 && flag == 0) ASSERT_OK(Partita_Test(&request, &flag, MPI_STATUS_IGNORE));
  ASSERT_OK(Partita_Wait(&request, MPI_STATUS_IGNORE));
}

/// What the MPI's own does, epoch after epoch, before Partita's: it would keep the ranks together.
struct Epoch {
  std::vector<int> sent, before, expected;
};

std::vector<Epoch> reference_epochs(const Made& made, bool sends_in_place, bool receives_in_place) {
  std::vector<Epoch> epochs;
  for (int number = 0; number < 4; ++number) {
    Epoch epoch;
    const auto fill = [&](std::vector<int>& with, int ints) {
      for (int i = 0; i <= ints; ++i) with.push_back(rank() * 1009 + i * 31 + number * 7);
    };
    fill(epoch.sent, made.sent);
    epoch.before.assign(static_cast<std::size_t>(made.received) + 1, -1);
    if (sends_in_place || made.has_one_buffer) {
      epoch.before.clear();
      fill(epoch.before, made.received);
    }
    epoch.expected = epoch.before;
    EXPECT_EQ(MPI_SUCCESS, made.reference(sends_in_place ? MPI_IN_PLACE : epoch.sent.data(),
                                          receives_in_place ? MPI_IN_PLACE : epoch.expected.data()));
    epochs.push_back(std::move(epoch));
  }
  return epochs;
}

/// Epochs of one request with other data in each, one behind the other, beside the MPI's own. Rank `late` begins late:
/// the others go ahead as far as its data allow.
void expect_like_the_mpi(const Made& made, InPlace in_place, int root, int late) {
  const bool sends_in_place = in_place == InPlace::all || (in_place == InPlace::sending_root && rank() == root);
  const bool receives_in_place = in_place == InPlace::receiving_root && rank() == root;
  const std::vector<Epoch> epochs = reference_epochs(made, sends_in_place, receives_in_place);
  std::vector<int> sent = epochs[0].sent, received = epochs[0].before;
  Partita_Request request = PARTITA_REQUEST_NULL;
  ASSERT_OK(made.init(sends_in_place ? MPI_IN_PLACE : sent.data(), receives_in_place ? MPI_IN_PLACE : received.data(),
                      &request));
  harness_barrier();
  if (rank() == late) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  for (std::size_t number = 0; number < epochs.size(); ++number) {
    std::ranges::copy(epochs[number].sent, sent.begin());
    std::ranges::copy(epochs[number].before, received.begin());
    ASSERT_OK(Partita_Start(&request));
    complete(request, static_cast<int>(number));
    const auto defined = made.result >= 0 ? made.result : static_cast<int>(received.size());
    const std::vector<int>& expected = epochs[number].expected;
    ASSERT_EQ(std::vector<int>(expected.begin(), expected.begin() + defined),
              std::vector<int>(received.begin(), received.begin() + defined))
        << "epoch " << number << ", root " << root << ", rank " << late << " is late";
  }
  ASSERT_OK(Partita_Request_free(&request));
}

class PersistentCollectives : public testing::TestWithParam<Collective> {};

TEST_P(PersistentCollectives, give_what_the_mpis_own_give) {
  const Ring ring;
  const auto make = [&](int n, int root) { return GetParam().make(Terms{.n = n, .root = root, .ring = ring.comm()}); };
  const int last = ranks() - 1;
  expect_like_the_mpi(make(500, last), InPlace::none, last, 0);
  expect_like_the_mpi(make(1, 0), InPlace::none, 0, 0);
  for (const int root : {0, last}) {
    if (const Made small = make(1, root); small.in_place != InPlace::none) {
      expect_like_the_mpi(small, small.in_place, root, last);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, PersistentCollectives, testing::ValuesIn(collectives),
                         [](const auto& each) { return std::string(each.param.name); });

class PersistentCollective : public testing::Test {
 protected:
  int allreduce(MPI_Count count = 4) {
    return Partita_Allreduce_init(in_.data(), out_.data(), count, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL,
                                  &request_);
  }
  int partitioned_allreduce() {
    return Partita_Pallreduce_init(in_.data(), out_.data(), 1, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL,
                                   &request_);
  }
  /// One epoch, of which every rank has heard the outcome before one frees its request. `marks`: it is partitioned.
  int outcome(bool marks = false) {
    int code = Partita_Start(&request_);
    if (code == MPI_SUCCESS && marks) code = Partita_Pready(0, request_);
    if (code == MPI_SUCCESS) code = Partita_Wait(&request_, MPI_STATUS_IGNORE);
    harness_barrier();
    EXPECT_OK(Partita_Request_free(&request_));
    return code;
  }
  void expect_later_ones_right() {
    ASSERT_OK(allreduce());
    ASSERT_OK(outcome());
    EXPECT_EQ(std::vector<int>(4, ranks()), out_);
    out_.assign(4, -1);
    ASSERT_OK(partitioned_allreduce());
    ASSERT_OK(Partita_Start(&request_));
    ASSERT_OK(Partita_Pbuf_prepare(request_));
    ASSERT_OK(Partita_Pready(0, request_));
    ASSERT_OK(Partita_Wait(&request_, MPI_STATUS_IGNORE));
    EXPECT_EQ(std::vector<int>(4, ranks()), out_);
    ASSERT_OK(Partita_Request_free(&request_));
  }

  ErrorsReturn handler_{MPI_COMM_WORLD};
  std::vector<int> in_ = std::vector<int>(4, 1);
  std::vector<int> out_ = std::vector<int>(4, -1);
  Partita_Request request_ = PARTITA_REQUEST_NULL;
};

TEST_F(PersistentCollective, barrier_ends_on_no_rank_before_all_have_started) {
  ASSERT_OK(Partita_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &request_));
  for (int late = 0; late < ranks(); ++late) {
    if (rank() != late) {
      ASSERT_OK(Partita_Start(&request_));
    }
    harness_barrier();  // all others have started
    if (rank() != late) {
      for (int look = 0; look < 50; ++look) {
        int flag = 0;
        ASSERT_OK(Partita_Test(&request_, &flag, MPI_STATUS_IGNORE));
        ASSERT_EQ(0, flag) << "rank " << late << " has not started";
      }
    }
    harness_barrier();
    if (rank() == late) {
      ASSERT_OK(Partita_Start(&request_));
    }
    ASSERT_OK(Partita_Wait(&request_, MPI_STATUS_IGNORE));
  }
  ASSERT_OK(Partita_Request_free(&request_));
}

TEST_F(PersistentCollective, init_refuses_wrong_arguments) {
  const auto bcast = [&](int count, int root) {
    return Partita_Bcast_init(in_.data(), count, MPI_INT, root, MPI_COMM_WORLD, MPI_INFO_NULL, &request_);
  };
  EXPECT_ERROR(bcast(4, ranks()), MPI_ERR_ROOT, "Bcast_init", "root is " + std::to_string(ranks()));
  EXPECT_ERROR(bcast(4, -1), MPI_ERR_ROOT, "Bcast_init", "root is -1");
  EXPECT_ERROR(bcast(-2, 0), MPI_ERR_COUNT, "Bcast_init", "-2");
  EXPECT_ERROR(Partita_Allreduce_init(in_.data(), out_.data(), 1, MPI_DOUBLE, MPI_BAND, MPI_COMM_WORLD, MPI_INFO_NULL,
                                      &request_),
               MPI_ERR_OP, "Allreduce_init", "MPI_BAND");
  EXPECT_ERROR(
      Partita_Scan_init(in_.data(), MPI_IN_PLACE, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request_),
      MPI_ERR_BUFFER, "Scan_init", "recvbuf");
  EXPECT_ERROR(Partita_Barrier_init(MPI_COMM_NULL, MPI_INFO_NULL, &request_), MPI_ERR_COMM, "Barrier_init",
               "MPI_COMM_NULL");
  EXPECT_ERROR(Partita_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, nullptr), MPI_ERR_ARG, "Barrier_init", "request");
  EXPECT_ERROR(Partita_Neighbor_allgather_init(in_.data(), 1, MPI_INT, out_.data(), 1, MPI_INT, MPI_COMM_WORLD,
                                               MPI_INFO_NULL, &request_),
               MPI_ERR_TOPOLOGY, "Neighbor_allgather_init", "topology");
  EXPECT_EQ(PARTITA_REQUEST_NULL, request_);
}

TEST_F(PersistentCollective, has_no_partitions) {
  ASSERT_OK(allreduce());
  for (const bool is_active : {false, true}) {
    if (is_active) {
      ASSERT_OK(Partita_Start(&request_));
    }
    int flag = 0;
    Partita_Prequest prequest{};
    EXPECT_ERROR(Partita_Pready(0, request_), MPI_ERR_REQUEST, "Pready", "no partitions (persistent_allreduce)");
    EXPECT_ERROR(Partita_Pready_range(0, 0, request_), MPI_ERR_REQUEST, "no partitions", "partitioned request");
    EXPECT_ERROR(Partita_Parrived(request_, 0, &flag), MPI_ERR_REQUEST, "Parrived", "no partitions");
    EXPECT_ERROR(Partita_Prequest_create(&prequest, request_), MPI_ERR_REQUEST, "Prequest_create", "kernels");
  }
  EXPECT_ERROR(Partita_Start(&request_), MPI_ERR_REQUEST, "active already", "Persistent allreduce");
  ASSERT_OK(Partita_Pbuf_prepare(request_));  // as of ordinary messages: matched
  ASSERT_OK(Partita_Wait(&request_, MPI_STATUS_IGNORE));
  EXPECT_EQ(std::vector<int>(4, ranks()), out_);
  ASSERT_OK(Partita_Request_free(&request_));
}

TEST_F(PersistentCollective, tells_what_it_is) {
  ASSERT_OK(allreduce());
  MPI_Info info = MPI_INFO_NULL;
  ASSERT_OK(Partita_Request_get_info(request_, &info));
  char value[MPI_MAX_INFO_VAL] = {};
  int flag = 0;
  MPI_Info_get(info, "partita_kind", MPI_MAX_INFO_VAL - 1, value, &flag);
  EXPECT_STREQ("persistent_allreduce", value);
  MPI_Info_free(&info);
  ASSERT_OK(Partita_Match(&request_));
  ASSERT_OK(Partita_Is_matched(request_, &flag));
  EXPECT_EQ(1, flag);
  ASSERT_OK(Partita_Request_free(&request_));
}

/// As many bytes, and as many partitions: only what they are differs.
TEST_F(PersistentCollective, meets_no_partitioned_one) {
  if (ranks() < 2) GTEST_SKIP() << "two ranks make different calls";
  for (const int odd_one_out : {0, ranks() - 1}) {
    const bool marks = rank() == odd_one_out;
    ASSERT_OK(marks ? partitioned_allreduce() : allreduce());
    EXPECT_ERROR(outcome(marks), MPI_ERR_REQUEST, "a partitioned allreduce", "a persistent allreduce", "all ranks");
    expect_later_ones_right();
  }
}

/// Of some pairs no data would ever meet: both only send, or both only receive. Where there are more ranks than two,
/// some may be through before they hear.
TEST_F(PersistentCollective, meets_no_other_one) {
  if (ranks() < 2) GTEST_SKIP() << "two ranks make different calls";
  using Init = std::function<int()>;
  const Init allreduce_init = [&] { return allreduce(); };
  const Init barrier_init = [&] { return Partita_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &request_); };
  const Init bcast_init = [&] {
    return Partita_Bcast_init(in_.data(), 4, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request_);
  };
  const Init reduce_init = [&] {
    return Partita_Reduce_init(in_.data(), out_.data(), 4, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD, MPI_INFO_NULL,
                               &request_);
  };
  const struct {
    const Init& first;  ///< of rank 0
    const char* its_name;
    const Init& other;
    const char* other_name;
  } pairs[] = {{allreduce_init, "a persistent allreduce", barrier_init, "a persistent barrier"},
               {barrier_init, "a persistent barrier", bcast_init, "a persistent bcast"},
               {bcast_init, "a persistent bcast", reduce_init, "a persistent reduce"},
               {reduce_init, "a persistent reduce", bcast_init, "a persistent bcast"}};
  for (const auto& [first, its_name, other, other_name] : pairs) {
    ASSERT_OK(rank() == 0 ? first() : other());
    const int code = outcome();
    if (code != MPI_SUCCESS || rank() == 0 || ranks() == 2) {
      EXPECT_ERROR(code, MPI_ERR_REQUEST, its_name, other_name, "the same on all ranks");
    }
    in_.assign(4, 1);
    expect_later_ones_right();
  }
}

/// The ranks that share data with rank 0 find in the match that its sizes differ, and start nothing. Rank 3 shares none
/// with it, and has started.
TEST_F(PersistentCollective, ranks_that_have_started_hear_of_a_match_that_failed) {
  if (ranks() != 4) GTEST_SKIP() << "of four ranks, one shares no data with rank 0";
  for (const bool nonblocking : {false, true}) {
    ASSERT_OK(allreduce(rank() == 0 ? 3 : 4));
    int code = MPI_SUCCESS;
    Partita_Request matching = PARTITA_REQUEST_NULL;
    if (rank() == 3) {
      code = Partita_Start(&request_);
      if (code == MPI_SUCCESS) code = Partita_Wait(&request_, MPI_STATUS_IGNORE);
    } else if (nonblocking) {
      ASSERT_OK(Partita_Imatch(&request_, &matching));
      code = Partita_Wait(&matching, MPI_STATUS_IGNORE);
      ASSERT_OK(Partita_Request_free(&matching));
    } else {
      code = Partita_Match(&request_);
    }
    EXPECT_ERROR(code, MPI_ERR_TRUNCATE, "persistent allreduce: ", "12 bytes", "16 bytes");
    EXPECT_ERROR(Partita_Start(&request_), rank() == 3 ? MPI_ERR_REQUEST : MPI_ERR_TRUNCATE, "ersistent allreduce");
    harness_barrier();
    ASSERT_OK(Partita_Request_free(&request_));
    expect_later_ones_right();
  }
}

}  // namespace
}  // namespace partita::test
