// What a collective tells of itself.
#include <fmt/ranges.h>

#include <set>

#include "collective/collective.hpp"
#include "partitioned/listed.hpp"

namespace partita::collective {

const char* Collective::kind() const {
  const Kind kind = arguments_.problem.kind;
  return arguments_.is_partitioned ? name_of(kind) : persistent_name_of(kind);
}

std::vector<InfoEntry> Collective::info() const {
  const bool all_matched = all_have_met();
  std::vector<InfoEntry> entries{{"partita_kind", kind()},
                                 {"partita_active", active() ? "true" : "false"},
                                 {"partita_matched", all_matched ? "true" : "false"},
                                 {"partita_algorithm", std::string(algorithm_.name)}};
  if (device_.exists()) entries.push_back({"partita_gpu_copy", "engine"});
  if (!all_matched || legs_.empty()) return entries;
  std::set<std::string> links;
  for (const auto& leg : legs_) links.insert(leg->half().link_name());
  entries.push_back({"partita_link", fmt::format("{}", fmt::join(links, ", "))});
  return entries;
}

std::string Collective::name() const {
  const Problem& problem = arguments_.problem;
  if (!arguments_.is_partitioned) {
    return fmt::format("Persistent {} of {} ranks, algorithm {}, epoch {}", name_of(problem.kind), problem.size,
                       algorithm_.name, epoch_);
  }
  return fmt::format("Partitioned {} of {} ranks, {} partitions, algorithm {}, epoch {}", name_of(problem.kind),
                     problem.size, arguments_.partitions, algorithm_.name, epoch_);
}

std::string Collective::explain() const {
  std::string text = name() + ": ";
  if (!active()) return text + "inactive";
  std::vector<std::int64_t> unmarked;
  std::vector<std::int64_t> open;
  for (std::int64_t p = 0; p < arguments_.partitions; ++p) {
    if (facets().markable != nullptr && !courses_.is_marked(p)) unmarked.push_back(p);
    if (!courses_.is_over(p)) open.push_back(p);
  }
  if (arguments_.is_partitioned) {
    text += fmt::format("{} of {} partitions not marked{}, {} not through{}", unmarked.size(), arguments_.partitions,
                        listed(unmarked), open.size(), listed(open));
  } else {
    text += open.empty() ? "all is done here" : "not through";
  }
  constexpr int most = 8;
  int waits = 0;
  for (const auto* legs : {&legs_, &empty_legs_}) {
    for (const auto& leg : *legs) {
      const std::string wait = leg->describe_wait();
      if (!wait.empty() && ++waits <= most) text += "; " + wait;
    }
  }
  if (const Leg* leg = meeting_.awaited(); leg != nullptr && waits == 0) {
    text += fmt::format("; not all ranks are known to have started this epoch: {}", leg->describe_wait());
  }
  if (waits > most) text += fmt::format("; and {} more", waits - most);
  return text;
}

/// Peers from whom something is missing, one after the other: any of them may have ended. One that only receives is
/// asked as well, since nobody knows what it still needs.
int Collective::waits_for() const {
  const std::size_t empty = legs_.size();
  const std::size_t meeting = empty + empty_legs_.size();
  for (std::size_t n = 0; n <= meeting; ++n) {
    const std::size_t asked = asked_.fetch_add(1, std::memory_order_relaxed) % (meeting + 1);
    const Leg* leg = asked < empty     ? legs_[asked].get()
                     : asked < meeting ? empty_legs_[asked - empty].get()
                                       : meeting_.awaited();
    if (leg == nullptr) continue;
    const Half& half = leg->half();
    const bool only_receives = half.side() == Side::send && !half.is_empty();
    if (only_receives || !leg->describe_wait().empty()) return half.peer();
  }
  return -1;
}

std::uint64_t Collective::how_far() const {
  return courses_.actions_done() + meeting_.how_far();
}

}  // namespace partita::collective
