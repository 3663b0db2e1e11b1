// How fast the processors ran.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace partita::apps {

/// What the system tells; the rest is empty.
struct ClockRates {
  std::optional<double> cpu_least_mhz;  ///< of the cores that this rank may run on
  std::optional<double> cpu_most_mhz;
  std::string cpu_governor;  ///< of the first of these cores
  std::optional<int> gpu_sm_mhz;
  std::optional<int> gpu_sm_most_mhz;  ///< that the GPU can have
};

/// The rates are those of this moment, so ask right after the measurements, while the cores are still awake. The GPU's
/// are left out.
ClockRates read_clock_rates(const std::vector<int>& cores);

}  // namespace partita::apps
