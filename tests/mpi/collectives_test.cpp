// Partitioned collectives beside the MPI's own of the same arguments, whose counts are those of whole blocks.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "support/errors.hpp"
#include "support/job.hpp"
#include "support/random.hpp"

namespace partita::test {
namespace {

/// Two integers (a, b) that stand for x -> ax + b modulo a prime: associative, not commutative.
void compose(void* in, void* inout, int* length, MPI_Datatype*) {
  constexpr int prime = 10007;
  const int* first = static_cast<const int*>(in);
  int* second = static_cast<int*>(inout);
  for (int i = 0; i < *length; ++i, first += 2, second += 2) {
    const int a = first[0] * second[0] % prime;
    const int b = (first[1] * second[0] + second[1]) % prime;
    second[0] = a;
    second[1] = b;
  }
}

/// The datatypes and the operation of the tests.
struct Handles {
  MPI_Datatype pair = MPI_DATATYPE_NULL;
  MPI_Datatype gapped = MPI_DATATYPE_NULL;  ///< an integer, a gap, an integer
  MPI_Op composition = MPI_OP_NULL;
};

class OwnedHandles : public Handles {
 public:
  OwnedHandles() {
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    MPI_Type_vector(2, 1, 2, MPI_INT, &gapped);
    MPI_Type_commit(&gapped);
    MPI_Op_create(compose, 0, &composition);
  }
  ~OwnedHandles() {
    MPI_Op_free(&composition);
    MPI_Type_free(&gapped);
    MPI_Type_free(&pair);
  }
  OwnedHandles(const OwnedHandles&) = delete;
  OwnedHandles& operator=(const OwnedHandles&) = delete;
};

/// The arguments of one collective, drawn alike on all ranks but for its own rank, and its buffers.
struct Trial {
  Random random;
  int partitions;
  int root;
  int epochs = 3;
  MPI_Comm comm = MPI_COMM_WORLD;
  int me = rank();
  int size = ranks();

  std::vector<int> sent, received;  ///< room for all blocks
  std::vector<int> expected;

  explicit Trial(std::uint64_t stream)
      : random(job_seed(), stream), partitions(random.integer(1, 5)), root(random.integer(0, ranks() - 1)) {}

  int count() { return random.of(std::vector<int>{0, 1, 2, 7, 300}); }
  std::vector<MPI_Count> counts(int blocks) {
    std::vector<MPI_Count> drawn(static_cast<std::size_t>(blocks));
    for (MPI_Count& each : drawn) each = count();
    return drawn;
  }
};

int in_blocks(MPI_Count count, int partitions) {
  return static_cast<int>(count) * partitions;
}

std::vector<int> in_blocks(const std::vector<MPI_Count>& counts, int partitions) {
  std::vector<int> whole;
  for (const MPI_Count count : counts) whole.push_back(in_blocks(count, partitions));
  return whole;
}

/// Places of blocks with a gap behind each, in elements.
template <class Offset>
std::vector<Offset> displacements(const std::vector<MPI_Count>& counts, int partitions, Offset scale = 1) {
  std::vector<Offset> places;
  Offset next = 0;
  for (const MPI_Count count : counts) {
    places.push_back(next * scale);
    next += static_cast<Offset>(in_blocks(count, partitions)) + 1;
  }
  return places;
}

/// Which ranks may give MPI_IN_PLACE.
enum class InPlace { none, all, sending_root, receiving_root };

/// What the init calls of the table below are given.
MPI_Info chosen_algorithm = MPI_INFO_NULL;

class ChosenAlgorithm {
 public:
  explicit ChosenAlgorithm(const char* name) {
    MPI_Info_create(&chosen_algorithm);
    MPI_Info_set(chosen_algorithm, "partita_algorithm", name);
  }
  ~ChosenAlgorithm() { MPI_Info_free(&chosen_algorithm); }
  ChosenAlgorithm(const ChosenAlgorithm&) = delete;
  ChosenAlgorithm& operator=(const ChosenAlgorithm&) = delete;
};

/// One collective: how its request is made, what the MPI's own call of it is, and who marks and awaits.
struct Made {
  std::function<int(const void* sendbuf, void* recvbuf, Partita_Request*)> init;
  std::function<int(const void* sendbuf, void* recvbuf)> reference;
  std::size_t sent_ints = 0;
  std::size_t received_ints = 0;
  bool marks = true;
  bool receives = true;
  bool sends_from_received = false;  ///< one buffer for both, as a broadcast has
  InPlace in_place = InPlace::none;
};

/// The epochs of a request beside the MPI's own.
void expect_like_the_mpi(Trial& trial, const Made& made) {
  std::vector<int> sent(made.sent_ints + 1), received(made.received_ints + 1), expected(made.received_ints + 1);
  const bool at_root = trial.me == trial.root;
  const bool sends_in_place = made.in_place == InPlace::all || (made.in_place == InPlace::sending_root && at_root);
  const bool receives_in_place = made.in_place == InPlace::receiving_root && at_root;
  const void* sendbuf = sends_in_place ? MPI_IN_PLACE : sent.data();
  Partita_Request request = PARTITA_REQUEST_NULL;
  const int code = made.init(sendbuf, receives_in_place ? MPI_IN_PLACE : received.data(), &request);
  // An algorithm may not serve these arguments; then it serves them on no rank.
  if (chosen_algorithm != MPI_INFO_NULL && class_of(code) == MPI_ERR_INFO_VALUE) return;
  ASSERT_EQ(MPI_SUCCESS, code);
  for (int epoch = 0; epoch < trial.epochs; ++epoch) {
    const auto value = [&](std::size_t i) {
      return static_cast<int>((static_cast<std::size_t>(trial.me) * 7919 + i * 31 + static_cast<std::size_t>(epoch)) %
                              97) +
             1;
    };
    for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = value(i);
    for (std::size_t i = 0; i < received.size(); ++i)
      received[i] = sends_in_place || made.sends_from_received ? value(i) : -1;
    expected = received;
    step("the MPI's own call");
    ASSERT_EQ(MPI_SUCCESS, made.reference(sendbuf, receives_in_place ? MPI_IN_PLACE : expected.data()));
    step("the partitioned call");
    ASSERT_EQ(MPI_SUCCESS, Partita_Start(&request));
    if (made.marks) {
      for (const int partition :
           Random(job_seed(), static_cast<std::uint64_t>(trial.me + 100 * epoch)).permutation(trial.partitions)) {
        ASSERT_EQ(MPI_SUCCESS, Partita_Pready(partition, request));
      }
    }
    if (made.receives && !receives_in_place && epoch == 1) {
      step("partitions arrive");
      for (int partition = 0; partition < trial.partitions; ++partition) {
        for (int flag = 0; flag == 0; sched_yield())
          ASSERT_EQ(MPI_SUCCESS, Partita_Parrived(request, partition, &flag));
      }
      ASSERT_EQ(expected, received) << "once all partitions have arrived";
    }
    step("the request is waited for");
    ASSERT_EQ(MPI_SUCCESS, Partita_Wait(&request, MPI_STATUS_IGNORE));
    ASSERT_EQ(expected, received) << "epoch " << epoch << ", " << trial.partitions << " partitions, root "
                                  << trial.root;
  }
  ASSERT_EQ(MPI_SUCCESS, Partita_Request_free(&request));
}

using Maker = std::function<Made(Trial&, const Handles&)>;

struct Collective {
  const char* name;
  InPlace in_place;
  std::vector<const char*> algorithms;
  Maker make;
};

std::size_t ints(MPI_Count elements, int per_element = 1) {
  return static_cast<std::size_t>(elements) * static_cast<std::size_t>(per_element);
}

template <class Counts>
std::size_t room(const Counts& counts, int partitions) {
  std::size_t all = 0;
  for (const MPI_Count count : counts) all += ints(count * partitions) + 1;
  return all;
}

const std::vector<Collective>& collectives() {
  static const std::vector<Collective> all = {
      {"bcast",
       InPlace::none,
       {"binomial", "linear", "binary_tree", "chain"},
       [](Trial& t, const Handles& h) {
         const int count = t.count();
         const int p = t.partitions, root = t.root;
         Made made;
         made.init = [=](const void*, void* buffer, Partita_Request* r) {
           return Partita_Pbcast_init(buffer, p, count, h.gapped, root, MPI_COMM_WORLD, chosen_algorithm, r);
         };
         made.reference = [=](const void*, void* buffer) {
           return PMPI_Bcast(buffer, in_blocks(count, p), h.gapped, root, MPI_COMM_WORLD);
         };
         made.received_ints = ints(count * p, 3);
         made.marks = t.me == root;
         made.receives = !made.marks;
         made.sends_from_received = true;
         return made;
       }},
      {"gather",
       InPlace::sending_root,
       {"linear", "binomial"},
       [](Trial& t, const Handles& h) {
         const int count = t.count();
         const int p = t.partitions, root = t.root, size = t.size;
         Made made;
         made.init = [=](const void* s, void* r, Partita_Request* q) {
           return Partita_Pgather_init(s, p, 2 * count, MPI_INT, r, count, h.pair, root, MPI_COMM_WORLD,
                                       chosen_algorithm, q);
         };
         made.reference = [=](const void* s, void* r) {
           return PMPI_Gather(s, in_blocks(2 * count, p), MPI_INT, r, in_blocks(count, p), h.pair, root,
                              MPI_COMM_WORLD);
         };
         made.sent_ints = ints(2 * count * p);
         made.received_ints = ints(2 * count * p * size);
         made.receives = t.me == root;
         return made;
       }},
      {"gatherv",
       InPlace::sending_root,
       {"linear"},
       [](Trial& t, const Handles&) {
         const auto counts = t.counts(t.size);
         const int p = t.partitions, root = t.root;
         const MPI_Count own = counts[static_cast<std::size_t>(t.me)];
         const auto places = displacements<MPI_Aint>(counts, p);
         Made made;
         made.init = [=](const void* s, void* r, Partita_Request* q) {
           return Partita_Pgatherv_init(s, p, own, MPI_INT, r, counts.data(), places.data(), MPI_INT, root,
                                        MPI_COMM_WORLD, chosen_algorithm, q);
         };
         made.reference = [=](const void* s, void* r) {
           return PMPI_Gatherv(s, in_blocks(own, p), MPI_INT, r, in_blocks(counts, p).data(),
                               displacements<int>(counts, p).data(), MPI_INT, root, MPI_COMM_WORLD);
         };
         made.sent_ints = ints(own * p);
         made.received_ints = room(counts, p);
         made.receives = t.me == root;
         return made;
       }},
      {"scatter",
       InPlace::receiving_root,
       {"linear", "binomial"},
       [](Trial& t, const Handles& h) {
         const int count = t.count();
         const int p = t.partitions, root = t.root;
         Made made;
         made.init = [=](const void* s, void* r, Partita_Request* q) {
           return Partita_Pscatter_init(s, p, count, h.pair, r, 2 * count, MPI_INT, root, MPI_COMM_WORLD,
                                        chosen_algorithm, q);
         };
         made.reference = [=](const void* s, void* r) {
           return PMPI_Scatter(s, in_blocks(count, p), h.pair, r, in_blocks(2 * count, p), MPI_INT, root,
                               MPI_COMM_WORLD);
         };
         made.sent_ints = ints(2 * count * p * t.size);
         made.received_ints = ints(2 * count * p);
         made.marks = t.me == root;
         return made;
       }},
      {"scatterv",
       InPlace::receiving_root,
       {"linear"},
       [](Trial& t, const Handles&) {
         const auto counts = t.counts(t.size);
         const int p = t.partitions, root = t.root;
         const MPI_Count own = counts[static_cast<std::size_t>(t.me)];
         const auto places = displacements<MPI_Aint>(counts, p);
         Made made;
         made.init = [=](const void* s, void* r, Partita_Request* q) {
           return Partita_Pscatterv_init(s, p, counts.data(), places.data(), MPI_INT, r, own, MPI_INT, root,
                                         MPI_COMM_WORLD, chosen_algorithm, q);
         };
         made.reference = [=](const void* s, void* r) {
           return PMPI_Scatterv(s, in_blocks(counts, p).data(), displacements<int>(counts, p).data(), MPI_INT, r,
                                in_blocks(own, p), MPI_INT, root, MPI_COMM_WORLD);
         };
         made.sent_ints = room(counts, p);
         made.received_ints = ints(own * p);
         made.marks = t.me == root;
         return made;
       }},
      {"allgather",
       InPlace::all,
       {"linear", "recursive_doubling", "bruck", "ring"},
       [](Trial& t, const Handles&) {
         const int count = t.count();
         const int p = t.partitions;
         Made made;
         made.init = [=](const void* s, void* r, Partita_Request* q) {
           return Partita_Pallgather_init(s, p, count, MPI_INT, r, count, MPI_INT, MPI_COMM_WORLD, chosen_algorithm, q);
         };
         made.reference = [=](const void* s, void* r) {
           return PMPI_Allgather(s, in_blocks(count, p), MPI_INT, r, in_blocks(count, p), MPI_INT, MPI_COMM_WORLD);
         };
         made.sent_ints = ints(count * p);
         made.received_ints = ints(count * p * t.size);
         return made;
       }},
      {"allgatherv",
       InPlace::all,
       {"linear", "recursive_doubling", "bruck", "ring"},
       [](Trial& t, const Handles&) {
         const auto counts = t.counts(t.size);
         const int p = t.partitions;
         const MPI_Count own = counts[static_cast<std::size_t>(t.me)];
         const auto places = displacements<MPI_Aint>(counts, p);
         Made made;
         made.init = [=](const void* s, void* r, Partita_Request* q) {
           return Partita_Pallgatherv_init(s, p, own, MPI_INT, r, counts.data(), places.data(), MPI_INT, MPI_COMM_WORLD,
                                           chosen_algorithm, q);
         };
         made.reference = [=](const void* s, void* r) {
           return PMPI_Allgatherv(s, in_blocks(own, p), MPI_INT, r, in_blocks(counts, p).data(),
                                  displacements<int>(counts, p).data(), MPI_INT, MPI_COMM_WORLD);
         };
         made.sent_ints = ints(own * p);
         made.received_ints = room(counts, p);
         return made;
       }},
      {"alltoall",
       InPlace::all,
       {"linear", "pairwise", "bruck"},
       [](Trial& t, const Handles&) {
         const int count = t.count();
         const int p = t.partitions;
         Made made;
         made.init = [=](const void* s, void* r, Partita_Request* q) {
           return Partita_Palltoall_init(s, p, count, MPI_INT, r, count, MPI_INT, MPI_COMM_WORLD, chosen_algorithm, q);
         };
         made.reference = [=](const void* s, void* r) {
           return PMPI_Alltoall(s, in_blocks(count, p), MPI_INT, r, in_blocks(count, p), MPI_INT, MPI_COMM_WORLD);
         };
         made.sent_ints = made.received_ints = ints(count * p * t.size);
         return made;
       }},
      {"alltoallv",
       InPlace::all,
       {"linear", "pairwise"},
       [](Trial& t, const Handles&) {
         // What i sends to j is the (i + j)-th count, so that both directions agree, as MPI_IN_PLACE asks for.
         const auto drawn = t.counts(2 * t.size);
         const std::vector<MPI_Count> counts(drawn.begin() + t.me, drawn.begin() + t.me + t.size);
         const int p = t.partitions;
         const auto places = displacements<MPI_Aint>(counts, p);
         Made made;
         made.init = [=](const void* s, void* r, Partita_Request* q) {
           return Partita_Palltoallv_init(s, p, counts.data(), places.data(), MPI_INT, r, counts.data(), places.data(),
                                          MPI_INT, MPI_COMM_WORLD, chosen_algorithm, q);
         };
         made.reference = [=](const void* s, void* r) {
           const auto whole = in_blocks(counts, p);
           const auto at = displacements<int>(counts, p);
           return PMPI_Alltoallv(s, whole.data(), at.data(), MPI_INT, r, whole.data(), at.data(), MPI_INT,
                                 MPI_COMM_WORLD);
         };
         made.sent_ints = made.received_ints = room(counts, p);
         return made;
       }},
      {"alltoallw",
       InPlace::all,
       {"linear", "pairwise"},
       [](Trial& t, const Handles&) {
         const auto drawn = t.counts(2 * t.size);
         const std::vector<MPI_Count> counts(drawn.begin() + t.me, drawn.begin() + t.me + t.size);
         const int p = t.partitions;
         const auto places = displacements<MPI_Aint>(counts, p, MPI_Aint{sizeof(int)});
         const std::vector<MPI_Datatype> types(counts.size(), MPI_INT);
         Made made;
         made.init = [=](const void* s, void* r, Partita_Request* q) {
           return Partita_Palltoallw_init(s, p, counts.data(), places.data(), types.data(), r, counts.data(),
                                          places.data(), types.data(), MPI_COMM_WORLD, chosen_algorithm, q);
         };
         made.reference = [=](const void* s, void* r) {
           const auto whole = in_blocks(counts, p);
           const auto at = displacements<int>(counts, p, int{sizeof(int)});
           return PMPI_Alltoallw(s, whole.data(), at.data(), types.data(), r, whole.data(), at.data(), types.data(),
                                 MPI_COMM_WORLD);
         };
         made.sent_ints = made.received_ints = room(counts, p);
         return made;
       }},
      {"reduce",
       InPlace::sending_root,
       {"binomial", "linear", "chain"},
       [](Trial& t, const Handles& h) {
         const int count = t.count();
         const int p = t.partitions, root = t.root;
         Made made;
         made.init = [=](const void* s, void* r, Partita_Request* q) {
           return Partita_Preduce_init(s, r, p, count, h.pair, h.composition, root, MPI_COMM_WORLD, chosen_algorithm,
                                       q);
         };
         made.reference = [=](const void* s, void* r) {
           return PMPI_Reduce(s, r, in_blocks(count, p), h.pair, h.composition, root, MPI_COMM_WORLD);
         };
         made.sent_ints = made.received_ints = ints(2 * count * p);
         made.receives = t.me == root;
         return made;
       }},
      {"allreduce",
       InPlace::all,
       {"recursive_doubling"},
       [](Trial& t, const Handles& h) {
         const int count = t.count();
         const int p = t.partitions;
         Made made;
         made.init = [=](const void* s, void* r, Partita_Request* q) {
           return Partita_Pallreduce_init(s, r, p, count, h.pair, h.composition, MPI_COMM_WORLD, chosen_algorithm, q);
         };
         made.reference = [=](const void* s, void* r) {
           return PMPI_Allreduce(s, r, in_blocks(count, p), h.pair, h.composition, MPI_COMM_WORLD);
         };
         made.sent_ints = made.received_ints = ints(2 * count * p);
         return made;
       }},
      {"allreduce_sum",
       InPlace::all,
       {"recursive_doubling", "ring", "recursive_halving"},
       [](Trial& t, const Handles&) {
         const int count = t.count();
         const int p = t.partitions;
         Made made;
         made.init = [=](const void* s, void* r, Partita_Request* q) {
           return Partita_Pallreduce_init(s, r, p, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD, chosen_algorithm, q);
         };
         made.reference = [=](const void* s, void* r) {
           return PMPI_Allreduce(s, r, in_blocks(count, p), MPI_INT, MPI_SUM, MPI_COMM_WORLD);
         };
         made.sent_ints = made.received_ints = ints(count * p);
         return made;
       }},
      {"reduce_scatter",
       InPlace::none,
       {"pairwise"},
       [](Trial& t, const Handles& h) {
         const auto counts = t.counts(t.size);
         const int p = t.partitions;
         Made made;
         made.init = [=](const void* s, void* r, Partita_Request* q) {
           return Partita_Preduce_scatter_init(s, r, p, counts.data(), h.pair, h.composition, MPI_COMM_WORLD,
                                               chosen_algorithm, q);
         };
         made.reference = [=](const void* s, void* r) {
           return PMPI_Reduce_scatter(s, r, in_blocks(counts, p).data(), h.pair, h.composition, MPI_COMM_WORLD);
         };
         made.sent_ints = 2 * room(counts, p);
         made.received_ints = ints(2 * counts[static_cast<std::size_t>(t.me)] * p);
         return made;
       }},
      {"reduce_scatter_block",
       InPlace::none,
       {"pairwise", "recursive_halving", "ring"},
       [](Trial& t, const Handles&) {
         const int count = t.count();
         const int p = t.partitions;
         Made made;
         made.init = [=](const void* s, void* r, Partita_Request* q) {
           return Partita_Preduce_scatter_block_init(s, r, p, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD, chosen_algorithm,
                                                     q);
         };
         made.reference = [=](const void* s, void* r) {
           return PMPI_Reduce_scatter_block(s, r, in_blocks(count, p), MPI_INT, MPI_SUM, MPI_COMM_WORLD);
         };
         made.sent_ints = ints(count * p * t.size);
         made.received_ints = ints(count * p);
         return made;
       }},
      {"scan",
       InPlace::all,
       {"recursive_doubling", "chain"},
       [](Trial& t, const Handles& h) {
         const int count = t.count();
         const int p = t.partitions;
         Made made;
         made.init = [=](const void* s, void* r, Partita_Request* q) {
           return Partita_Pscan_init(s, r, p, count, h.pair, h.composition, MPI_COMM_WORLD, chosen_algorithm, q);
         };
         made.reference = [=](const void* s, void* r) {
           return PMPI_Scan(s, r, in_blocks(count, p), h.pair, h.composition, MPI_COMM_WORLD);
         };
         made.sent_ints = made.received_ints = ints(2 * count * p);
         return made;
       }},
      {"exscan",
       InPlace::all,
       {"recursive_doubling", "chain"},
       [](Trial& t, const Handles& h) {
         const int count = t.count();
         const int p = t.partitions;
         Made made;
         made.init = [=](const void* s, void* r, Partita_Request* q) {
           return Partita_Pexscan_init(s, r, p, count, h.pair, h.composition, MPI_COMM_WORLD, chosen_algorithm, q);
         };
         made.reference = [=](const void* s, void* r) {
           return PMPI_Exscan(s, r, in_blocks(count, p), h.pair, h.composition, MPI_COMM_WORLD);
         };
         made.sent_ints = made.received_ints = ints(2 * count * p);
         made.receives = t.me != 0;
         return made;
       }},
  };
  return all;
}

class Collectives : public testing::TestWithParam<std::size_t> {};

TEST_P(Collectives, give_what_the_mpis_own_give) {
  const Collective& collective = collectives()[GetParam()];
  const OwnedHandles handles;
  const auto rounds = static_cast<std::uint64_t>(environment_number("PARTITEST_ROUNDS", 6));
  for (std::uint64_t round = 0; round < rounds; ++round) {
    for (const bool in_place : {false, true}) {
      if (in_place && collective.in_place == InPlace::none) continue;
      Trial trial(GetParam() * 100 + round * 2 + (in_place ? 1 : 0));
      Made made = collective.make(trial, handles);
      if (in_place) made.in_place = collective.in_place;
      expect_like_the_mpi(trial, made);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(Collectives, give_the_same_by_every_algorithm) {
  const Collective& collective = collectives()[GetParam()];
  const OwnedHandles handles;
  const ErrorsReturn handler(MPI_COMM_WORLD);
  std::uint64_t stream = 5000 + GetParam() * 100;
  for (const char* name : collective.algorithms) {
    SCOPED_TRACE(name);
    const ChosenAlgorithm chosen(name);
    for (const bool in_place : {false, true}) {
      if (in_place && collective.in_place == InPlace::none) continue;
      Trial trial(stream++);
      Made made = collective.make(trial, handles);
      if (in_place) made.in_place = collective.in_place;
      expect_like_the_mpi(trial, made);
      if (HasFatalFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Collectives, testing::Range(std::size_t{0}, collectives().size()),
                         [](const auto& info) { return std::string(collectives()[info.param].name); });

/// The MPI's type of a double and an index has a gap behind them, which is nobody's.
TEST(CollectiveReductions, leave_the_gaps_of_elements_alone) {
  struct Pair {
    double value;
    int index;
    int gap;
  };
  static_assert(sizeof(Pair) == 16);
  constexpr int partitions = 3, count = 5, elements = partitions * count;
  for (const char* name : {"recursive_doubling", "ring", "recursive_halving"}) {
    const ChosenAlgorithm chosen(name);
    std::vector<Pair> in(elements), out(elements), expected(elements);
    Partita_Request request = PARTITA_REQUEST_NULL;
    ASSERT_EQ(MPI_SUCCESS, Partita_Pallreduce_init(in.data(), out.data(), partitions, count, MPI_DOUBLE_INT, MPI_MAXLOC,
                                                   MPI_COMM_WORLD, chosen_algorithm, &request));
    for (int epoch = 0; epoch < 3; ++epoch) {
      for (int i = 0; i < elements; ++i) {
        in[static_cast<std::size_t>(i)] = {static_cast<double>((rank() * 7 + i + epoch) % 5), rank(), 1234};
      }
      out.assign(elements, {-1, -1, 77});
      expected = out;
      ASSERT_EQ(MPI_SUCCESS,
                PMPI_Allreduce(in.data(), expected.data(), elements, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD));
      ASSERT_EQ(MPI_SUCCESS, Partita_Start(&request));
      ASSERT_EQ(MPI_SUCCESS, Partita_Pready_range(0, partitions - 1, request));
      ASSERT_EQ(MPI_SUCCESS, Partita_Wait(&request, MPI_STATUS_IGNORE));
      for (std::size_t i = 0; i < elements; ++i) {
        EXPECT_EQ(expected[i].value, out[i].value) << name;
        EXPECT_EQ(expected[i].index, out[i].index) << name;
        EXPECT_EQ(77, out[i].gap) << name;
      }
    }
    ASSERT_EQ(MPI_SUCCESS, Partita_Request_free(&request));
  }
}

/// A thread that marks may come back after another one has waited, and started the next epoch.
TEST(CollectiveThreads, wait_and_start_while_a_mark_returns) {
  if (thread_level() < MPI_THREAD_MULTIPLE) GTEST_SKIP() << "one thread calls this MPI";
  constexpr int partitions = 2, epochs = 300;
  std::vector<int> in(partitions), out(partitions);
  Partita_Request request = PARTITA_REQUEST_NULL;
  ASSERT_EQ(MPI_SUCCESS, Partita_Pallreduce_init(in.data(), out.data(), partitions, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD,
                                                 MPI_INFO_NULL, &request));
  std::atomic<int> open{0};
  std::thread marking([&] {
    for (int epoch = 1; epoch <= epochs; ++epoch) {
      while (open.load() < epoch) sched_yield();
      EXPECT_EQ(MPI_SUCCESS, Partita_Pready(1, request));
    }
  });
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    in = {epoch, 2 * epoch};
    ASSERT_EQ(MPI_SUCCESS, Partita_Start(&request));
    open.store(epoch);
    ASSERT_EQ(MPI_SUCCESS, Partita_Pready(0, request));
    ASSERT_EQ(MPI_SUCCESS, Partita_Wait(&request, MPI_STATUS_IGNORE));
    ASSERT_EQ((std::vector{epoch * ranks(), 2 * epoch * ranks()}), out);
  }
  marking.join();
  ASSERT_EQ(MPI_SUCCESS, Partita_Request_free(&request));
}

/// Several threads mark, one of them waits meanwhile.
TEST(CollectiveThreads, mark_at_once) {
  if (thread_level() < MPI_THREAD_MULTIPLE) GTEST_SKIP() << "one thread calls this MPI";
  constexpr int partitions = 64, threads = 4, count = 3;
  std::vector<int> in(partitions * count, rank() + 1), out(in.size());
  Partita_Request request = PARTITA_REQUEST_NULL;
  ASSERT_EQ(MPI_SUCCESS, Partita_Pallreduce_init(in.data(), out.data(), partitions, count, MPI_INT, MPI_SUM,
                                                 MPI_COMM_WORLD, MPI_INFO_NULL, &request));
  for (int epoch = 0; epoch < 20; ++epoch) {
    out.assign(out.size(), -1);
    ASSERT_EQ(MPI_SUCCESS, Partita_Start(&request));
    std::vector<std::thread> marking;
    for (int t = 0; t < threads; ++t) {
      marking.emplace_back([&, t] {
        for (int p = t; p < partitions; p += threads) EXPECT_EQ(MPI_SUCCESS, Partita_Pready(p, request));
      });
    }
    int flag = 0;
    while (flag == 0) ASSERT_EQ(MPI_SUCCESS, Partita_Parrived(request, epoch, &flag));
    EXPECT_EQ(ranks() * (ranks() + 1) / 2, out[static_cast<std::size_t>(epoch * count)]);
    for (std::thread& thread : marking) thread.join();
    ASSERT_EQ(MPI_SUCCESS, Partita_Wait(&request, MPI_STATUS_IGNORE));
    ASSERT_EQ(std::vector<int>(out.size(), ranks() * (ranks() + 1) / 2), out);
  }
  ASSERT_EQ(MPI_SUCCESS, Partita_Request_free(&request));
}

/// A communicator with a process topology, and the ranks around this one in it.
class Topology {
 public:
  static constexpr int kinds = 4;

  explicit Topology(int kind) {
    if (kind == 0 || kind == 1) {
      make_grid({ranks()}, kind == 0);
    } else if (kind == 2) {
      std::vector<int> sides(2, 0);
      MPI_Dims_create(ranks(), 2, sides.data());
      make_grid(sides, true);
    } else {
      // Twice to the right, once to itself.
      const int right = (rank() + 1) % ranks(), left = (rank() + ranks() - 1) % ranks();
      sources = {left, rank(), left};
      destinations = {right, rank(), right};
      MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 3, sources.data(), MPI_UNWEIGHTED, 3, destinations.data(),
                                     MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm);
    }
    EXPECT_EQ(MPI_SUCCESS, Partita_Comm_register(comm));
  }
  ~Topology() { MPI_Comm_free(&comm); }
  Topology(const Topology&) = delete;
  Topology& operator=(const Topology&) = delete;

  /// So many elements go from one rank to another; none to or from where there is nobody.
  static MPI_Count between(int from, int to) {
    return from == MPI_PROC_NULL || to == MPI_PROC_NULL ? 0 : (3 * from + 5 * to) % 4;
  }
  std::vector<MPI_Count> sent_counts() const {
    std::vector<MPI_Count> counts;
    for (const int destination : destinations) counts.push_back(between(rank(), destination));
    return counts;
  }
  std::vector<MPI_Count> received_counts() const {
    std::vector<MPI_Count> counts;
    for (const int source : sources) counts.push_back(between(source, rank()));
    return counts;
  }

  MPI_Comm comm = MPI_COMM_NULL;
  std::vector<int> sources, destinations;

 private:
  void make_grid(const std::vector<int>& sides, bool periodic) {
    const std::vector<int> periods(sides.size(), periodic ? 1 : 0);
    MPI_Cart_create(MPI_COMM_WORLD, static_cast<int>(sides.size()), sides.data(), periods.data(), 0, &comm);
    for (int d = 0; d < static_cast<int>(sides.size()); ++d) {
      int lower = MPI_PROC_NULL, upper = MPI_PROC_NULL;
      MPI_Cart_shift(comm, d, 1, &lower, &upper);
      sources.insert(sources.end(), {lower, upper});
    }
    destinations = sources;
  }
};

class NeighbourCollectives : public testing::TestWithParam<int> {
 protected:
  const Topology topology_{GetParam()};
  MPI_Comm comm_ = topology_.comm;
  Trial trial_{1000 + static_cast<std::uint64_t>(GetParam())};
  int p_ = trial_.partitions;
};

TEST_P(NeighbourCollectives, allgather) {
  const int count = trial_.count();
  Made made;
  made.init = [=, this](const void* s, void* r, Partita_Request* q) {
    return Partita_Pneighbor_allgather_init(s, p_, count, MPI_INT, r, count, MPI_INT, comm_, MPI_INFO_NULL, q);
  };
  made.reference = [=, this](const void* s, void* r) {
    return PMPI_Neighbor_allgather(s, in_blocks(count, p_), MPI_INT, r, in_blocks(count, p_), MPI_INT, comm_);
  };
  made.sent_ints = ints(count * p_);
  made.received_ints = ints(count * p_) * topology_.sources.size();
  expect_like_the_mpi(trial_, made);
}

TEST_P(NeighbourCollectives, allgatherv) {
  std::vector<MPI_Count> counts;
  for (const int source : topology_.sources) counts.push_back(source == MPI_PROC_NULL ? 0 : source + 1);
  const MPI_Count own = rank() + 1;
  const auto places = displacements<MPI_Aint>(counts, p_);
  Made made;
  made.init = [=, this](const void* s, void* r, Partita_Request* q) {
    return Partita_Pneighbor_allgatherv_init(s, p_, own, MPI_INT, r, counts.data(), places.data(), MPI_INT, comm_,
                                             MPI_INFO_NULL, q);
  };
  made.reference = [=, this](const void* s, void* r) {
    return PMPI_Neighbor_allgatherv(s, in_blocks(own, p_), MPI_INT, r, in_blocks(counts, p_).data(),
                                    displacements<int>(counts, p_).data(), MPI_INT, comm_);
  };
  made.sent_ints = ints(own * p_);
  made.received_ints = room(counts, p_);
  expect_like_the_mpi(trial_, made);
}

TEST_P(NeighbourCollectives, alltoall) {
  const int count = trial_.count();
  Made made;
  made.init = [=, this](const void* s, void* r, Partita_Request* q) {
    return Partita_Pneighbor_alltoall_init(s, p_, count, MPI_INT, r, count, MPI_INT, comm_, MPI_INFO_NULL, q);
  };
  made.reference = [=, this](const void* s, void* r) {
    return PMPI_Neighbor_alltoall(s, in_blocks(count, p_), MPI_INT, r, in_blocks(count, p_), MPI_INT, comm_);
  };
  made.sent_ints = ints(count * p_) * topology_.destinations.size();
  made.received_ints = ints(count * p_) * topology_.sources.size();
  expect_like_the_mpi(trial_, made);
}

TEST_P(NeighbourCollectives, alltoallv) {
  const auto out = topology_.sent_counts(), in = topology_.received_counts();
  const auto from = displacements<MPI_Aint>(out, p_), to = displacements<MPI_Aint>(in, p_);
  Made made;
  made.init = [=, this](const void* s, void* r, Partita_Request* q) {
    return Partita_Pneighbor_alltoallv_init(s, p_, out.data(), from.data(), MPI_INT, r, in.data(), to.data(), MPI_INT,
                                            comm_, MPI_INFO_NULL, q);
  };
  made.reference = [=, this](const void* s, void* r) {
    return PMPI_Neighbor_alltoallv(s, in_blocks(out, p_).data(), displacements<int>(out, p_).data(), MPI_INT, r,
                                   in_blocks(in, p_).data(), displacements<int>(in, p_).data(), MPI_INT, comm_);
  };
  made.sent_ints = room(out, p_);
  made.received_ints = room(in, p_);
  expect_like_the_mpi(trial_, made);
}

TEST_P(NeighbourCollectives, alltoallw) {
  const auto out = topology_.sent_counts(), in = topology_.received_counts();
  const MPI_Aint scale{sizeof(int)};
  const auto from = displacements(out, p_, scale), to = displacements(in, p_, scale);
  const std::vector<MPI_Datatype> types(std::max(out.size(), in.size()), MPI_INT);
  Made made;
  made.init = [=, this](const void* s, void* r, Partita_Request* q) {
    return Partita_Pneighbor_alltoallw_init(s, p_, out.data(), from.data(), types.data(), r, in.data(), to.data(),
                                            types.data(), comm_, MPI_INFO_NULL, q);
  };
  made.reference = [=, this](const void* s, void* r) {
    return PMPI_Neighbor_alltoallw(s, in_blocks(out, p_).data(), from.data(), types.data(), r, in_blocks(in, p_).data(),
                                   to.data(), types.data(), comm_);
  };
  made.sent_ints = room(out, p_);
  made.received_ints = room(in, p_);
  expect_like_the_mpi(trial_, made);
}

INSTANTIATE_TEST_SUITE_P(Topologies, NeighbourCollectives, testing::Range(0, Topology::kinds));

}  // namespace
}  // namespace partita::test
