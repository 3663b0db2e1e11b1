// The MPI's own collectives, but the persistent ones. Buffers in GPU memory are staged, or go by peer memory
// (docs/design/gpu-aware.md). A blocking one is its nonblocking twin and a loop that polls both where only the calls of
// the program make progress for Partita (MPI's progress rule, MPI-4, section 2.9). Everywhere else each call is two
// checks.
#include <mpi.h>
#include <partita/partita.h>

#include <tuple>
#include <utility>

#include "dropin/by_peers.hpp"
#include "dropin/gathering.hpp"
#include "dropin/gpu_aware.hpp"
#include "dropin/interpose.hpp"
#include "dropin/kept.hpp"
#include "dropin/native.hpp"
#include "dropin/polling.hpp"
#include "dropin/queueing.hpp"
#include "dropin/refuse.hpp"
#include "dropin/staging.hpp"

namespace {

using namespace partita::dropin;

/// All ranks decide alike, since the twin of a collective matches only twins: on a communicator with processes of
/// another job's start, which may run without the drop-in or with another decision, the call stays the MPI's own.
inline bool polls(MPI_Comm comm) {
  return progress_by_caller() && all_are_ours(comm);
}

// What a call that the MPI makes later keeps of its arguments. Arrays are the program's to keep.
/// A datatype of what is only moved, which the program may free meanwhile: the one that is kept takes its place.
struct KeepsMoved {
  KeptType operator()(MPI_Datatype& type, bool is_significant = true) const {
    KeptType kept(is_significant ? type : MPI_DATATYPE_NULL);
    if (is_significant) type = kept.moved();
    return kept;
  }
};
struct KeepsNothing {
  template <class... Arguments>
  int operator()(const Arguments&...) const {
    return 0;
  }
};
struct IsGiven {
  bool operator()(const void* buffer) const { return buffer != MPI_IN_PLACE; }
};
/// The words of the table's column.
struct Keeping {
  KeepsMoved moved;
  KeepsNothing counts;
  KeepsNothing places;
  KeepsNothing types;
  IsGiven is_given;
};

}  // namespace

extern "C" {

/// NAMED is expanded first.
#define INTERPOSE_EXPANDED(NAME) INTERPOSE(NAME)
#define LIST(...) __VA_ARGS__
#define CALL(NAME, TWIN, PEERS, BUFFERS, KEPT, PARAMETERS, ...)                                                  \
  INTERPOSE_EXPANDED(NAMED(, NAME)) PARAMETERS {                                                                 \
    const auto make = [&] {                                                                                      \
      if (!polls(comm)) return native().NAMED(, NAME)(__VA_ARGS__);                                              \
      return issue_and_poll([&](MPI_Request* request) { return native().NAMED(, TWIN)(__VA_ARGS__, request); }); \
    };                                                                                                           \
    if (!takes_gpu_memory()) return make();                                                                      \
    return guarded(__func__, [&](const char* call) {                                                             \
      ByPeers peers(call, comm, ByPeers::Form::blocking);                                                        \
      peers.tries([&] { PEERS; });                                                                               \
      if (peers.is_made()) return peers.code();                                                                  \
      Staging stage(comm);                                                                                       \
      BUFFERS;                                                                                                   \
      const int code = stage.run(make);                                                                          \
      peers.by_mpi(code);                                                                                        \
      return code;                                                                                               \
    });                                                                                                          \
  }                                                                                                              \
  INTERPOSE_EXPANDED(NAMED(, TWIN))(LIST PARAMETERS, MPI_Request * request) {                                    \
    const auto make = [&](MPI_Request* made) { return native().NAMED(, TWIN)(__VA_ARGS__, made); };              \
    if (!takes_gpu_memory()) return make(request);                                                               \
    return guarded(__func__, [&](const char* call) {                                                             \
      ByPeers peers(call, comm, ByPeers::Form::nonblocking);                                                     \
      peers.tries([&] { PEERS; });                                                                               \
      if (peers.code() != MPI_SUCCESS) return peers.code();                                                      \
      Staging stage(comm);                                                                                       \
      if (!peers.is_wanted()) BUFFERS;                                                                           \
      if (!peers.is_in_order()) return stage.request(call, Staging::Kind::collective, request, make);            \
      Queueing queueing(call, comm, peers, stage, request);                                                      \
      auto make_on = [&, comm = comm](MPI_Comm on, MPI_Request* made) mutable {                                  \
        comm = on;                                                                                               \
        return native().NAMED(, TWIN)(__VA_ARGS__, made);                                                        \
      };                                                                                                         \
      if (queueing.ends_at_once(make_on)) return queueing.code();                                                \
      [[maybe_unused]] const CommShape& of = stage;                                                              \
      const Keeping keeping;                                                                                     \
      [[maybe_unused]] const auto& [moved, counts, places, types, is_given] = keeping;                           \
      auto kept = std::make_tuple KEPT;                                                                          \
      return queueing.queue(std::move(kept), [=](Staging* staging, MPI_Comm on, MPI_Request* made) mutable {     \
        if (staging != nullptr) {                                                                                \
          Staging& stage = *staging;                                                                             \
          BUFFERS;                                                                                               \
          return MPI_SUCCESS;                                                                                    \
        }                                                                                                        \
        comm = on;                                                                                               \
        return native().NAMED(, TWIN)(__VA_ARGS__, made);                                                        \
      });                                                                                                        \
    });                                                                                                          \
  }

#define NAMED(PREFIX, NAME) PREFIX##NAME
#define COUNT int
#define DISPL int
#include "dropin/mpi_collective_calls.inc"
#undef NAMED
#undef COUNT
#undef DISPL

#if PARTITA_HAS_LARGE_COUNTS
#define NAMED(PREFIX, NAME) PREFIX##NAME##_c
#define COUNT MPI_Count
#define DISPL MPI_Aint
#include "dropin/mpi_collective_calls.inc"
#undef NAMED
#undef COUNT
#undef DISPL
#endif
#undef CALL
#undef LIST
#undef INTERPOSE_EXPANDED

INTERPOSE(Barrier)(MPI_Comm comm) {
  if (!polls(comm)) return native().Barrier(comm);
  return issue_and_poll([&](MPI_Request* request) { return native().Ibarrier(comm, request); });
}

}  // extern "C"
