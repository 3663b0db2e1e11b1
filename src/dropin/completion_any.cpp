// MPI_Waitany and MPI_Testany on arrays that mix both kinds of requests (MPI-4, section 3.7.5).
#include <mpi.h>
#include <partita/partita.h>

#include "dropin/interpose.hpp"
#include "dropin/native.hpp"
#include "dropin/polling.hpp"
#include "dropin/progress.hpp"
#include "dropin/refuse.hpp"
#include "dropin/runtime.hpp"
#include "dropin/split.hpp"

namespace partita::dropin {
namespace {

/// What one look at one part found.
struct LookForAny {
  int code = MPI_SUCCESS;
  bool completed = false;  ///< `*index` and `*status` are set
  bool none_active = true;

  bool final() const { return completed || code != MPI_SUCCESS; }
};

template <class Request>
LookForAny look_for_any(const Part<Request>& part, int* index, MPI_Status* status) {
  if (part.count == 0) return {};
  int found = MPI_UNDEFINED;
  int flag = 0;
  const int code = either::test_any(part, &found, &flag, status);
  const bool named = found >= 0 && found < part.count;
  if (named && (flag != 0 || code != MPI_SUCCESS)) *index = part.places[found];
  return {code, flag != 0 && named, flag != 0 && !named};
}

/// Waits in a part that is the only one with active requests.
template <class Request>
int wait_for_any(const Part<Request>& part, int* index, MPI_Status* status) {
  int found = MPI_UNDEFINED;
  const int code = either::wait_any(part, &found, status);
  *index = found >= 0 && found < part.count ? part.places[found] : MPI_UNDEFINED;
  return code;
}

/// One look at both parts. Sets `*flag` as MPI_Testany does.
struct BothLooksForAny {
  LookForAny own, foreign;

  BothLooksForAny(const Split& split, int* index, int* flag, MPI_Status* status) {
    *index = MPI_UNDEFINED;
    own = look_for_any(split.own, index, status);
    split.drop_gone();
    if (!own.final()) foreign = look_for_any(split.foreign, index, status);
    *flag = final() ? 1 : 0;
    if (none_active()) give_status(status, empty_status());
  }

  bool none_active() const { return !own.final() && !foreign.final() && own.none_active && foreign.none_active; }
  bool final() const { return own.final() || foreign.final() || none_active(); }
  int code() const { return own.code != MPI_SUCCESS ? own.code : foreign.code; }
};

int wait_any(int count, MPI_Request requests[], int* index, MPI_Status* status) {
  Scratch scratch(Split::need(count));
  const Split split(count, requests, scratch);
  const bool refused = is_missing(status);
  if (split.own.count == 0 && (refused || !progress_by_caller()))
    return native().Waitany(count, requests, index, status);
  if (refused) return either::wait_any(split.own, index, status);

  LookForAny own;
  LookForAny foreign;
  int code = MPI_SUCCESS;
  const int waited = wait_until(split.own, [&] {
    int flag = 0;
    const BothLooksForAny looks(split, index, &flag, status);
    own = looks.own;
    foreign = looks.foreign;
    code = looks.code();
    return looks.final() || foreign.none_active || (own.none_active && !progress_by_caller());
  });
  split.drop_gone();
  if (waited != MPI_SUCCESS) {
    code = waited;
  } else if (*index == MPI_UNDEFINED && code == MPI_SUCCESS && !own.none_active) {
    code = wait_for_any(split.own, index, status);
  } else if (*index == MPI_UNDEFINED && code == MPI_SUCCESS && !foreign.none_active) {
    code = wait_for_any(split.foreign, index, status);
  }
  split.put_back();
  return code;
}

int test_any(int count, MPI_Request requests[], int* index, int* flag, MPI_Status* status) {
  Scratch scratch(Split::need(count));
  const Split split(count, requests, scratch);
  progress_if_by_caller();
  if (split.own.count == 0) return native().Testany(count, requests, index, flag, status);
  if (is_missing(status)) return either::test_any(split.own, index, flag, status);  // refuses it

  const BothLooksForAny looks(split, index, flag, status);
  split.put_back();
  return looks.code();
}

}  // namespace
}  // namespace partita::dropin

extern "C" {

INTERPOSE(Waitany)(int count, MPI_Request requests[], int* index, MPI_Status* status) {
  using namespace partita::dropin;
  return guarded(__func__, [=](const char*) {
    const bool plain = nothing_is_ours() || count <= 0 || requests == nullptr || index == nullptr;
    return plain ? native().Waitany(count, requests, index, status)
                 : ended(wait_any(count, requests, index, status), count, requests);
  });
}

INTERPOSE(Testany)(int count, MPI_Request requests[], int* index, int* flag, MPI_Status* status) {
  using namespace partita::dropin;
  return guarded(__func__, [=](const char*) {
    const bool plain = nothing_is_ours() || count <= 0 || requests == nullptr || index == nullptr || flag == nullptr;
    return plain ? native().Testany(count, requests, index, flag, status)
                 : ended(test_any(count, requests, index, flag, status), count, requests);
  });
}

}  // extern "C"
