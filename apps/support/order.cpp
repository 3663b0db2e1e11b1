#include "apps/support/order.hpp"

#include <algorithm>
#include <numeric>
#include <random>

namespace partita::apps {

namespace {

/// Keeps the orders apart from the delays (bench/work.cpp), which are drawn from the same seed and epoch.
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

std::vector<std::string> in_drawn_order(const std::vector<std::string>& names, std::uint64_t seed,
                                        std::uint64_t epoch) {
  std::vector<std::string> found;
  found.reserve(names.size());
  for (const std::size_t index : draw_order(names.size(), seed, epoch)) found.push_back(names[index]);
  return found;
}

}  // namespace partita::apps
