#include "support/buffer.hpp"

#include <mpi.h>

#include <algorithm>
#include <cstdlib>
#include <new>

namespace partita::test {

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
  is_data_.assign(static_cast<std::size_t>(size_bytes_), false);
  for (std::int64_t p = 0; p < packed_bytes(); ++p) {
    is_data_[static_cast<std::size_t>(origin_ - base_ + layout_.offset_of(p))] = true;
  }
  reset();
}

Buffer::~Buffer() {
  if (memory_ == Memory::plain) {
    std::free(base_);
  } else {
    MPI_Free_mem(base_);
  }
}

void Buffer::write_pattern(std::uint64_t key, std::int64_t first, std::int64_t last) {
  for (std::int64_t p = first; p < last; ++p) origin_[layout_.offset_of(p)] = pattern(key, p);
}

testing::AssertionResult Buffer::holds_pattern(std::uint64_t key, std::int64_t first, std::int64_t last) const {
  for (std::int64_t p = first; p < last; ++p) {
    const int expected = pattern(key, p);
    const int got = at(p);
    if (got == expected) continue;
    return testing::AssertionFailure() << "packed byte " << p << " of [" << first << ", " << last << ") is " << got
                                       << (got == untouched ? " (untouched)" : "") << ", expected " << expected;
  }
  return testing::AssertionSuccess();
}

void Buffer::reset() {
  std::fill_n(base_, size_bytes_, untouched);
}

testing::AssertionResult Buffer::gaps_untouched() const {
  for (std::int64_t i = 0; i < size_bytes_; ++i) {
    if (is_data_[static_cast<std::size_t>(i)] || base_[i] == untouched) continue;
    return testing::AssertionFailure() << "the byte at offset " << (base_ + i) - origin_
                                       << " from the buffer's address lies outside its type map and was overwritten";
  }
  return testing::AssertionSuccess();
}

}  // namespace partita::test
