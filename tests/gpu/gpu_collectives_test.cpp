// Partitioned collectives on GPU memory beside the MPI's own on host memory of the same contents; on CUDA, and on the
// fake GPU.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <sched.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "support/errors.hpp"
#include "support/job.hpp"
#include "support/memory.hpp"
#include "support/random.hpp"
#include "support/sanitized.hpp"

namespace partita::test {
namespace {

using Contents = std::vector<std::uint8_t>;
using Counts = std::vector<MPI_Count>;

/// Elements that consist of numbers of one kind, small ones: sums and products of them are exact.
struct ElementType {
  const char* name;
  MPI_Datatype datatype;
  int numbers;
  int number_bytes;
  bool is_float;

  MPI_Aint size_bytes() const { return MPI_Aint{number_bytes} * numbers; }
};

template <class T>
void store(std::uint8_t* to, int value) {
  const T number = static_cast<T>(value);
  std::memcpy(to, &number, sizeof number);
}

Contents numbers(const ElementType& type, MPI_Count elements, Random& random) {
  Contents bytes(static_cast<std::size_t>(elements * type.size_bytes()));
  for (std::size_t at = 0; at < bytes.size(); at += static_cast<std::size_t>(type.number_bytes)) {
    std::uint8_t* const to = bytes.data() + at;
    const int value = random.integer(1, 3);
    if (type.is_float) {
      type.number_bytes == 4 ? store<float>(to, value) : store<double>(to, value);
    } else if (type.number_bytes == 1) {
      store<std::int8_t>(to, value);
    } else if (type.number_bytes == 2) {
      store<std::int16_t>(to, value);
    } else {
      type.number_bytes == 4 ? store<std::int32_t>(to, value) : store<std::int64_t>(to, value);
    }
  }
  return bytes;
}

/// An operation on elements.
struct Pairing {
  const char* name;
  MPI_Op op;
  ElementType type;
};

const ElementType& ints() {
  static const ElementType type{"int", MPI_INT, 1, 4, false};
  return type;
}

const std::vector<Pairing>& pairings() {
  static const std::vector<Pairing> all = {
      {"sum_of_int", MPI_SUM, ints()},
      {"sum_of_double", MPI_SUM, {"double", MPI_DOUBLE, 1, 8, true}},
      {"prod_of_signed_char", MPI_PROD, {"signed char", MPI_SIGNED_CHAR, 1, 1, false}},
      {"max_of_float", MPI_MAX, {"float", MPI_FLOAT, 1, 4, true}},
      {"min_of_short", MPI_MIN, {"short", MPI_SHORT, 1, 2, false}},
      {"bxor_of_uint64", MPI_BXOR, {"uint64_t", MPI_UINT64_T, 1, 8, false}},
      {"land_of_int", MPI_LAND, ints()},
      {"maxloc_of_2int", MPI_MAXLOC, {"two int", MPI_2INT, 2, 4, false}},
      {"prod_of_double_complex", MPI_PROD, {"double complex", MPI_C_DOUBLE_COMPLEX, 2, 8, true}},
  };
  return all;
}

/// The last and the first two of five numbers in memory, gaps included, in this order.
class GappedType final : public testing::Environment {
 public:
  MPI_Datatype type() {
    if (type_ != MPI_DATATYPE_NULL) return type_;
    const int lengths[2] = {1, 2};
    const int offsets[2] = {4, 0};
    MPI_Datatype numbers = MPI_DATATYPE_NULL;
    MPI_Type_indexed(2, lengths, offsets, MPI_INT, &numbers);
    MPI_Type_create_resized(numbers, 0, 5 * sizeof(int), &type_);
    MPI_Type_free(&numbers);
    MPI_Type_commit(&type_);
    return type_;
  }

 private:
  void TearDown() override {
    if (type_ != MPI_DATATYPE_NULL) MPI_Type_free(&type_);
  }
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};
GappedType& gapped_type = *static_cast<GappedType*>(testing::AddGlobalTestEnvironment(new GappedType));

/// For what does not reduce.
Pairing gapped() {
  return {"gapped", MPI_OP_NULL, {"three of five int", gapped_type.type(), 5, 4, false}};
}

/// The arguments of one collective, drawn alike on all ranks.
struct Trial {
  Random random;
  int partitions;
  int root;
  Pairing pairing;
  MPI_Info info = MPI_INFO_NULL;
  int me = rank();
  int size = ranks();
  MPI_Comm comm = MPI_COMM_WORLD;
  std::vector<int> sources, destinations;

  Trial(std::uint64_t stream, Pairing chosen)
      : random(job_seed(), stream),
        partitions(random.integer(1, 4)),
        root(random.integer(0, ranks() - 1)),
        pairing(chosen) {}

  MPI_Datatype datatype() const { return pairing.type.datatype; }
  MPI_Op op() const { return pairing.op; }
  int count() { return random.of(std::vector<int>{0, 1, 3, 257, repetitions(5000, 1400)}); }
  Counts counts(std::size_t blocks) {
    Counts drawn(blocks);
    for (MPI_Count& each : drawn) each = count();
    return drawn;
  }
  int whole(MPI_Count count) const { return static_cast<int>(count) * partitions; }
  std::vector<int> whole(const Counts& counts) const {
    std::vector<int> all;
    for (const MPI_Count each : counts) all.push_back(whole(each));
    return all;
  }
  /// Places of blocks with a gap behind each.
  template <class Offset>
  std::vector<Offset> places(const Counts& counts, MPI_Aint scale = 1) const {
    std::vector<Offset> all;
    MPI_Aint next = 0;
    for (const MPI_Count each : counts) {
      all.push_back(static_cast<Offset>(next * scale));
      next += whole(each) + 1;
    }
    return all;
  }
  MPI_Count room(const Counts& counts) const {
    return std::accumulate(counts.begin(), counts.end(), MPI_Count{0}) * partitions +
           static_cast<MPI_Count>(counts.size());
  }
};

enum class InPlace { none, all, sending_root, receiving_root };

/// How a request is made, what the MPI's own call of it is, and who marks and awaits.
struct Made {
  std::function<int(const void* sendbuf, void* recvbuf, Partita_Request*)> init;
  std::function<int(const void* sendbuf, void* recvbuf)> reference;
  MPI_Count sent = 0;  ///< elements
  MPI_Count received = 0;
  MPI_Count result = -1;  ///< so many of them count in place, where the MPI leaves anything in the others; -1: all
  bool marks = true;
  bool receives = true;
  bool sends_from_received = false;
};

struct Collective {
  const char* name;
  InPlace in_place;
  std::vector<const char*> algorithms;
  std::function<Made(Trial&)> make;
  bool reduces = false;
  bool has_neighbours = false;
};

const std::vector<Collective>& collectives() {
  using A = MPI_Aint;
  static const std::vector<Collective> all = {
      {"bcast",
       InPlace::none,
       {"binomial", "linear", "binary_tree", "chain"},
       [](Trial& t) {
         const int count = t.count();
         Made made;
         made.init = [&t, count](const void*, void* b, Partita_Request* q) {
           return Partita_Pbcast_init(b, t.partitions, count, t.datatype(), t.root, t.comm, t.info, q);
         };
         made.reference = [&t, count](const void*, void* b) {
           return PMPI_Bcast(b, t.whole(count), t.datatype(), t.root, t.comm);
         };
         made.received = t.whole(count);
         made.marks = t.me == t.root;
         made.receives = !made.marks;
         made.sends_from_received = true;
         return made;
       }},
      {"gather",
       InPlace::sending_root,
       {"linear", "binomial"},
       [](Trial& t) {
         const int count = t.count();
         Made made;
         made.init = [&t, count](const void* s, void* r, Partita_Request* q) {
           return Partita_Pgather_init(s, t.partitions, count, t.datatype(), r, count, t.datatype(), t.root, t.comm,
                                       t.info, q);
         };
         made.reference = [&t, count](const void* s, void* r) {
           return PMPI_Gather(s, t.whole(count), t.datatype(), r, t.whole(count), t.datatype(), t.root, t.comm);
         };
         made.sent = t.whole(count);
         made.received = MPI_Count{t.whole(count)} * t.size;
         made.receives = t.me == t.root;
         return made;
       }},
      {"gatherv",
       InPlace::sending_root,
       {"linear"},
       [](Trial& t) {
         const auto counts = t.counts(static_cast<std::size_t>(t.size));
         const auto own = counts[static_cast<std::size_t>(t.me)];
         Made made;
         made.init = [&t, counts, own](const void* s, void* r, Partita_Request* q) {
           return Partita_Pgatherv_init(s, t.partitions, own, t.datatype(), r, counts.data(),
                                        t.places<A>(counts).data(), t.datatype(), t.root, t.comm, t.info, q);
         };
         made.reference = [&t, counts, own](const void* s, void* r) {
           return PMPI_Gatherv(s, t.whole(own), t.datatype(), r, t.whole(counts).data(), t.places<int>(counts).data(),
                               t.datatype(), t.root, t.comm);
         };
         made.sent = t.whole(own);
         made.received = t.room(counts);
         made.receives = t.me == t.root;
         return made;
       }},
      {"scatter",
       InPlace::receiving_root,
       {"linear", "binomial"},
       [](Trial& t) {
         const int count = t.count();
         Made made;
         made.init = [&t, count](const void* s, void* r, Partita_Request* q) {
           return Partita_Pscatter_init(s, t.partitions, count, t.datatype(), r, count, t.datatype(), t.root, t.comm,
                                        t.info, q);
         };
         made.reference = [&t, count](const void* s, void* r) {
           return PMPI_Scatter(s, t.whole(count), t.datatype(), r, t.whole(count), t.datatype(), t.root, t.comm);
         };
         made.sent = MPI_Count{t.whole(count)} * t.size;
         made.received = t.whole(count);
         made.marks = t.me == t.root;
         return made;
       }},
      {"scatterv",
       InPlace::receiving_root,
       {"linear"},
       [](Trial& t) {
         const auto counts = t.counts(static_cast<std::size_t>(t.size));
         const auto own = counts[static_cast<std::size_t>(t.me)];
         Made made;
         made.init = [&t, counts, own](const void* s, void* r, Partita_Request* q) {
           return Partita_Pscatterv_init(s, t.partitions, counts.data(), t.places<A>(counts).data(), t.datatype(), r,
                                         own, t.datatype(), t.root, t.comm, t.info, q);
         };
         made.reference = [&t, counts, own](const void* s, void* r) {
           return PMPI_Scatterv(s, t.whole(counts).data(), t.places<int>(counts).data(), t.datatype(), r, t.whole(own),
                                t.datatype(), t.root, t.comm);
         };
         made.sent = t.room(counts);
         made.received = t.whole(own);
         made.marks = t.me == t.root;
         return made;
       }},
      {"allgather",
       InPlace::all,
       {"linear", "recursive_doubling", "bruck", "ring"},
       [](Trial& t) {
         const int count = t.count();
         Made made;
         made.init = [&t, count](const void* s, void* r, Partita_Request* q) {
           return Partita_Pallgather_init(s, t.partitions, count, t.datatype(), r, count, t.datatype(), t.comm, t.info,
                                          q);
         };
         made.reference = [&t, count](const void* s, void* r) {
           return PMPI_Allgather(s, t.whole(count), t.datatype(), r, t.whole(count), t.datatype(), t.comm);
         };
         made.sent = t.whole(count);
         made.received = MPI_Count{t.whole(count)} * t.size;
         return made;
       }},
      {"allgatherv",
       InPlace::all,
       {"linear", "recursive_doubling", "bruck", "ring"},
       [](Trial& t) {
         const auto counts = t.counts(static_cast<std::size_t>(t.size));
         const auto own = counts[static_cast<std::size_t>(t.me)];
         Made made;
         made.init = [&t, counts, own](const void* s, void* r, Partita_Request* q) {
           return Partita_Pallgatherv_init(s, t.partitions, own, t.datatype(), r, counts.data(),
                                           t.places<A>(counts).data(), t.datatype(), t.comm, t.info, q);
         };
         made.reference = [&t, counts, own](const void* s, void* r) {
           return PMPI_Allgatherv(s, t.whole(own), t.datatype(), r, t.whole(counts).data(),
                                  t.places<int>(counts).data(), t.datatype(), t.comm);
         };
         made.sent = t.whole(own);
         made.received = t.room(counts);
         return made;
       }},
      {"alltoall",
       InPlace::all,
       {"linear", "pairwise", "bruck"},
       [](Trial& t) {
         const int count = t.count();
         Made made;
         made.init = [&t, count](const void* s, void* r, Partita_Request* q) {
           return Partita_Palltoall_init(s, t.partitions, count, t.datatype(), r, count, t.datatype(), t.comm, t.info,
                                         q);
         };
         made.reference = [&t, count](const void* s, void* r) {
           return PMPI_Alltoall(s, t.whole(count), t.datatype(), r, t.whole(count), t.datatype(), t.comm);
         };
         made.sent = made.received = MPI_Count{t.whole(count)} * t.size;
         return made;
       }},
      {"alltoallv",
       InPlace::all,
       {"linear", "pairwise"},
       [](Trial& t) {
         // What i sends to j is the (i + j)-th count, so that both directions agree, as MPI_IN_PLACE asks for.
         const auto drawn = t.counts(2 * static_cast<std::size_t>(t.size));
         const Counts counts(drawn.begin() + t.me, drawn.begin() + t.me + t.size);
         Made made;
         made.init = [&t, counts](const void* s, void* r, Partita_Request* q) {
           const auto places = t.places<A>(counts);
           return Partita_Palltoallv_init(s, t.partitions, counts.data(), places.data(), t.datatype(), r, counts.data(),
                                          places.data(), t.datatype(), t.comm, t.info, q);
         };
         made.reference = [&t, counts](const void* s, void* r) {
           const auto whole = t.whole(counts);
           const auto places = t.places<int>(counts);
           return PMPI_Alltoallv(s, whole.data(), places.data(), t.datatype(), r, whole.data(), places.data(),
                                 t.datatype(), t.comm);
         };
         made.sent = made.received = t.room(counts);
         return made;
       }},
      {"alltoallw",
       InPlace::all,
       {"linear", "pairwise"},
       [](Trial& t) {
         const auto drawn = t.counts(2 * static_cast<std::size_t>(t.size));
         const Counts counts(drawn.begin() + t.me, drawn.begin() + t.me + t.size);
         const std::vector<MPI_Datatype> types(counts.size(), t.datatype());
         const A scale = t.pairing.type.size_bytes();
         Made made;
         made.init = [&t, counts, types, scale](const void* s, void* r, Partita_Request* q) {
           const auto places = t.places<A>(counts, scale);
           return Partita_Palltoallw_init(s, t.partitions, counts.data(), places.data(), types.data(), r, counts.data(),
                                          places.data(), types.data(), t.comm, t.info, q);
         };
         made.reference = [&t, counts, types, scale](const void* s, void* r) {
           const auto whole = t.whole(counts);
           const auto places = t.places<int>(counts, scale);
           return PMPI_Alltoallw(s, whole.data(), places.data(), types.data(), r, whole.data(), places.data(),
                                 types.data(), t.comm);
         };
         made.sent = made.received = t.room(counts);
         return made;
       }},
      {"reduce",
       InPlace::sending_root,
       {"binomial", "linear", "chain"},
       [](Trial& t) {
         const int count = t.count();
         Made made;
         made.init = [&t, count](const void* s, void* r, Partita_Request* q) {
           return Partita_Preduce_init(s, r, t.partitions, count, t.datatype(), t.op(), t.root, t.comm, t.info, q);
         };
         made.reference = [&t, count](const void* s, void* r) {
           return PMPI_Reduce(s, r, t.whole(count), t.datatype(), t.op(), t.root, t.comm);
         };
         made.sent = made.received = t.whole(count);
         made.receives = t.me == t.root;
         return made;
       },
       true},
      {"allreduce",
       InPlace::all,
       {"recursive_doubling", "ring", "recursive_halving"},
       [](Trial& t) {
         const int count = t.count();
         Made made;
         made.init = [&t, count](const void* s, void* r, Partita_Request* q) {
           return Partita_Pallreduce_init(s, r, t.partitions, count, t.datatype(), t.op(), t.comm, t.info, q);
         };
         made.reference = [&t, count](const void* s, void* r) {
           return PMPI_Allreduce(s, r, t.whole(count), t.datatype(), t.op(), t.comm);
         };
         made.sent = made.received = t.whole(count);
         return made;
       },
       true},
      {"reduce_scatter",
       InPlace::none,
       {"pairwise", "recursive_halving", "ring"},
       [](Trial& t) {
         const auto counts = t.counts(static_cast<std::size_t>(t.size));
         Made made;
         made.init = [&t, counts](const void* s, void* r, Partita_Request* q) {
           return Partita_Preduce_scatter_init(s, r, t.partitions, counts.data(), t.datatype(), t.op(), t.comm, t.info,
                                               q);
         };
         made.reference = [&t, counts](const void* s, void* r) {
           return PMPI_Reduce_scatter(s, r, t.whole(counts).data(), t.datatype(), t.op(), t.comm);
         };
         made.sent = t.room(counts);
         made.received = t.whole(counts[static_cast<std::size_t>(t.me)]);
         return made;
       },
       true},
      {"reduce_scatter_block",
       InPlace::all,
       {"pairwise", "recursive_halving", "ring"},
       [](Trial& t) {
         const int count = t.count();
         Made made;
         made.init = [&t, count](const void* s, void* r, Partita_Request* q) {
           return Partita_Preduce_scatter_block_init(s, r, t.partitions, count, t.datatype(), t.op(), t.comm, t.info,
                                                     q);
         };
         made.reference = [&t, count](const void* s, void* r) {
           return PMPI_Reduce_scatter_block(s, r, t.whole(count), t.datatype(), t.op(), t.comm);
         };
         made.sent = made.received = MPI_Count{t.whole(count)} * t.size;
         made.result = t.whole(count);
         return made;
       },
       true},
      {"scan",
       InPlace::all,
       {"recursive_doubling", "chain"},
       [](Trial& t) {
         const int count = t.count();
         Made made;
         made.init = [&t, count](const void* s, void* r, Partita_Request* q) {
           return Partita_Pscan_init(s, r, t.partitions, count, t.datatype(), t.op(), t.comm, t.info, q);
         };
         made.reference = [&t, count](const void* s, void* r) {
           return PMPI_Scan(s, r, t.whole(count), t.datatype(), t.op(), t.comm);
         };
         made.sent = made.received = t.whole(count);
         return made;
       },
       true},
      {"exscan",
       InPlace::all,
       {"recursive_doubling", "chain"},
       [](Trial& t) {
         const int count = t.count();
         Made made;
         made.init = [&t, count](const void* s, void* r, Partita_Request* q) {
           return Partita_Pexscan_init(s, r, t.partitions, count, t.datatype(), t.op(), t.comm, t.info, q);
         };
         made.reference = [&t, count](const void* s, void* r) {
           return PMPI_Exscan(s, r, t.whole(count), t.datatype(), t.op(), t.comm);
         };
         made.sent = made.received = t.whole(count);
         made.receives = t.me != 0;
         return made;
       },
       true},
      {"neighbor_allgather",
       InPlace::none,
       {"linear"},
       [](Trial& t) {
         const int count = t.count();
         Made made;
         made.init = [&t, count](const void* s, void* r, Partita_Request* q) {
           return Partita_Pneighbor_allgather_init(s, t.partitions, count, t.datatype(), r, count, t.datatype(), t.comm,
                                                   t.info, q);
         };
         made.reference = [&t, count](const void* s, void* r) {
           return PMPI_Neighbor_allgather(s, t.whole(count), t.datatype(), r, t.whole(count), t.datatype(), t.comm);
         };
         made.sent = t.whole(count);
         made.received = t.whole(count) * static_cast<MPI_Count>(t.sources.size());
         return made;
       },
       false,
       true},
      {"neighbor_allgatherv",
       InPlace::none,
       {"linear"},
       [](Trial& t) {
         const auto by_rank = t.counts(static_cast<std::size_t>(t.size));
         const auto own = by_rank[static_cast<std::size_t>(t.me)];
         Counts counts;
         for (const int source : t.sources) counts.push_back(by_rank[static_cast<std::size_t>(source)]);
         Made made;
         made.init = [&t, counts, own](const void* s, void* r, Partita_Request* q) {
           return Partita_Pneighbor_allgatherv_init(s, t.partitions, own, t.datatype(), r, counts.data(),
                                                    t.places<A>(counts).data(), t.datatype(), t.comm, t.info, q);
         };
         made.reference = [&t, counts, own](const void* s, void* r) {
           return PMPI_Neighbor_allgatherv(s, t.whole(own), t.datatype(), r, t.whole(counts).data(),
                                           t.places<int>(counts).data(), t.datatype(), t.comm);
         };
         made.sent = t.whole(own);
         made.received = t.room(counts);
         return made;
       },
       false,
       true},
      {"neighbor_alltoall",
       InPlace::none,
       {"linear"},
       [](Trial& t) {
         const int count = t.count();
         Made made;
         made.init = [&t, count](const void* s, void* r, Partita_Request* q) {
           return Partita_Pneighbor_alltoall_init(s, t.partitions, count, t.datatype(), r, count, t.datatype(), t.comm,
                                                  t.info, q);
         };
         made.reference = [&t, count](const void* s, void* r) {
           return PMPI_Neighbor_alltoall(s, t.whole(count), t.datatype(), r, t.whole(count), t.datatype(), t.comm);
         };
         made.sent = t.whole(count) * static_cast<MPI_Count>(t.destinations.size());
         made.received = t.whole(count) * static_cast<MPI_Count>(t.sources.size());
         return made;
       },
       false,
       true},
      {"neighbor_alltoallv",
       InPlace::none,
       {"linear"},
       [](Trial& t) {
         const auto by_sender = t.counts(static_cast<std::size_t>(t.size));
         Counts out(t.destinations.size(), by_sender[static_cast<std::size_t>(t.me)]), in;
         for (const int source : t.sources) in.push_back(by_sender[static_cast<std::size_t>(source)]);
         Made made;
         made.init = [&t, out, in](const void* s, void* r, Partita_Request* q) {
           return Partita_Pneighbor_alltoallv_init(s, t.partitions, out.data(), t.places<A>(out).data(), t.datatype(),
                                                   r, in.data(), t.places<A>(in).data(), t.datatype(), t.comm, t.info,
                                                   q);
         };
         made.reference = [&t, out, in](const void* s, void* r) {
           return PMPI_Neighbor_alltoallv(s, t.whole(out).data(), t.places<int>(out).data(), t.datatype(), r,
                                          t.whole(in).data(), t.places<int>(in).data(), t.datatype(), t.comm);
         };
         made.sent = t.room(out);
         made.received = t.room(in);
         return made;
       },
       false,
       true},
      {"neighbor_alltoallw",
       InPlace::none,
       {"linear"},
       [](Trial& t) {
         const auto by_sender = t.counts(static_cast<std::size_t>(t.size));
         Counts out(t.destinations.size(), by_sender[static_cast<std::size_t>(t.me)]), in;
         for (const int source : t.sources) in.push_back(by_sender[static_cast<std::size_t>(source)]);
         const std::vector<MPI_Datatype> types(std::max(out.size(), in.size()), t.datatype());
         const A scale = t.pairing.type.size_bytes();
         Made made;
         made.init = [&t, out, in, types, scale](const void* s, void* r, Partita_Request* q) {
           return Partita_Pneighbor_alltoallw_init(s, t.partitions, out.data(), t.places<A>(out, scale).data(),
                                                   types.data(), r, in.data(), t.places<A>(in, scale).data(),
                                                   types.data(), t.comm, t.info, q);
         };
         made.reference = [&t, out, in, types, scale](const void* s, void* r) {
           return PMPI_Neighbor_alltoallw(s, t.whole(out).data(), t.places<A>(out, scale).data(), types.data(), r,
                                          t.whole(in).data(), t.places<A>(in, scale).data(), types.data(), t.comm);
         };
         made.sent = t.room(out);
         made.received = t.room(in);
         return made;
       },
       false,
       true},
  };
  return all;
}

/// Twice to the right, once to itself.
class Neighbours {
 public:
  explicit Neighbours(Trial& trial) {
    const int right = (rank() + 1) % ranks(), left = (rank() + ranks() - 1) % ranks();
    trial.sources = {left, rank(), left};
    trial.destinations = {right, rank(), right};
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 3, trial.sources.data(), MPI_UNWEIGHTED, 3,
                                   trial.destinations.data(), MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm_);
    EXPECT_EQ(MPI_SUCCESS, Partita_Comm_register(comm_));
    trial.comm = comm_;
  }
  ~Neighbours() { MPI_Comm_free(&comm_); }
  Neighbours(const Neighbours&) = delete;
  Neighbours& operator=(const Neighbours&) = delete;

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

/// A buffer of the program's beside what it holds at the MPI's own call.
class Mirrored {
 public:
  Mirrored(Memory memory, const ElementType& type, MPI_Count elements)
      : host(static_cast<std::size_t>(elements * type.size_bytes())),
        bytes_(memory, elements * type.size_bytes() + 1) {}

  void* address() const { return bytes_.address(); }
  void give(const Contents& contents) {
    host = contents;
    bytes_.write(0, std::ssize(host), [&](std::uint8_t* to) { std::copy(host.begin(), host.end(), to); });
  }
  /// Whether the first bytes are those of `host`.
  testing::AssertionResult agrees(std::int64_t size_bytes) const {
    const auto [expected, found] = bytes_.read(0, size_bytes, [&](const std::uint8_t* from) {
      if (size_bytes == 0 || std::memcmp(from, host.data(), static_cast<std::size_t>(size_bytes)) == 0) {
        return std::pair(host.begin(), static_cast<std::ptrdiff_t>(size_bytes));
      }
      const auto differ = std::mismatch(from, from + size_bytes, host.begin());
      return std::pair(differ.second, differ.first - from);
    });
    if (found == size_bytes) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "byte " << found << " of " << size_bytes << " is not " << int{*expected};
  }
  testing::AssertionResult agrees() const { return agrees(std::ssize(host)); }

  Contents host;

 private:
  Bytes bytes_;
};

enum class Places { all_in_gpus, odd_ranks_in_host_memory };

void expect_like_the_mpi(Trial& trial, const Made& made, InPlace in_place, Places places) {
  const bool in_host = places == Places::odd_ranks_in_host_memory && trial.me % 2 == 1;
  const Memory memory = in_host ? Memory::plain : Memory::gpu;
  const ElementType& type = trial.pairing.type;
  Mirrored sent(memory, type, made.sent), received(memory, type, made.received);
  const bool at_root = trial.me == trial.root;
  const bool sends_in_place = in_place == InPlace::all || (in_place == InPlace::sending_root && at_root);
  const bool receives_in_place = in_place == InPlace::receiving_root && at_root;
  const std::int64_t counting =
      sends_in_place && made.result >= 0 ? made.result * type.size_bytes() : std::ssize(received.host);
  Partita_Request request = PARTITA_REQUEST_NULL;
  step("a request is made");
  const int code = made.init(sends_in_place ? MPI_IN_PLACE : sent.address(),
                             receives_in_place ? MPI_IN_PLACE : received.address(), &request);
  // An algorithm may not serve these arguments; then it serves them on no rank.
  if (trial.info != MPI_INFO_NULL && class_of(code) == MPI_ERR_INFO_VALUE) return;
  ASSERT_EQ(MPI_SUCCESS, code);
  Random random(job_seed(), 77 + static_cast<std::uint64_t>(trial.me));
  for (int epoch = 0; epoch < 3; ++epoch) {
    sent.give(numbers(type, made.sent, random));
    received.give(numbers(type, made.received, random));
    const Contents before = sent.host;
    step("the MPI's own call");
    ASSERT_EQ(MPI_SUCCESS, made.reference(sends_in_place ? MPI_IN_PLACE : sent.host.data(),
                                          receives_in_place ? MPI_IN_PLACE : received.host.data()));
    step("the partitioned call");
    ASSERT_EQ(MPI_SUCCESS, Partita_Start(&request));
    if (made.marks) {
      for (const int partition : random.permutation(trial.partitions)) {
        ASSERT_EQ(MPI_SUCCESS, Partita_Pready(partition, request));
      }
    }
    if (made.receives && !receives_in_place && epoch == 1) {
      step("partitions arrive");
      for (int partition = 0; partition < trial.partitions; ++partition) {
        for (int flag = 0; flag == 0; sched_yield())
          ASSERT_EQ(MPI_SUCCESS, Partita_Parrived(request, partition, &flag));
      }
      ASSERT_TRUE(received.agrees(counting)) << "once all partitions have arrived";
    }
    step("the request is waited for");
    ASSERT_EQ(MPI_SUCCESS, Partita_Wait(&request, MPI_STATUS_IGNORE));
    ASSERT_TRUE(received.agrees(counting))
        << "epoch " << epoch << ", " << trial.partitions << " partitions of " << type.name << ", root " << trial.root;
    ASSERT_EQ(before, sent.host) << "the MPI wrote to the send buffer";
    ASSERT_TRUE(sent.agrees()) << "the send buffer";
  }
  ASSERT_EQ(MPI_SUCCESS, Partita_Request_free(&request));
}

class GpuCollectives : public testing::TestWithParam<std::size_t> {
 protected:
  const Collective& collective_ = collectives()[GetParam()];

  Pairing hardest() const { return collective_.reduces ? pairings()[0] : gapped(); }
  void try_out(std::uint64_t stream, const Pairing& pairing, bool in_place, Places places,
               const char* algorithm = nullptr) {
    Trial trial(stream, pairing);
    const std::unique_ptr<Neighbours> neighbours =
        collective_.has_neighbours ? std::make_unique<Neighbours>(trial) : nullptr;
    if (algorithm != nullptr) {
      MPI_Info_create(&trial.info);
      MPI_Info_set(trial.info, "partita_algorithm", algorithm);
    }
    const Made made = collective_.make(trial);
    expect_like_the_mpi(trial, made, in_place ? collective_.in_place : InPlace::none, places);
    if (algorithm != nullptr) MPI_Info_free(&trial.info);
  }
};

TEST_P(GpuCollectives, give_what_the_mpis_own_give) {
  std::vector<Pairing> tried = pairings();
  if (!collective_.reduces) tried = {tried[0], tried[1], gapped()};
  for (std::size_t p = 0; p < tried.size(); ++p) {
    for (const bool in_place : {false, true}) {
      if (in_place && collective_.in_place == InPlace::none) continue;
      SCOPED_TRACE(std::string(tried[p].name) + (in_place ? " in place" : ""));
      try_out(GetParam() * 1000 + p * 2 + (in_place ? 1 : 0), tried[p], in_place, Places::all_in_gpus);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(GpuCollectives, give_the_same_by_every_algorithm) {
  const ErrorsReturn handler(MPI_COMM_WORLD);
  std::uint64_t stream = 50000 + GetParam() * 100;
  for (const char* name : collective_.algorithms) {
    for (const bool in_place : {false, true}) {
      if (in_place && collective_.in_place == InPlace::none) continue;
      SCOPED_TRACE(std::string(name) + (in_place ? " in place" : ""));
      try_out(stream++, hardest(), in_place, Places::all_in_gpus, name);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(GpuCollectives, meet_ranks_in_host_memory) {
  try_out(70000 + GetParam(), hardest(), false, Places::odd_ranks_in_host_memory);
}

INSTANTIATE_TEST_SUITE_P(All, GpuCollectives, testing::Range(std::size_t{0}, collectives().size()),
                         [](const auto& info) { return std::string(collectives()[info.param].name); });

// ---- what is refused ---------------------------------------------------------------------------------------------

class RefusedOnGpus : public testing::Test {
 protected:
  static constexpr int partitions = 2, count = 4;

  /// An allreduce that must fail at its init.
  void expect_refusal(const void* sendbuf, void* recvbuf, MPI_Datatype datatype, MPI_Op op, int error_class,
                      const std::string& words) {
    Partita_Request request = PARTITA_REQUEST_NULL;
    const int code = Partita_Pallreduce_init(sendbuf, recvbuf, partitions, count, datatype, op, MPI_COMM_WORLD,
                                             MPI_INFO_NULL, &request);
    EXPECT_ERROR(code, error_class, "Pallreduce_init", words);
    EXPECT_EQ(request, PARTITA_REQUEST_NULL);
  }

  const ErrorsReturn handler_{MPI_COMM_WORLD};
  const Bytes in_{Memory::gpu, 1024};
  const Bytes out_{Memory::gpu, 1024};
};

TEST_F(RefusedOnGpus, are_operations_of_the_program) {
  MPI_Op op = MPI_OP_NULL;
  MPI_Op_create([](void*, void*, int*, MPI_Datatype*) {}, 1, &op);
  expect_refusal(in_.address(), out_.address(), MPI_INT, op, MPI_ERR_OP, "an operation of the program's");
  MPI_Op_free(&op);
}

TEST_F(RefusedOnGpus, are_numbers_that_they_do_not_have) {
  expect_refusal(in_.address(), out_.address(), MPI_LONG_DOUBLE, MPI_SUM, MPI_ERR_TYPE, "do not compute with");
}

TEST_F(RefusedOnGpus, are_datatypes_with_gaps) {
  expect_refusal(in_.address(), out_.address(), MPI_DOUBLE_INT, MPI_MAXLOC, MPI_ERR_TYPE, "has gaps");
}

TEST_F(RefusedOnGpus, are_buffers_some_of_which_lie_in_host_memory) {
  std::vector<int> host(partitions * count);
  expect_refusal(host.data(), out_.address(), MPI_INT, MPI_SUM, MPI_ERR_BUFFER, "is host memory");
}

}  // namespace
}  // namespace partita::test
