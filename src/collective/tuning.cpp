#include "collective/tuning.hpp"

#include <limits>
#include <numeric>
#include <utility>

#include "partita/device/impl/areas.hpp"

namespace partita::collective {
namespace {

/// Of schedules: what is best for small and middle sizes on 2 to 8 ranks.
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

/// Of kernels: from so many bytes for all other ranks together on, buffers take less time than packets. Estimated from
/// what flags and bytes cost between two GPUs: packets are twice as many bytes and wait once; in buffers ranks wait for
/// each other twice, some 4 µs. What all ranks get from all, or from one, is sent p - 1 times in packets, and about
/// twice in buffers, so that it pays the sooner.
constexpr std::int64_t KiB = 1024;
constexpr std::pair<Kind, std::int64_t> in_buffers_from[] = {
    {Kind::bcast, 768 * KiB},     {Kind::allgather, 1536 * KiB},      {Kind::alltoall, 1536 * KiB},
    {Kind::allreduce, 768 * KiB}, {Kind::reduce_scatter, 1536 * KiB}, {Kind::reduce_scatter_block, 1536 * KiB},
};

/// Of an allreduce: one shot sends a block to p - 1 ranks, and two shots send two p-ths of that, all of it twice as
/// packets. From so many bytes on that are spared so, they pay for their second way, which takes about a microsecond.
constexpr std::int64_t spared_by_two_shots = 384 * KiB;

constexpr std::int64_t in_two_shots_from(int ranks) {
  return spared_by_two_shots / 2 * ranks / ((ranks - 1) * (ranks - 2));
}

std::vector<Rule> built_in_rules() {
  std::vector<Rule> rules;
  for (const auto& [kind, algorithm] : of_schedules) rules.push_back({kind, MovedBy::host, any_ranks, 0, algorithm});
  for (const auto& [kind, bytes] : in_buffers_from) {
    rules.push_back({kind, MovedBy::device, any_ranks, 0, "packets"});
    for (int ranks = 2; ranks <= device::most_collective_ranks; ++ranks) {
      const std::int64_t others = ranks - 1;
      rules.push_back({kind, MovedBy::device, ranks, 0, "packets"});
      if (kind == Kind::allreduce && ranks > 2) {
        rules.push_back({kind, MovedBy::device, ranks, in_two_shots_from(ranks), "two-shot"});
      }
      rules.push_back({kind, MovedBy::device, ranks, (bytes + others - 1) / others, "buffers"});
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
