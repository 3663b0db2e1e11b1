#include "bench/own_buffer.hpp"

#include <cstdlib>

#include "apps/support/own_mpi.hpp"
#include "bench/failure.hpp"

namespace partita::bench {

namespace {

// A program that does not find the MPI's functions ends before main().
const struct {
  decltype(&PMPI_Alloc_mem) alloc_mem = PARTITA_OF_MPI(Alloc_mem);
  decltype(&PMPI_Free_mem) free_mem = PARTITA_OF_MPI(Free_mem);
} memory_calls;  // NOLINT(bugprone-throwing-static-initialization)

}  // namespace

Buffer plain_buffer(std::size_t size_bytes) {
  constexpr std::size_t page = 4096;
  const std::size_t rounded = (size_bytes + page - 1) / page * page;
  void* base = std::aligned_alloc(page, rounded);
  if (base == nullptr) throw Failure("There is no memory for a message of {} bytes.", size_bytes);
  return {base, size_bytes, [](void* memory) { std::free(memory); }};
}

Buffer own_mpi_buffer(Memory memory, std::size_t size_bytes) {
  if (memory == Memory::plain) return plain_buffer(size_bytes);
  void* base = nullptr;
  check(memory_calls.alloc_mem(static_cast<MPI_Aint>(size_bytes), MPI_INFO_NULL, &base), "MPI_Alloc_mem");
  return {base, size_bytes, [](void* memory) { memory_calls.free_mem(memory); }};
}

}  // namespace partita::bench
