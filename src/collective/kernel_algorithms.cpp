#include "collective/kernel_algorithms.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "core/error.hpp"

namespace partita::collective {
namespace {

/// From so many bytes for all other ranks together on, buffers take less time than packets. Estimated from what flags
/// and bytes cost between two GPUs: packets are twice as many bytes and wait once; in buffers ranks wait for each other
/// twice, some 4 µs. What all ranks get from all, or from one, is sent p - 1 times in packets, and about twice in
/// buffers, so that it pays the sooner.
constexpr std::int64_t least_shared_bytes = 768 * 1024;
constexpr std::int64_t least_other_bytes = 1536 * 1024;

bool buffers_are_best(const Problem& problem, std::int64_t block_bytes) {
  const bool is_shared = problem.kind == Kind::allreduce || problem.kind == Kind::bcast;
  const std::int64_t least = is_shared ? least_shared_bytes : least_other_bytes;
  const std::int64_t others = problem.size - 1;
  return others > 0 && block_bytes >= (least + others - 1) / others;
}

bool always(const Problem&, std::int64_t) {
  return true;
}

/// The preferred first.
constexpr KernelAlgorithm table[] = {
    {"buffers", PARTITA_ALGORITHM_BUFFERS, true, buffers_are_best},
    {"packets", PARTITA_ALGORITHM_PACKETS, false, always},
};

}  // namespace

const KernelAlgorithm& kernel_packets() {
  return *std::ranges::find(table, PARTITA_ALGORITHM_PACKETS, &KernelAlgorithm::code);
}

const KernelAlgorithm& choose_kernel_algorithm(const Problem& problem, std::int64_t block_bytes,
                                               std::string_view name) {
  const auto* const found = std::ranges::find_if(table, [&](const KernelAlgorithm& each) {
    return name == "auto" ? each.is_best(problem, block_bytes) : each.name == name;
  });
  if (found == std::end(table)) {
    std::vector<std::string_view> names;
    for (const KernelAlgorithm& each : table) names.push_back(each.name);
    throw Error(
        ErrorClass::info_value,
        "info key partita_algorithm is \"{}\"; expected of a collective whose epochs kernels open is auto or one of: "
        "{}",
        name, fmt::join(names, ", "));
  }
  return block_bytes > 0 ? *found : kernel_packets();
}

}  // namespace partita::collective
