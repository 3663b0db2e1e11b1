// MPI_Waitsome and MPI_Testsome on arrays that mix both kinds of requests (MPI-4, section 3.7.5).
#include <mpi.h>
#include <partita/partita.h>

#include "dropin/interpose.hpp"
#include "dropin/native.hpp"
#include "dropin/polling.hpp"
#include "dropin/progress.hpp"
#include "dropin/refuse.hpp"
#include "dropin/split.hpp"

namespace partita::dropin {
namespace {

/// The arrays that a caller gave for what has completed.
struct Output {
  int* count;
  int* indices;
  MPI_Status* statuses;

  Output after(int used) const {
    return {count, indices + used, statuses == MPI_STATUSES_IGNORE ? statuses : statuses + used};
  }
};

/// What one look at one part found.
struct LookForSome {
  int code = MPI_SUCCESS;
  int count = 0;
  bool none_active = true;
};

template <class Request>
LookForSome note(const Part<Request>& part, int code, int done, const Output& out) {
  if (done == MPI_UNDEFINED || done < 0 || done > part.count) return {code, 0, done == MPI_UNDEFINED};
  for (int i = 0; i < done; ++i) out.indices[i] = part.places[out.indices[i]];
  return {code, done, false};
}

template <class Request>
LookForSome look_for_some(const Part<Request>& part, const Output& out) {
  if (part.count == 0) return {};
  int done = 0;
  const int code = either::test_some(part, &done, out.indices, out.statuses);
  return note(part, code, done, out);
}

/// Waits in a part that is the only one with active requests.
template <class Request>
int wait_for_some(const Part<Request>& part, const Output& out) {
  int done = 0;
  const int code = either::wait_some(part, &done, out.indices, out.statuses);
  *out.count = note(part, code, done, out).count;
  return code;
}

void mark_successful(const Output& out, int count) {
  for (int i = 0; out.statuses != MPI_STATUSES_IGNORE && i < count; ++i) out.statuses[i].MPI_ERROR = MPI_SUCCESS;
}

/// One look at both parts. Sets `*out.count` as MPI_Testsome does.
struct BothLooksForSome {
  LookForSome own, foreign;

  BothLooksForSome(const Split& split, const Output& out) {
    own = look_for_some(split.own, out);
    split.drop_gone();
    // A call that is refused completes nothing.
    if (own.code == MPI_SUCCESS || is_in_status(own.code)) foreign = look_for_some(split.foreign, out.after(own.count));
    *out.count = none_active() ? MPI_UNDEFINED : own.count + foreign.count;
    // Where the statuses of ours hold errors, those of the MPI's must say that theirs succeeded.
    if (is_in_status(own.code) && foreign.code == MPI_SUCCESS) mark_successful(out.after(own.count), foreign.count);
  }

  bool none_active() const {
    return own.none_active && foreign.none_active && own.code == MPI_SUCCESS && foreign.code == MPI_SUCCESS;
  }
  bool final() const { return code() != MPI_SUCCESS || own.count + foreign.count > 0 || none_active(); }
  int code() const { return own.code != MPI_SUCCESS ? own.code : foreign.code; }
};

int wait_some(int count, MPI_Request requests[], const Output& out) {
  Scratch scratch(Split::need(count));
  const Split split(count, requests, scratch);
  const bool refused = are_missing(out.statuses);
  if (split.own.count == 0 && (refused || !progress_by_caller())) {
    return native().Waitsome(count, requests, out.count, out.indices, out.statuses);
  }
  if (refused) return either::wait_some(split.own, out.count, out.indices, out.statuses);

  LookForSome own;
  LookForSome foreign;
  int code = MPI_SUCCESS;
  const int waited = wait_until(split.own, [&] {
    const BothLooksForSome looks(split, out);
    own = looks.own;
    foreign = looks.foreign;
    code = looks.code();
    return looks.final() || foreign.none_active || (own.none_active && !progress_by_caller());
  });
  split.drop_gone();
  if (waited != MPI_SUCCESS) {
    code = waited;
  } else if (*out.count == 0 && code == MPI_SUCCESS) {
    code = own.none_active ? wait_for_some(split.foreign, out) : wait_for_some(split.own, out);
  }
  split.put_back();
  return code;
}

int test_some(int count, MPI_Request requests[], const Output& out) {
  Scratch scratch(Split::need(count));
  const Split split(count, requests, scratch);
  progress_if_by_caller();
  if (split.own.count == 0) return native().Testsome(count, requests, out.count, out.indices, out.statuses);
  if (are_missing(out.statuses)) return either::test_some(split.own, out.count, out.indices, out.statuses);  // refuses

  const BothLooksForSome looks(split, out);
  split.put_back();
  return looks.code();
}

bool is_plain(int count, const MPI_Request requests[], const int* outcount, const int indices[]) {
  return nothing_is_ours() || count <= 0 || requests == nullptr || outcount == nullptr || indices == nullptr;
}

}  // namespace
}  // namespace partita::dropin

extern "C" {

INTERPOSE(Waitsome)(int incount, MPI_Request requests[], int* outcount, int indices[], MPI_Status statuses[]) {
  using namespace partita::dropin;
  return guarded(__func__, [=](const char*) {
    return is_plain(incount, requests, outcount, indices)
               ? native().Waitsome(incount, requests, outcount, indices, statuses)
               : ended(wait_some(incount, requests, {outcount, indices, statuses}), incount, requests);
  });
}

INTERPOSE(Testsome)(int incount, MPI_Request requests[], int* outcount, int indices[], MPI_Status statuses[]) {
  using namespace partita::dropin;
  return guarded(__func__, [=](const char*) {
    return is_plain(incount, requests, outcount, indices)
               ? native().Testsome(incount, requests, outcount, indices, statuses)
               : ended(test_some(incount, requests, {outcount, indices, statuses}), incount, requests);
  });
}

}  // extern "C"
