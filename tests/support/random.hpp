// Random choices that all ranks make alike and that a seed repeats.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <random>
#include <vector>

namespace partita::test {

/// A seeded source of choices; independent streams come from different `stream` numbers. Not thread-safe.
class Random {
 public:
  explicit Random(std::uint64_t seed, std::uint64_t stream = 0) {
    std::seed_seq sequence{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32),
                           static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)};
    engine_.seed(sequence);
  }

  /// Both ends included.
  std::int64_t between(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(engine_);
  }
  int integer(int least, int most) { return static_cast<int>(between(least, most)); }
  /// All 64 bits are random; the cheapest choice.
  std::uint64_t bits() { return engine_(); }
  bool one_in(int n) { return between(1, n) == 1; }
  template <class T>
  const T& of(const std::vector<T>& choices) {
    return choices[static_cast<std::size_t>(between(0, static_cast<std::int64_t>(choices.size()) - 1))];
  }
  template <class T>
  void shuffle(std::vector<T>& values) {
    for (std::size_t i = values.size(); i > 1; --i) {
      std::swap(values[i - 1], values[static_cast<std::size_t>(between(0, static_cast<std::int64_t>(i) - 1))]);
    }
  }
  /// 0, 1, … count-1 in random order.
  std::vector<int> permutation(int count) {
    std::vector<int> order(static_cast<std::size_t>(count));
    std::iota(order.begin(), order.end(), 0);
    shuffle(order);
    return order;
  }

 private:
  std::mt19937_64 engine_;
};

/// `total` cut into `count` parts at random places, of which some are the same: then parts are 0.
inline std::vector<std::int64_t> random_parts(Random& random, std::int64_t count, std::int64_t total) {
  std::vector<std::int64_t> cuts{0, total};
  while (std::ssize(cuts) < count + 1) cuts.push_back(random.between(0, total));
  std::sort(cuts.begin(), cuts.end());
  std::adjacent_difference(cuts.begin(), cuts.end(), cuts.begin());
  cuts.erase(cuts.begin());
  return cuts;
}

/// The job's seed, the same on all ranks: PARTITEST_SEED, or a new one every run. Printed once by rank 0. Collective at
/// first.
std::uint64_t job_seed();

}  // namespace partita::test
