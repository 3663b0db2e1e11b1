// Windows and files (MPI-4, sections 12.2, 12.5.1 and 14.2): calls that wait for all ranks in the MPI and have no
// nonblocking twin. Where only callers make progress for Partita, all ranks gather before them.
#include <mpi.h>
#include <partita/partita.h>

#include "dropin/gathering.hpp"
#include "dropin/interpose.hpp"
#include "dropin/native.hpp"

namespace {

using namespace partita::dropin;

/// Makes a window or a file, collectively over `comm`.
template <class Handle, class Make>
int make_on(MPI_Comm comm, const Handle* result, Make make) {
  if (const int code = gather_all(comm); code != MPI_SUCCESS) return code;
  const int code = make();
  return code == MPI_SUCCESS ? keep_for(result, sizeof *result, comm) : code;
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
  return make_on(comm, win, [&] { return native().Win_create(base, size, disp_unit, info, comm, win); });
}

INTERPOSE(Win_allocate)(MPI_Aint size, int disp_unit, MPI_Info info, MPI_Comm comm, void* baseptr, MPI_Win* win) {
  return make_on(comm, win, [&] { return native().Win_allocate(size, disp_unit, info, comm, baseptr, win); });
}

INTERPOSE(Win_allocate_shared)(MPI_Aint size, int disp_unit, MPI_Info info, MPI_Comm comm, void* baseptr,
                               MPI_Win* win) {
  return make_on(comm, win, [&] { return native().Win_allocate_shared(size, disp_unit, info, comm, baseptr, win); });
}

INTERPOSE(Win_create_dynamic)(MPI_Info info, MPI_Comm comm, MPI_Win* win) {
  return make_on(comm, win, [&] { return native().Win_create_dynamic(info, comm, win); });
}

INTERPOSE(Win_fence)(int assert, MPI_Win win) {
  const int gathered = gather_all(kept_for(&win, sizeof win));
  return gathered == MPI_SUCCESS ? native().Win_fence(assert, win) : gathered;
}

INTERPOSE(Win_free)(MPI_Win* win) {
  return end_of(win, [&] { return native().Win_free(win); });
}

INTERPOSE(File_open)(MPI_Comm comm, const char* filename, int amode, MPI_Info info, MPI_File* fh) {
  return make_on(comm, fh, [&] { return native().File_open(comm, filename, amode, info, fh); });
}

INTERPOSE(File_close)(MPI_File* fh) {
  return end_of(fh, [&] { return native().File_close(fh); });
}

}  // extern "C"
