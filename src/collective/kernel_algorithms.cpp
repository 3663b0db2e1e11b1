#include "collective/kernel_algorithms.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "core/error.hpp"

namespace partita::collective {
namespace {

bool is_any(Kind) {
  return true;
}
bool is_allreduce(Kind kind) {
  return kind == Kind::allreduce;
}

constexpr KernelAlgorithm table[] = {
    {"buffers", PARTITA_ALGORITHM_BUFFERS, true, is_any},
    {"two-shot", PARTITA_ALGORITHM_TWO_SHOT, false, is_allreduce},
    {"packets", PARTITA_ALGORITHM_PACKETS, false, is_any},
};
/// Through inboxes, and straight into buffers.
constexpr KernelAlgorithm push = {"push", PARTITA_ALGORITHM_PUSH, false, is_any};
constexpr KernelAlgorithm push_straight = {"push", PARTITA_ALGORITHM_PUSH, true, is_any};

}  // namespace

std::string_view kernel_push_name() {
  return push.name;
}

const KernelAlgorithm& kernel_packets() {
  return *std::ranges::find(table, PARTITA_ALGORITHM_PACKETS, &KernelAlgorithm::code);
}

std::span<const KernelAlgorithm> kernel_algorithms() {
  return table;
}

const KernelAlgorithm& choose_kernel_algorithm(const Problem& problem, std::int64_t block_bytes, std::string_view name,
                                               const Tuning* tuning) {
  if (name == push.name) return problem.kind == Kind::bcast && block_bytes > 0 ? push_straight : push;
  std::string_view wanted = name;
  if (name == "auto") {
    const Need need{problem.kind, MovedBy::device, problem.size, block_bytes};
    const Rule* rule = tuning == nullptr ? nullptr : tuning->find(need);
    if (rule == nullptr) rule = built_in_tuning().find(need);
    wanted = rule == nullptr ? kernel_packets().name : rule->algorithm;
  }
  const auto* const found = std::ranges::find_if(
      table, [&](const KernelAlgorithm& each) { return each.name == wanted && each.serves(problem.kind); });
  if (found == std::end(table)) {
    std::vector<std::string_view> names;
    for (const KernelAlgorithm& each : table) {
      if (each.serves(problem.kind)) names.push_back(each.name);
    }
    names.push_back(push.name);
    throw Error(ErrorClass::info_value,
                "info key partita_algorithm is \"{}\"; expected of {} whose epochs kernels open is auto or one of: {}",
                name, name_of(problem.kind), fmt::join(names, ", "));
  }
  return block_bytes > 0 ? *found : kernel_packets();
}

}  // namespace partita::collective
