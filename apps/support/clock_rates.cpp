#include "apps/support/clock_rates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

namespace partita::apps {

namespace {

std::string first_word(const std::string& file) {
  std::ifstream in(file);
  std::string word;
  in >> word;
  return word;
}

/// From /proc/cpuinfo, in which each core's "cpu MHz" follows its "processor".
std::vector<double> core_mhz(const std::vector<int>& cores) {
  std::ifstream cpuinfo("/proc/cpuinfo");
  std::vector<double> found;
  int core = -1;
  for (std::string line; std::getline(cpuinfo, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    if (line.starts_with("processor")) core = static_cast<int>(std::strtol(line.c_str() + colon + 1, nullptr, 10));
    if (!line.starts_with("cpu MHz") || std::find(cores.begin(), cores.end(), core) == cores.end()) continue;
    found.push_back(std::strtod(line.c_str() + colon + 1, nullptr));
  }
  return found;
}

}  // namespace

ClockRates read_clock_rates(const std::vector<int>& cores) {
  ClockRates rates;
  const std::vector<double> mhz = core_mhz(cores);
  if (!mhz.empty()) {
    rates.cpu_least_mhz = *std::min_element(mhz.begin(), mhz.end());
    rates.cpu_most_mhz = *std::max_element(mhz.begin(), mhz.end());
  }
  if (!cores.empty()) {
    rates.cpu_governor =
        first_word(fmt::format("/sys/devices/system/cpu/cpu{}/cpufreq/scaling_governor", cores.front()));
  }
  return rates;
}

}  // namespace partita::apps
