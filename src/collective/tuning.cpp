#include "collective/tuning.hpp"

#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "partita/device/impl/areas.hpp"

namespace partita::collective {
namespace {

/// Schedules: what is best for small and middle sizes on 2 to 8 ranks.
constexpr std::pair<Kind, const char*> of_schedules[] = {
    {Kind::bcast, "binomial"},
    {Kind::gather, "linear"},
    {Kind::gatherv, "linear"},
    {Kind::scatter, "linear"},
    {Kind::scatterv, "linear"},
    {Kind::allgather, "linear"},
    {Kind::allgatherv, "linear"},
    {Kind::alltoall, "linear"},
    {Kind::alltoallv, "linear"},
    {Kind::alltoallw, "linear"},
    {Kind::reduce, "binomial"},
    {Kind::allreduce, "recursive_doubling"},
    {Kind::reduce_scatter, "pairwise"},
    {Kind::reduce_scatter_block, "pairwise"},
    {Kind::scan, "recursive_doubling"},
    {Kind::exscan, "recursive_doubling"},
    {Kind::neighbor_allgather, "linear"},
    {Kind::neighbor_allgatherv, "linear"},
    {Kind::neighbor_alltoall, "linear"},
    {Kind::neighbor_alltoallv, "linear"},
    {Kind::neighbor_alltoallw, "linear"},
    {Kind::barrier, "dissemination"},
};

constexpr std::int64_t KiB = 1024;

/// Kernels: from so many bytes of a block on, buffers take less time than packets, or than two shots of them.
/// Packets are twice as many bytes, to each rank; in buffers ranks wait for each other twice. Measured on four H200
/// (docs/measurements/h200-4-gpus); to other numbers of ranks it goes by the bytes that a rank sends in packets, as it
/// does on two and on four H100.
struct FromBuffers {
  Kind kind;
  std::int64_t (*from_bytes)(std::int64_t ranks);
};
constexpr std::int64_t reduce_scatter_in_buffers_from(std::int64_t ranks) {
  return 795 * KiB / (ranks - 1);
}
constexpr FromBuffers in_buffers[] = {
    {Kind::bcast, [](std::int64_t ranks) { return 465 * KiB / (ranks - 1); }},
    {Kind::allgather, [](std::int64_t ranks) { return 295 * KiB / (ranks - 1); }},
    {Kind::alltoall, [](std::int64_t ranks) { return 930 * KiB / (ranks - 1); }},
    {Kind::allreduce, [](std::int64_t ranks) { return (ranks == 2 ? 360 : 256) * KiB; }},
    {Kind::reduce_scatter, reduce_scatter_in_buffers_from},
    {Kind::reduce_scatter_block, reduce_scatter_in_buffers_from},
};

/// One shot of an allreduce sends a block to p - 1 ranks, and two shots send two p-ths of that, all of it twice as
/// packets. From so many bytes on that are spared so, they pay for their second way, which takes about a microsecond.
/// Measured on four H200.
constexpr std::int64_t spared_by_two_shots = 192 * KiB;

constexpr std::int64_t in_two_shots_from(std::int64_t ranks) {
  return spared_by_two_shots / 2 * ranks / ((ranks - 1) * (ranks - 2));
}

std::vector<Rule> built_in_rules() {
  std::vector<Rule> rules;
  for (const auto& [kind, algorithm] : of_schedules) rules.push_back({kind, MovedBy::host, any_ranks, 0, algorithm});
  for (const auto& [kind, from_bytes] : in_buffers) {
    rules.push_back({kind, MovedBy::device, any_ranks, 0, "packets"});
    for (int ranks = 2; ranks <= device::most_collective_ranks; ++ranks) {
      rules.push_back({kind, MovedBy::device, ranks, 0, "packets"});
      if (kind == Kind::allreduce && ranks > 2) {
        rules.push_back({kind, MovedBy::device, ranks, in_two_shots_from(ranks), "two-shot"});
      }
      rules.push_back({kind, MovedBy::device, ranks, from_bytes(ranks), "buffers"});
    }
  }
  return rules;
}

std::int64_t average(const std::vector<std::int64_t>& blocks) {
  return blocks.empty() ? 0 : std::reduce(blocks.begin(), blocks.end()) / std::ssize(blocks);
}

}  // namespace

const Rule* Tuning::find(const Need& need) const {
  for (const int ranks : {need.ranks, any_ranks}) {
    const Rule* found = nullptr;
    for (const Rule& rule : rules_) {
      if (rule.kind != need.kind || rule.by != need.by || rule.ranks != ranks || rule.from_bytes > need.bytes) continue;
      if (found == nullptr || found->from_bytes < rule.from_bytes) found = &rule;
    }
    if (found != nullptr) return found;
  }
  return nullptr;
}

int most_ranks_of(MovedBy by) {
  return by == MovedBy::device ? device::most_collective_ranks : std::numeric_limits<int>::max();
}

const Tuning& built_in_tuning() {
  static const Tuning tuning(built_in_rules());
  return tuning;
}

std::vector<RuleInForce> rules_in_force(Kind kind, MovedBy by, int ranks, const Tuning& tuning) {
  if (ranks > most_ranks_of(by)) return {};
  std::set<std::int64_t> begins;
  for (const Tuning* table : {&tuning, &built_in_tuning()}) {
    for (const Rule& rule : table->rules()) {
      if (rule.kind == kind && rule.by == by) begins.insert(rule.from_bytes);
    }
  }
  std::vector<RuleInForce> all;
  for (const std::int64_t bytes : begins) {
    const Need need{kind, by, ranks, bytes};
    const Rule* const own = tuning.find(need);
    const Rule* const rule = own != nullptr ? own : built_in_tuning().find(need);
    if (rule == nullptr) continue;
    const RuleInForce next{bytes, rule->algorithm, own == nullptr};
    const bool goes_on =
        !all.empty() && all.back().algorithm == next.algorithm && all.back().is_built_in == next.is_built_in;
    if (!goes_on) all.push_back(next);
  }
  return all;
}

bool size_may_decide(Kind kind) {
  switch (kind) {
    case Kind::bcast:
    case Kind::gather:
    case Kind::scatter:
    case Kind::allgather:
    case Kind::allgatherv:
    case Kind::alltoall:
    case Kind::reduce:
    case Kind::allreduce:
    case Kind::reduce_scatter:
    case Kind::reduce_scatter_block:
    case Kind::scan:
    case Kind::exscan:
      return true;
    default:
      return false;
  }
}

std::int64_t tuned_bytes(const Problem& problem) {
  if (!size_may_decide(problem.kind)) return 0;
  switch (problem.kind) {
    case Kind::allgather:
    case Kind::allgatherv:
      return average(problem.received);
    case Kind::reduce_scatter:
    case Kind::reduce_scatter_block:
      return average(problem.scattered);
    default:
      // Where one side alone has blocks, as at a root in place, they are those of the other side.
      return problem.sent.empty() ? average(problem.received) : average(problem.sent);
  }
}

}  // namespace partita::collective
