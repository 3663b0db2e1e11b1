// Windows and files (MPI-4, chapters 12 and 14): calls that wait for other ranks in the MPI and have no nonblocking
// twin. Where only callers make progress for Partita, those ranks gather before them.
#include <mpi.h>
#include <partita/partita.h>

#include "dropin/constructing.hpp"
#include "dropin/gathering.hpp"
#include "dropin/host_buffers.hpp"
#include "dropin/interpose.hpp"
#include "dropin/native.hpp"
#include "dropin/polling.hpp"
#include "dropin/window_locks.hpp"

namespace {

using namespace partita::dropin;

/// Makes a window or a file, collectively over `comm`.
template <class Handle, class Make>
int make_on(MPI_Comm comm, const Handle* result, Make make) {
  const Constructing constructing;
  if (const int code = gather_all(comm); code != MPI_SUCCESS) return code;
  const int code = make();
  return code == MPI_SUCCESS ? keep_for(result, sizeof *result, comm) : code;
}

/// Makes a window as make_on() does; its locks have to be waited for, too.
template <class Make>
int make_window(MPI_Comm comm, const MPI_Win* result, Make make) {
  const Constructing constructing;
  const int code = make_on(comm, result, make);
  return code == MPI_SUCCESS ? open_locks(*result, kept_for(result, sizeof *result)) : code;
}

/// Makes a window of the program's memory.
template <class Make>
int make_window_of(const HostBuffer& memory, const char* call, MPI_Comm comm, const MPI_Win* result, Make make) {
  const int refused = refuse_gpu_memory(call, Hearer{.comm = comm}, memory);
  return refused == MPI_SUCCESS ? make_window(comm, result, make) : refused;
}

/// Ends one.
template <class Handle, class End>
int end_of(const Handle* handle, End end) {
  MPI_Comm comm = take_kept(handle, sizeof *handle);
  if (comm == MPI_COMM_NULL) return end();
  const int gathered = gather_all(comm);
  native().Comm_free(&comm);
  return gathered == MPI_SUCCESS ? end() : gathered;
}

}  // namespace

extern "C" {

INTERPOSE(Win_create)(void* base, MPI_Aint size, int disp_unit, MPI_Info info, MPI_Comm comm, MPI_Win* win) {
  return make_window_of(HOST_BUFFER(base, size, MPI_BYTE), __func__, comm, win,
                        [&] { return native().Win_create(base, size, disp_unit, info, comm, win); });
}

#if PARTITA_HAS_LARGE_COUNTS
INTERPOSE(Win_create_c)(void* base, MPI_Aint size, MPI_Aint disp_unit, MPI_Info info, MPI_Comm comm, MPI_Win* win) {
  return make_window_of(HOST_BUFFER(base, size, MPI_BYTE), __func__, comm, win,
                        [&] { return native().Win_create_c(base, size, disp_unit, info, comm, win); });
}
#endif

INTERPOSE(Win_allocate)(MPI_Aint size, int disp_unit, MPI_Info info, MPI_Comm comm, void* baseptr, MPI_Win* win) {
  return make_window(comm, win, [&] { return native().Win_allocate(size, disp_unit, info, comm, baseptr, win); });
}

INTERPOSE(Win_allocate_shared)(MPI_Aint size, int disp_unit, MPI_Info info, MPI_Comm comm, void* baseptr,
                               MPI_Win* win) {
  return make_window(comm, win,
                     [&] { return native().Win_allocate_shared(size, disp_unit, info, comm, baseptr, win); });
}

INTERPOSE(Win_create_dynamic)(MPI_Info info, MPI_Comm comm, MPI_Win* win) {
  return make_window(comm, win, [&] { return native().Win_create_dynamic(info, comm, win); });
}

INTERPOSE(Win_fence)(int assert, MPI_Win win) {
  const int gathered = gather_all(kept_for(&win, sizeof win));
  return gathered == MPI_SUCCESS ? native().Win_fence(assert, win) : gathered;
}

/* Between MPI_Win_post and MPI_Win_start goes a word, so that the origin never waits in the MPI for the target. */

INTERPOSE(Win_post)(MPI_Group group, int assert, MPI_Win win) {
  const int code = native().Win_post(group, assert, win);
  return code == MPI_SUCCESS ? tell_group(kept_for(&win, sizeof win), group) : code;
}

INTERPOSE(Win_start)(MPI_Group group, int assert, MPI_Win win) {
  const int heard = hear_group(kept_for(&win, sizeof win), group);
  return heard == MPI_SUCCESS ? native().Win_start(group, assert, win) : heard;
}

INTERPOSE(Win_wait)(MPI_Win win) {
  if (!progress_by_caller()) return native().Win_wait(win);
  return look_until_found([&](int* complete) { return native().Win_test(win, complete); });
}

INTERPOSE(Win_free)(MPI_Win* win) {
  return end_of(win, [&] {
    const int code = close_locks(*win);
    return code == MPI_SUCCESS ? native().Win_free(win) : code;
  });
}

INTERPOSE(Win_lock)(int lock_type, int rank, int assert, MPI_Win win) {
  const int taken = take_lock(win, lock_type, rank);
  return taken == MPI_SUCCESS ? native().Win_lock(lock_type, rank, assert, win) : taken;
}

INTERPOSE(Win_unlock)(int rank, MPI_Win win) {
  const int code = native().Win_unlock(rank, win);
  return code == MPI_SUCCESS ? give_lock(win, rank) : code;
}

INTERPOSE(Win_lock_all)(int assert, MPI_Win win) {
  const int taken = take_all_locks(win);
  return taken == MPI_SUCCESS ? native().Win_lock_all(assert, win) : taken;
}

INTERPOSE(Win_unlock_all)(MPI_Win win) {
  const int code = native().Win_unlock_all(win);
  return code == MPI_SUCCESS ? give_all_locks(win) : code;
}

INTERPOSE(File_open)(MPI_Comm comm, const char* filename, int amode, MPI_Info info, MPI_File* fh) {
  return make_on(comm, fh, [&] { return native().File_open(comm, filename, amode, info, fh); });
}

/// NAMED is expanded first.
#define INTERPOSE_EXPANDED(NAME) INTERPOSE(NAME)
#define GATHERED_CALL(NAME, REFUSED, PARAMETERS, ...)                                \
  INTERPOSE_EXPANDED(NAMED(, NAME)) PARAMETERS {                                     \
    if (const int refused = REFUSED; refused != MPI_SUCCESS) return refused;         \
    const int gathered = gather_all(kept_for(&fh, sizeof(MPI_File)));                \
    return gathered == MPI_SUCCESS ? native().NAMED(, NAME)(__VA_ARGS__) : gathered; \
  }

#define NAMED(PREFIX, NAME) PREFIX##NAME
#define FILE_CALL(NAME, PARAMETERS, ...) GATHERED_CALL(NAME, MPI_SUCCESS, PARAMETERS, __VA_ARGS__)
#include "dropin/file_calls_without_count.inc"
#undef FILE_CALL

#define FILE_CALL(NAME, PARAMETERS, ...)                                                                          \
  GATHERED_CALL(NAME, refuse_gpu_memory(__func__, Hearer{.file = fh}, HOST_BUFFER(buf, count, type)), PARAMETERS, \
                __VA_ARGS__)
#define COUNT int
#include "dropin/file_calls.inc"
#undef NAMED
#undef COUNT

#if PARTITA_HAS_LARGE_COUNTS
#define NAMED(PREFIX, NAME) PREFIX##NAME##_c
#define COUNT MPI_Count
#include "dropin/file_calls.inc"
#undef NAMED
#undef COUNT
#endif
#undef FILE_CALL
#undef GATHERED_CALL
#undef INTERPOSE_EXPANDED

INTERPOSE(File_close)(MPI_File* fh) {
  return end_of(fh, [&] { return native().File_close(fh); });
}

}  // extern "C"
