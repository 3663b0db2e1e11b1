#include "support/allocations.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

thread_local long allocations_of_thread = 0;

constexpr long none = -1'000'000'000;

/// Counts down at each allocation of this process. Those that find it between 1 - failures and 1 fail.
std::atomic<long> allocations_left{none};
std::atomic<long> failures{1};
/// The count of the one thread whose allocations fail; null for all threads.
std::atomic<const long*> failing_thread{nullptr};

bool fails() {
  if (allocations_left.load(std::memory_order_relaxed) == none) return false;
  const long* const only = failing_thread.load(std::memory_order_relaxed);
  if (only != nullptr && only != &allocations_of_thread) return false;
  const long left = allocations_left.fetch_sub(1);
  return left <= 1 && left > 1 - failures.load(std::memory_order_relaxed);
}

}  // namespace

namespace partita::test {

long allocations() {
  return allocations_of_thread;
}

void fail_allocations(long first, long in_a_row) {
  failing_thread.store(nullptr);
  failures.store(in_a_row);
  allocations_left.store(first);
}

void fail_allocations_of_this_thread(long first, long in_a_row) {
  failing_thread.store(&allocations_of_thread);
  failures.store(in_a_row);
  allocations_left.store(first);
}

bool end_failing() {
  return allocations_left.exchange(none) > 0;
}

}  // namespace partita::test

// They take the place of the library's in all of the process. The MPI is in C and uses malloc. Not inlined: where only
// one of a pair is, GCC takes malloc and free for mismatched.
// NOLINTBEGIN: all forms of these end here
[[gnu::noinline]] void* operator new(std::size_t size_bytes) {
  ++allocations_of_thread;
  if (fails()) throw std::bad_alloc();
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
