// What a collective that kernels do tells of itself.
#include <fmt/ranges.h>

#include <set>
#include <string>

#include "collective/kernel_collective.hpp"

namespace partita::collective {

std::vector<InfoEntry> KernelCollective::info() const {
  const bool all_matched = unmatched() == nullptr;
  std::vector<InfoEntry> entries{{"partita_kind", kind()},
                                 {"partita_active", active() ? "true" : "false"},
                                 {"partita_matched", all_matched ? "true" : "false"},
                                 {"partita_algorithm", std::string(algorithm().name)}};
  if (device_.exists()) entries.push_back({"partita_gpu_copy", "kernel"});
  if (!all_matched || neighbours_.empty() || neighbours_.front().out.is_empty()) return entries;
  std::set<std::string> links;
  for (const Neighbour& neighbour : neighbours_) links.insert(neighbour.out.link_name());
  entries.push_back({"partita_link", fmt::format("{}", fmt::join(links, ", "))});
  return entries;
}

std::string KernelCollective::name() const {
  const Epoch epoch = epoch_.load();
  return fmt::format("{} {} of {} ranks, {}, algorithm {}, epoch {}",
                     arguments_.is_partitioned ? "Partitioned" : "Persistent", name_of(arguments_.problem.kind),
                     arguments_.problem.size,
                     arguments_.is_partitioned ? "whose epochs kernels open" : "which kernels move", wished_.name,
                     pushes() && active() ? next(epoch) : epoch);
}

const char* KernelCollective::kind() const {
  const Kind kind = arguments_.problem.kind;
  return arguments_.is_partitioned ? name_of(kind) : persistent_name_of(kind);
}

std::string KernelCollective::explain() const {
  const Neighbour* const missing = unmatched();
  if (missing == nullptr && pushed_ && active()) {
    const int count = pushed_->how_many();
    if (!may_mark()) return fmt::format("{}: {} of {} partitions have come", name(), count, arguments_.partitions);
    return fmt::format("{}: kernels of this rank have marked {} of {} partitions", name(), count,
                       arguments_.partitions);
  }
  if (missing == nullptr) return name();
  return fmt::format("{}: rank {} (world rank {}) has not made its request", name(), missing->rank,
                     missing->out.peer());
}

int KernelCollective::waits_for() const {
  const Neighbour* const missing = unmatched();
  return missing == nullptr ? -1 : missing->out.peer();
}

std::uint64_t KernelCollective::how_far() const {
  std::uint64_t matched = 0;
  for_each_half([&](const Half& half) { matched += half.matched() ? 1 : 0; });
  return matched + (pushed_ ? static_cast<std::uint64_t>(pushed_->how_many()) : 0);
}

}  // namespace partita::collective
