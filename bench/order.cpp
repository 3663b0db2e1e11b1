#include "bench/order.hpp"

#include <algorithm>
#include <numeric>
#include <random>

namespace partita::bench {

namespace {

/// Keeps the orders apart from the delays (work.cpp), which are drawn from the same seed and epoch.
constexpr std::uint32_t purpose = 0x6f726472;

}  // namespace

std::vector<std::size_t> draw_order(std::size_t count, std::uint64_t seed, std::uint64_t epoch) {
  std::seed_seq seeds{seed, seed >> 32, epoch, epoch >> 32, std::uint64_t{purpose}};
  std::mt19937_64 random(seeds);
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin(), order.end(), random);
  return order;
}

}  // namespace partita::bench
