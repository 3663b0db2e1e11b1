#include <cstdio>
#include <cstdlib>
#include <random>

#include "support/job.hpp"
#include "support/random.hpp"

namespace partita::test {
namespace {

std::uint64_t choose_seed() {
  const char* given = std::getenv("PARTITEST_SEED");
  const std::uint64_t own = given == nullptr ? std::random_device{}() : std::strtoull(given, nullptr, 0);
  const std::uint64_t seed = from_rank_zero(own);
  if (rank() == 0) std::printf("repeat with PARTITEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

}  // namespace

std::uint64_t job_seed() {
  static const std::uint64_t seed = choose_seed();
  return seed;
}

}  // namespace partita::test
