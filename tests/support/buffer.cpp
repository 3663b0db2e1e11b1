#include "support/buffer.hpp"

#include <algorithm>
#include <array>
#include <cstring>

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

Buffer::Buffer(TypedLayout layout, std::int64_t count, Memory memory) : layout_(std::move(layout)), count_(count) {
  const auto [first, last] = layout_.span_of(count);
  bytes_ = Bytes(memory, last - first + 2 * guard_bytes);
  origin_ = guard_bytes - first;
  find_gaps();
  reset();
}

template <class Use>
void Buffer::for_each_run(std::int64_t first, std::int64_t last, const Use& use) const {
  while (first < last) {
    const std::int64_t n = layout_.run_at(first, last);
    if (!use(first, origin_ + layout_.offset_of(first), n)) return;
    first += n;
  }
}

/// Where bytes [first, last) lie: one piece of memory, which is copied at once where it is a GPU's.
std::pair<std::int64_t, std::int64_t> Buffer::hull(std::int64_t first, std::int64_t last) const {
  std::int64_t from = bytes_.size_bytes();
  std::int64_t to = 0;
  for_each_run(first, last, [&](std::int64_t, std::int64_t place, std::int64_t n) {
    from = std::min(from, place);
    to = std::max(to, place + n);
    return true;
  });
  return {std::min(from, to), to};
}

template <class Use>
void Buffer::read_runs(std::int64_t first, std::int64_t last, const Use& use) const {
  const auto [from, to] = hull(first, last);
  bytes_.read(from, to, [&, from = from](const std::uint8_t* bytes) {
    for_each_run(first, last,
                 [&](std::int64_t p, std::int64_t place, std::int64_t n) { return use(bytes + (place - from), p, n); });
  });
}

void Buffer::find_gaps() {
  const std::int64_t size_bytes = bytes_.size_bytes();
  std::vector<std::uint8_t> used(static_cast<std::size_t>(size_bytes), 0);
  for_each_run(0, packed_bytes(), [&](std::int64_t, std::int64_t place, std::int64_t n) {
    std::memset(used.data() + place, 1, static_cast<std::size_t>(n));
    return true;
  });
  const auto next = [&](std::int64_t from, int value) {
    const void* found = std::memchr(used.data() + from, value, static_cast<std::size_t>(size_bytes - from));
    return found == nullptr ? size_bytes : static_cast<const std::uint8_t*>(found) - used.data();
  };
  for (std::int64_t first = 0; first < size_bytes;) {
    const std::int64_t last = next(first, 1);
    gaps_.emplace_back(first, last);
    first = next(last, 0);
  }
}

void Buffer::write_pattern(std::uint64_t key, std::int64_t first, std::int64_t last) {
  GatheredCopies copies;
  for_each_run(first, last, [&](std::int64_t p, std::int64_t place, std::int64_t n) {
    bytes_.write(place, place + n, copies, [&](std::uint8_t* bytes) { test::write_pattern(bytes, key, p, p + n); });
    return true;
  });
  copies.make();
}

testing::AssertionResult Buffer::holds_pattern(std::uint64_t key, std::int64_t first, std::int64_t last) const {
  std::int64_t wrong = last;
  read_runs(first, last, [&](const std::uint8_t* bytes, std::int64_t p, std::int64_t n) {
    const std::int64_t off = first_off_pattern(bytes, key, p, p + n);
    if (off != p + n) wrong = off;
    return off == p + n;
  });
  return wrong == last ? testing::AssertionSuccess() : differs(wrong, pattern(key, wrong));
}

std::vector<std::uint8_t> Buffer::packed() const {
  std::vector<std::uint8_t> result(static_cast<std::size_t>(packed_bytes()));
  read_runs(0, packed_bytes(), [&](const std::uint8_t* bytes, std::int64_t p, std::int64_t n) {
    std::copy_n(bytes, n, result.data() + p);
    return true;
  });
  return result;
}

testing::AssertionResult Buffer::holds(const std::vector<std::uint8_t>& expected, std::int64_t first,
                                       std::int64_t last) const {
  std::int64_t wrong = last;
  read_runs(first, last, [&](const std::uint8_t* bytes, std::int64_t p, std::int64_t n) {
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
  bytes_.write(0, bytes_.size_bytes(), [this](std::uint8_t* bytes) {
    std::memset(bytes, untouched, static_cast<std::size_t>(bytes_.size_bytes()));
  });
}

testing::AssertionResult Buffer::gaps_untouched() const {
  return bytes_.read(0, bytes_.size_bytes(), [this](const std::uint8_t* bytes) {
    for (const auto& [first, last] : gaps_) {
      for (std::int64_t from = first; from < last; from += static_cast<std::int64_t>(untouched_block.size())) {
        const std::int64_t n = std::min(last - from, static_cast<std::int64_t>(untouched_block.size()));
        if (std::memcmp(bytes + from, untouched_block.data(), static_cast<std::size_t>(n)) == 0) continue;
        const auto wrong = std::mismatch(bytes + from, bytes + from + n, untouched_block.data()).first - bytes;
        return testing::AssertionFailure()
               << "the byte at offset " << wrong - origin_
               << " from the buffer's address lies outside its type map and was overwritten";
      }
    }
    return testing::AssertionSuccess();
  });
}

}  // namespace partita::test
