#include "bench/work.hpp"

#include <algorithm>
#include <limits>
#include <random>

#include "bench/clock.hpp"

namespace partita::bench {

namespace {

/// Each step needs the one before, so that the compiler and the core can neither drop nor overlap them.
void take_steps(std::uint64_t steps) {
  std::uint64_t value = steps;
  for (std::uint64_t i = 0; i < steps; ++i) {
    value = value * 6364136223846793005ULL + 1442695040888963407ULL;
    asm volatile("" : "+r"(value));
  }
}

}  // namespace

Work Work::calibrated() {
  constexpr std::uint64_t steps = 200000;
  std::int64_t fastest_ns = std::numeric_limits<std::int64_t>::max();
  for (int attempt = 0; attempt < 10; ++attempt) {
    const std::int64_t begin = now_ns();
    take_steps(steps);
    fastest_ns = std::min(fastest_ns, now_ns() - begin);
  }
  return Work(1000.0 * static_cast<double>(steps) / static_cast<double>(std::max<std::int64_t>(fastest_ns, 1)));
}

void Work::compute(double us) const {
  if (us > 0) take_steps(static_cast<std::uint64_t>(us * steps_per_us_));
}

std::string_view name(DelayKind kind) {
  switch (kind) {
    case DelayKind::none:
      return "none";
    case DelayKind::single:
      return "single";
    case DelayKind::uniform:
      return "uniform";
    case DelayKind::gaussian:
      return "gaussian";
  }
  return "";
}

std::vector<double> draw_delays(const DelayShape& shape, int threads, std::uint64_t seed, std::uint64_t epoch) {
  std::seed_seq seeds{seed, seed >> 32, epoch, epoch >> 32};
  std::mt19937_64 random(seeds);
  std::vector<double> delays_us(static_cast<std::size_t>(threads), shape.compute_us);
  const double noise_us = shape.compute_us * shape.noise_percent / 100;
  switch (shape.kind) {
    case DelayKind::none:
      break;
    case DelayKind::single: {
      std::uniform_int_distribution<std::size_t> late(0, delays_us.size() - 1);
      delays_us[late(random)] += noise_us;
      break;
    }
    case DelayKind::uniform: {
      std::uniform_real_distribution<double> share(0, 1);
      for (double& delay : delays_us) delay += noise_us * share(random);
      break;
    }
    case DelayKind::gaussian: {
      std::normal_distribution<double> share(0, 1);
      for (double& delay : delays_us) delay = std::max(0.0, delay + noise_us * share(random));
      break;
    }
  }
  return delays_us;
}

}  // namespace partita::bench
