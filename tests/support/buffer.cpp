#include "support/buffer.hpp"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <new>

#include "support/pattern.hpp"

namespace partita::test {

namespace {

constexpr std::uint8_t untouched = 0xa5;
constexpr auto untouched_block = [] {
  std::array<std::uint8_t, 4096> block{};
  block.fill(untouched);
  return block;
}();

}  // namespace

Buffer::Buffer(TypedLayout layout, std::int64_t count, Memory memory)
    : layout_(std::move(layout)), count_(count), memory_(memory) {
  const auto [first, last] = layout_.span_of(count);
  size_bytes_ = last - first + 2 * guard_bytes;
  if (memory == Memory::plain) {
    base_ = static_cast<std::uint8_t*>(std::malloc(static_cast<std::size_t>(size_bytes_)));
  } else if (MPI_Alloc_mem(static_cast<MPI_Aint>(size_bytes_), MPI_INFO_NULL, &base_) != MPI_SUCCESS) {
    base_ = nullptr;
  }
  if (base_ == nullptr) throw std::bad_alloc();
  origin_ = base_ + guard_bytes - first;
  find_gaps();
  reset();
}

Buffer::~Buffer() {
  if (memory_ == Memory::plain) {
    std::free(base_);
  } else {
    MPI_Free_mem(base_);
  }
}

template <class Use>
void Buffer::for_each_run(std::int64_t first, std::int64_t last, const Use& use) const {
  while (first < last) {
    const std::int64_t n = layout_.run_at(first, last);
    if (!use(first, origin_ + layout_.offset_of(first), n)) return;
    first += n;
  }
}

void Buffer::find_gaps() {
  std::memset(base_, 0, static_cast<std::size_t>(size_bytes_));
  for_each_run(0, packed_bytes(), [&](std::int64_t, std::uint8_t* bytes, std::int64_t n) {
    std::memset(bytes, 1, static_cast<std::size_t>(n));
    return true;
  });
  const auto next = [&](std::int64_t from, int value) {
    const void* found = std::memchr(base_ + from, value, static_cast<std::size_t>(size_bytes_ - from));
    return found == nullptr ? size_bytes_ : static_cast<const std::uint8_t*>(found) - base_;
  };
  for (std::int64_t first = 0; first < size_bytes_;) {
    const std::int64_t last = next(first, 1);
    gaps_.emplace_back(first, last);
    first = next(last, 0);
  }
}

void Buffer::write_pattern(std::uint64_t key, std::int64_t first, std::int64_t last) {
  for_each_run(first, last, [&](std::int64_t p, std::uint8_t* bytes, std::int64_t n) {
    test::write_pattern(bytes, key, p, p + n);
    return true;
  });
}

testing::AssertionResult Buffer::holds_pattern(std::uint64_t key, std::int64_t first, std::int64_t last) const {
  std::int64_t wrong = last;
  for_each_run(first, last, [&](std::int64_t p, const std::uint8_t* bytes, std::int64_t n) {
    const std::int64_t off = first_off_pattern(bytes, key, p, p + n);
    if (off != p + n) wrong = off;
    return off == p + n;
  });
  return wrong == last ? testing::AssertionSuccess() : differs(wrong, pattern(key, wrong));
}

std::vector<std::uint8_t> Buffer::packed() const {
  std::vector<std::uint8_t> result(static_cast<std::size_t>(packed_bytes()));
  for_each_run(0, packed_bytes(), [&](std::int64_t p, const std::uint8_t* bytes, std::int64_t n) {
    std::memcpy(result.data() + p, bytes, static_cast<std::size_t>(n));
    return true;
  });
  return result;
}

testing::AssertionResult Buffer::holds(const std::vector<std::uint8_t>& expected, std::int64_t first,
                                       std::int64_t last) const {
  std::int64_t wrong = last;
  for_each_run(first, last, [&](std::int64_t p, const std::uint8_t* bytes, std::int64_t n) {
    const std::uint8_t* wanted = expected.data() + p;
    if (std::memcmp(bytes, wanted, static_cast<std::size_t>(n)) == 0) return true;
    wrong = p + (std::mismatch(bytes, bytes + n, wanted).first - bytes);
    return false;
  });
  return wrong == last ? testing::AssertionSuccess() : differs(wrong, expected[static_cast<std::size_t>(wrong)]);
}

testing::AssertionResult Buffer::differs(std::int64_t position, int expected) const {
  const int got = at(position);
  return testing::AssertionFailure() << "packed byte " << position << " is " << got
                                     << (got == untouched ? " (untouched)" : "") << ", expected " << expected;
}

void Buffer::reset() {
  std::memset(base_, untouched, static_cast<std::size_t>(size_bytes_));
}

testing::AssertionResult Buffer::gaps_untouched() const {
  for (const auto& [first, last] : gaps_) {
    for (std::int64_t from = first; from < last; from += static_cast<std::int64_t>(untouched_block.size())) {
      const std::int64_t n = std::min(last - from, static_cast<std::int64_t>(untouched_block.size()));
      if (std::memcmp(base_ + from, untouched_block.data(), static_cast<std::size_t>(n)) == 0) continue;
      const auto* wrong = std::mismatch(base_ + from, base_ + from + n, untouched_block.data()).first;
      return testing::AssertionFailure() << "the byte at offset " << wrong - origin_
                                         << " from the buffer's address lies outside its type map and was overwritten";
    }
  }
  return testing::AssertionSuccess();
}

}  // namespace partita::test
