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

/// From so many bytes on that one shot sends more than two, these take less time, whose second way costs about a
/// microsecond.
constexpr std::int64_t least_spared_bytes = 384 * 1024;

/// One shot sends the block to p - 1 ranks, and two shots send two p-ths of that, all of it twice as packets.
bool two_shots_are_best(const Problem& problem, std::int64_t block_bytes) {
  const std::int64_t ranks = problem.size;
  if (ranks <= 2) return false;
  const std::int64_t least = least_spared_bytes / 2 * ranks / ((ranks - 1) * (ranks - 2));
  return block_bytes >= least;
}

bool always(const Problem&, std::int64_t) {
  return true;
}
bool any(const Problem&) {
  return true;
}
bool is_allreduce(const Problem& problem) {
  return problem.kind == Kind::allreduce;
}

/// The preferred first.
constexpr KernelAlgorithm table[] = {
    {"buffers", PARTITA_ALGORITHM_BUFFERS, true, any, buffers_are_best},
    {"two-shot", PARTITA_ALGORITHM_TWO_SHOT, false, is_allreduce, two_shots_are_best},
    {"packets", PARTITA_ALGORITHM_PACKETS, false, any, always},
};

}  // namespace

const KernelAlgorithm& kernel_packets() {
  return *std::ranges::find(table, PARTITA_ALGORITHM_PACKETS, &KernelAlgorithm::code);
}

const KernelAlgorithm& choose_kernel_algorithm(const Problem& problem, std::int64_t block_bytes,
                                               std::string_view name) {
  const auto* const found = std::ranges::find_if(table, [&](const KernelAlgorithm& each) {
    return each.serves(problem) && (name == "auto" ? each.is_best(problem, block_bytes) : each.name == name);
  });
  if (found == std::end(table)) {
    std::vector<std::string_view> names;
    for (const KernelAlgorithm& each : table) {
      if (each.serves(problem)) names.push_back(each.name);
    }
    throw Error(ErrorClass::info_value,
                "info key partita_algorithm is \"{}\"; expected of {} whose epochs kernels open is auto or one of: {}",
                name, name_of(problem.kind), fmt::join(names, ", "));
  }
  return block_bytes > 0 ? *found : kernel_packets();
}

}  // namespace partita::collective
