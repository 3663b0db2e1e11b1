// The MPI's own collectives that move data, in each of their forms, for tests of buffers anywhere.
#pragma once

#include <mpi.h>

#include <functional>
#include <vector>

#include "support/errors.hpp"
#include "support/placed_ints.hpp"

namespace partita::test {

/// What one call of a collective is given: two buffers, and counts and displacements for every rank.
struct CollectiveArguments {
  const void* in = nullptr;
  void* out = nullptr;
  int count = 0;
  int root = 0;
  MPI_Datatype type = MPI_INT;  ///< an int and a gap, where the test says so
  int spread = 1;               ///< its extent, in ints
  Ints counts;                  ///< ascending, by rank: the same on all ranks
  Ints places;                  ///< with a hole in front of each block
  Ints bytes;                   ///< the same in bytes
  std::vector<MPI_Datatype> types;
  Ints each_own;    ///< so many as this rank has in `counts`, for every rank
  Ints own_places;  ///< of those
  Ints own_bytes;   ///< the same in bytes
};

/// In which form a collective is called.
enum class Form { blocking, nonblocking, persistent };
#if MPI_VERSION >= 4
inline constexpr int forms = 3;
#else
inline constexpr int forms = 2;  // the persistent ones are not the MPI's
#endif

struct MpiCollective {
  using Arguments = const CollectiveArguments&;
  const char* name;
  bool has_place;  ///< may be made in place
  std::function<int(Arguments)> call;
  std::function<int(Arguments, MPI_Request*)> begin;
  std::function<int(Arguments, MPI_Request*)> init;  ///< none where the MPI has no such call
};

inline int own_count(const CollectiveArguments& of) {
  return of.counts[static_cast<std::size_t>(rank())];
}

inline const std::vector<MpiCollective>& mpi_collectives() {
  using A = MpiCollective::Arguments;
  static const MPI_Comm world = MPI_COMM_WORLD;
#if MPI_VERSION >= 4
#define INIT(NAME, ...) [](A a, MPI_Request* made) { return MPI_##NAME##_init(__VA_ARGS__, MPI_INFO_NULL, made); }
#else
#define INIT(NAME, ...) nullptr
#endif
#define COLLECTIVE(NAME, TWIN, HAS_PLACE, ...)                                                        \
  {                                                                                                   \
    #NAME, HAS_PLACE, [](A a) { return MPI_##NAME(__VA_ARGS__); },                                    \
        [](A a, MPI_Request* made) { return MPI_##TWIN(__VA_ARGS__, made); }, INIT(NAME, __VA_ARGS__) \
  }
  static const std::vector<MpiCollective> all = {
      COLLECTIVE(Bcast, Ibcast, false, a.out, a.count, a.type, a.root, world),
      COLLECTIVE(Gather, Igather, false, a.in, a.count, a.type, a.out, a.count, a.type, a.root, world),
      COLLECTIVE(Gatherv, Igatherv, false, a.in, own_count(a), a.type, a.out, a.counts.data(), a.places.data(), a.type,
                 a.root, world),
      COLLECTIVE(Scatter, Iscatter, false, a.in, a.count, a.type, a.out, a.count, a.type, a.root, world),
      COLLECTIVE(Scatterv, Iscatterv, false, a.in, a.counts.data(), a.places.data(), a.type, a.out, own_count(a),
                 a.type, a.root, world),
      COLLECTIVE(Allgather, Iallgather, true, a.in, a.count, a.type, a.out, a.count, a.type, world),
      COLLECTIVE(Allgatherv, Iallgatherv, true, a.in, own_count(a), a.type, a.out, a.counts.data(), a.places.data(),
                 a.type, world),
      COLLECTIVE(Alltoall, Ialltoall, true, a.in, a.count, a.type, a.out, a.count, a.type, world),
      COLLECTIVE(Alltoallv, Ialltoallv, false, a.in, a.counts.data(), a.places.data(), a.type, a.out, a.each_own.data(),
                 a.own_places.data(), a.type, world),
      COLLECTIVE(Alltoallw, Ialltoallw, false, a.in, a.counts.data(), a.bytes.data(), a.types.data(), a.out,
                 a.each_own.data(), a.own_bytes.data(), a.types.data(), world),
      COLLECTIVE(Reduce, Ireduce, false, a.in, a.out, a.count, MPI_INT, MPI_SUM, a.root, world),
      COLLECTIVE(Allreduce, Iallreduce, true, a.in, a.out, a.count, MPI_INT, MPI_SUM, world),
      COLLECTIVE(Reduce_scatter, Ireduce_scatter, true, a.in, a.out, a.counts.data(), MPI_INT, MPI_SUM, world),
      COLLECTIVE(Reduce_scatter_block, Ireduce_scatter_block, true, a.in, a.out, a.count, MPI_INT, MPI_SUM, world),
      COLLECTIVE(Scan, Iscan, true, a.in, a.out, a.count, MPI_INT, MPI_SUM, world),
      COLLECTIVE(Exscan, Iexscan, true, a.in, a.out, a.count, MPI_INT, MPI_SUM, world),
  };
#undef COLLECTIVE
#undef INIT
  return all;
}

/// Makes `collective` in `form`, to its end: a persistent one twice, of which `between` is called between the two.
template <class Between>
void make(const MpiCollective& collective, Form form, const CollectiveArguments& of, Between between) {
  MPI_Request request = MPI_REQUEST_NULL;
  switch (form) {
    case Form::blocking:
      EXPECT_OK(collective.call(of));
      break;
    case Form::nonblocking:
      EXPECT_OK(collective.begin(of, &request));
      EXPECT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
      EXPECT_EQ(request, MPI_REQUEST_NULL);
      break;
    case Form::persistent:
      EXPECT_OK(collective.init(of, &request));
      EXPECT_OK(MPI_Start(&request));
      EXPECT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
      between();
      EXPECT_OK(MPI_Start(&request));
      EXPECT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
      EXPECT_OK(MPI_Request_free(&request));
      break;
  }
}

}  // namespace partita::test
