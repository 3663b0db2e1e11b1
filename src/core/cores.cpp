#include "core/cores.hpp"

#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <climits>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

namespace partita {
namespace {

namespace fs = std::filesystem;

constexpr double without_limit = std::numeric_limits<double>::infinity();

/// Empty where there is no such file.
std::string text_of(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

double limit_in(const fs::path& folder) {
  const std::string max = text_of(folder / "cpu.max");
  return max.empty() ? parse_cpu_max(text_of(folder / "cpu.cfs_quota_us") + " " + text_of(folder / "cpu.cfs_period_us"))
                     : parse_cpu_max(max);
}

void take_least_on_the_way_up(CpuQuota& least, const fs::path& root, fs::path group) {
  for (bool at_root = false; !at_root; group = group.parent_path()) {
    at_root = !group.has_relative_path();
    const fs::path folder = at_root ? root : root / group.relative_path();
    const double cores = limit_in(folder);
    struct stat status{};
    if (cores >= least.cores || ::stat(folder.c_str(), &status) != 0) continue;
    least = {cores, status.st_ino};
  }
}

CoreMask own_mask() {
  CoreMask mask{};
  cpu_set_t bound;
  if (::sched_getaffinity(0, sizeof bound, &bound) != 0) {
    const long online = ::sysconf(_SC_NPROCESSORS_ONLN);
    for (long core = 0; core < online && core < static_cast<long>(sizeof mask * CHAR_BIT); ++core) {
      mask[static_cast<std::size_t>(core / 64)] |= std::uint64_t{1} << (core % 64);
    }
    return mask;
  }
  for (std::size_t core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &bound)) mask[core / 64] |= std::uint64_t{1} << (core % 64);
  }
  return mask;
}

}  // namespace

CoreShare own_core_share() {
  return {own_mask(), quota_of(text_of("/proc/self/cgroup"), "/sys/fs/cgroup")};
}

int cores_together(std::span<const CoreShare> shares) {
  CoreMask together{};
  std::map<std::uint64_t, double> quotas;
  double granted = 0;
  for (const CoreShare& share : shares) {
    for (std::size_t i = 0; i < together.size(); ++i) together[i] |= share.mask[i];
    if (std::isinf(share.quota.cores)) {
      granted = without_limit;
    } else if (quotas.emplace(share.quota.group, share.quota.cores).second) {
      granted += share.quota.cores;
    }
  }
  int cores = 0;
  for (const std::uint64_t word : together) cores += std::popcount(word);
  return std::max(1, static_cast<int>(std::min<double>(cores, granted)));
}

double parse_cpu_max(const std::string& text) {
  std::istringstream words(text);
  double quota_us = 0;
  double period_us = 0;
  const bool limited = (words >> quota_us >> period_us) && quota_us > 0 && period_us > 0;
  return limited ? quota_us / period_us : without_limit;
}

CpuQuota quota_of(std::string_view groups, const fs::path& root) {
  CpuQuota least;
  std::istringstream lines{std::string(groups)};
  for (std::string line; std::getline(lines, line);) {  // number:controllers:path
    const auto first = line.find(':');
    const auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const fs::path group = line.substr(second + 1);
    if (controllers.empty()) {
      take_least_on_the_way_up(least, root, group);
    } else if (controllers == "cpu" || controllers == "cpu,cpuacct" || controllers == "cpuacct,cpu") {
      take_least_on_the_way_up(least, root / controllers, group);
    }
  }
  return least;
}

}  // namespace partita
