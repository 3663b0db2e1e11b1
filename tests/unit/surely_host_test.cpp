// Which addresses cannot be those of GPU memory.
#include "memory/surely_host.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <future>
#include <memory>
#include <thread>

#include "support/sanitized.hpp"

namespace partita::memory {
namespace {

TEST(SurelyHost, are_small_allocations) {
  if (test::sanitized) GTEST_SKIP() << "a sanitizer's allocator takes none of the heap";
  const auto allocation = std::make_unique<std::byte[]>(1000);
  EXPECT_TRUE(is_surely_host(allocation.get()));
  EXPECT_TRUE(is_surely_host(allocation.get() + 999));
}

TEST(SurelyHost, is_what_lies_below_the_end_of_the_heap) {
  ASSERT_NE(::sbrk(4096), reinterpret_cast<void*>(-1));
  auto* const end = static_cast<std::byte*>(::sbrk(0));
  EXPECT_TRUE(is_surely_host(end - 1));
  EXPECT_FALSE(is_surely_host(end));
  ASSERT_NE(::sbrk(-4096), reinterpret_cast<void*>(-1));
  EXPECT_FALSE(is_surely_host(end - 1)) << "somebody else may get it";
}

TEST(SurelyHost, is_what_callers_have_on_their_stack) {
  const int here = 0;
  EXPECT_TRUE(is_surely_host(&here) || test::sanitized) << "a sanitizer may have it elsewhere";
  std::thread([] {
    const int there = 0;
    EXPECT_TRUE(is_surely_host(&there) || test::sanitized);
  }).join();
}

TEST(SurelyHost, is_not_the_stack_of_another_thread) {
  std::promise<const int*> told;
  std::promise<void> seen;
  std::thread other([&] {
    const int there = 0;
    told.set_value(&there);
    seen.get_future().wait();
  });
  EXPECT_FALSE(is_surely_host(told.get_future().get()));
  seen.set_value();
  other.join();
}

/// Where the stack may grow to, something else may lie.
TEST(SurelyHost, is_not_what_lies_below_the_callers_stack) {
  const auto* const frame = static_cast<const std::byte*>(__builtin_frame_address(0));
  EXPECT_FALSE(is_surely_host(frame - 16384));
}

/// A driver maps memory of a GPU in such places.
TEST(SurelyHost, are_not_mapped_pages) {
  constexpr std::size_t size_bytes = 1 << 20;
  void* const pages = ::mmap(nullptr, size_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  EXPECT_FALSE(is_surely_host(pages));
  EXPECT_FALSE(is_surely_host(static_cast<std::byte*>(pages) + size_bytes - 1));
  ::munmap(pages, size_bytes);
  EXPECT_FALSE(is_surely_host(nullptr));
}

}  // namespace
}  // namespace partita::memory
