#include "apps/fft/memory.hpp"

#include <algorithm>
#include <limits>
#include <map>

#include "apps/fft/problem.hpp"

namespace fft {
namespace {

constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();

/// Both numbers are not negative.
std::int64_t sum(std::int64_t a, std::int64_t b) {
  return a > largest - b ? largest : a + b;
}

}  // namespace

std::int64_t bytes_of(std::int64_t cells, std::int64_t more) {
  constexpr std::int64_t cell_bytes = sizeof(Complex);
  return cells > largest / cell_bytes ? largest : sum(cells * cell_bytes, more);
}

std::optional<Shortage> shortage_of(const std::vector<GpuDemand>& demands) {
  std::map<std::array<char, 16>, Shortage> gpus;
  for (const GpuDemand& demand : demands) {
    Shortage& gpu = gpus.try_emplace(demand.gpu, Shortage{0, demand.free_bytes}).first->second;
    gpu.needed_bytes = sum(gpu.needed_bytes, demand.needed_bytes);
    gpu.free_bytes = std::min(gpu.free_bytes, demand.free_bytes);
  }
  std::optional<Shortage> worst;
  const auto lack = [](const Shortage& gpu) { return gpu.needed_bytes - gpu.free_bytes; };
  for (const auto& [name, gpu] : gpus) {
    if (lack(gpu) > (worst ? lack(*worst) : 0)) worst = gpu;
  }
  return worst;
}

}  // namespace fft
