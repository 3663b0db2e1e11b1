// The MPI's own functions, where a loaded drop-in stands behind the PMPI names as well.
#pragma once

#include <dlfcn.h>
#include <mpi.h>

namespace partita::apps {

/// The file of the MPI: the drop-in takes the place of many functions, but not of PMPI_Get_version.
inline const char* mpi_library() {
  Dl_info mpi{};
  void* const known = ::dlsym(RTLD_DEFAULT, "PMPI_Get_version");
  return known == nullptr || ::dladdr(known, &mpi) == 0 ? "" : mpi.dli_fname;
}

/// The MPI's own function under `name`; `first` is whichever the process has under it.
template <class Function>
Function* of_mpi(Function* first, const char* name) {
  void* const library = ::dlopen(mpi_library(), RTLD_NOW | RTLD_NOLOAD);
  void* const own = library == nullptr ? nullptr : ::dlsym(library, name);
  return own == nullptr ? first : reinterpret_cast<Function*>(own);
}

}  // namespace partita::apps

/// PARTITA_OF_MPI(Wait) is the MPI's PMPI_Wait.
#define PARTITA_OF_MPI(NAME) ::partita::apps::of_mpi(&PMPI_##NAME, "PMPI_" #NAME)
