#include "support/allocations.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

thread_local long allocations_of_thread = 0;

/// Counts down at each allocation of this process; the one that comes to 0 fails.
std::atomic<long> allocations_left{-1};

}  // namespace

namespace partita::test {

long allocations() {
  return allocations_of_thread;
}

void fail_allocation(long count) {
  allocations_left.store(count);
}

bool end_failing() {
  return allocations_left.exchange(-1) > 0;
}

}  // namespace partita::test

// They take the place of the library's in all of the process. The MPI is in C and uses malloc. Not inlined: where only
// one of a pair is, GCC takes malloc and free for mismatched.
// NOLINTBEGIN: all forms of these end here
[[gnu::noinline]] void* operator new(std::size_t size_bytes) {
  ++allocations_of_thread;
  if (allocations_left.load(std::memory_order_relaxed) > 0 && allocations_left.fetch_sub(1) == 1)
    throw std::bad_alloc();
  if (void* memory = std::malloc(size_bytes == 0 ? 1 : size_bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
// NOLINTEND
