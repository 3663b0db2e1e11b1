// How many cores the ranks of a node share: what they are bound to and what their control groups let them use.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <string_view>

namespace partita {

/// The cores on which a process may run, as bits.
using CoreMask = std::array<std::uint64_t, 64>;

/// How much of the cores' time a control group gives to all its processes together.
struct CpuQuota {
  double cores = std::numeric_limits<double>::infinity();
  std::uint64_t group = 0;  ///< which control group says so; the same number for ranks that share it
};

/// What a rank tells the others of its node.
struct CoreShare {
  CoreMask mask{};
  CpuQuota quota;
};

/// The share of this process.
CoreShare own_core_share();

/// Cores that ranks with these `shares` have together: those on which any of them may run, but no more than their
/// quotas add up to, each control group counted once. At least 1.
int cores_together(std::span<const CoreShare> shares);

/// The least quota on the way up from the control group that `groups`, as in /proc/self/cgroup, names, in the hierarchy
/// mounted at `root`, as /sys/fs/cgroup: cpu.max (version 2), cpu.cfs_quota_us (version 1).
CpuQuota quota_of(std::string_view groups, const std::filesystem::path& root);

/// Cores that the text of a file cpu.max grants; infinite for "max", and where it is not understood.
double parse_cpu_max(const std::string& text);

}  // namespace partita
