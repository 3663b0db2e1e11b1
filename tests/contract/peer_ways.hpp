// What tests of collectives by peer memory share: which way a call goes, on the fake GPU, and the values that they
// move. Their jobs were started with PARTITA_PEER_COLLECTIVES=1024.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <random>

#include "support/errors.hpp"
#include "support/fake_gpu.hpp"
#include "support/job.hpp"

namespace partita::test {

/// More ints than a call by peers needs.
inline constexpr int plenty = 3'000;
inline constexpr int untouched = -7;

enum class Way { peers, host };

/// Makes the call, and expects that this rank's copies went that way: of a call by peers none has an end in host
/// memory; in one through it, a rank whose buffers are GPU memory has some.
template <class Call>
void expect_way(Way way, Call call) {
  const std::uint64_t before = FakeGpu::instance().copies_with_host();
  call();
  const std::uint64_t made = FakeGpu::instance().copies_with_host() - before;
  if (way == Way::peers) {
    EXPECT_EQ(made, 0U);
  } else {
    EXPECT_GT(made, 0U);
  }
}

/// What rank `from` has for rank `to` at place `i`.
inline int value(int from, int to, int i) {
  return (from * 64 + to) * 100'000 + i;
}

inline std::size_t at(int index) {
  return static_cast<std::size_t>(index);
}

/// A generator that gives all ranks one sequence.
inline std::mt19937 common_random() {
  return std::mt19937(static_cast<unsigned>(from_rank_zero(std::random_device{}())));
}

}  // namespace partita::test
