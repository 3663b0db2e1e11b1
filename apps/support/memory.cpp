#include "apps/support/memory.hpp"

#include <sys/mman.h>

namespace partita::apps {
namespace {

bool can_have(std::int64_t bytes) {
  const auto size = static_cast<std::size_t>(bytes);
  void* const memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  ::munmap(memory, size);
  return true;
}

}  // namespace

std::int64_t bytes_refused(std::int64_t bytes, MPI_Comm comm) {
  std::int64_t refused = can_have(bytes) ? 0 : bytes;
  MPI_Allreduce(MPI_IN_PLACE, &refused, 1, MPI_INT64_T, MPI_MAX, comm);
  return refused;
}

}  // namespace partita::apps
