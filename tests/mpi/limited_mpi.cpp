#include "limited_mpi.hpp"

#include <dlfcn.h>
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace partita::test {

int most_of_mpi() {
  const char* name = std::getenv("PARTITEST_MPI_GIVES");
  const std::string_view most = name == nullptr ? "multiple" : name;
  if (most == "funneled") return MPI_THREAD_FUNNELED;
  if (most == "serialized") return MPI_THREAD_SERIALIZED;
  if (most == "multiple") return MPI_THREAD_MULTIPLE;
  std::fprintf(stderr, "PARTITEST_MPI_GIVES=%s: expected funneled, serialized or multiple\n", name);
  std::exit(2);
}

}  // namespace partita::test

/// Stands between the drop-in and the MPI.
extern "C" int PMPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  using InitThread = int (*)(int*, char***, int, int*);
  const auto of_mpi = reinterpret_cast<InitThread>(dlsym(RTLD_NEXT, "PMPI_Init_thread"));
  return of_mpi(argc, argv, std::min(required, partita::test::most_of_mpi()), provided);
}
