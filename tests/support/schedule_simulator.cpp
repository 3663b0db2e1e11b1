#include "support/schedule_simulator.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "support/index.hpp"

namespace partita::test {
namespace {

using collective::Action;
using collective::Buffer;
using collective::Deed;
using collective::Problem;
using collective::Region;
using collective::Schedule;

/// The actions of each rank that meet: the sends, or the receives, from one rank to another in their order.
std::map<std::pair<int, int>, std::vector<int>> ways(const std::vector<Schedule>& schedules, Deed deed) {
  std::map<std::pair<int, int>, std::vector<int>> found;
  for (int rank = 0; rank < std::ssize(schedules); ++rank) {
    const auto& actions = schedules[index(rank)].actions;
    for (int a = 0; a < std::ssize(actions); ++a) {
      const Action& action = actions[index(a)];
      if (action.deed != deed) continue;
      found[deed == Deed::send ? std::pair(rank, action.peer) : std::pair(action.peer, rank)].push_back(a);
    }
  }
  return found;
}

}  // namespace

Layout::Layout(const Problem& problem, const Schedule& schedule) {
  // In place the send blocks of a reduce_scatter lie without gaps where the result will, so that they overlap it.
  blocks_[index(static_cast<int>(Buffer::sent))] = place(problem.sent, problem.in_place ? 0 : 1);
  blocks_[index(static_cast<int>(Buffer::received))] = place(problem.received, 1);
  if (problem.in_place) alias(problem);
  caller_bytes_ = bytes_;
  blocks_[index(static_cast<int>(Buffer::slots))] = place(schedule.slot_bytes, 0);
}

std::vector<Layout::Block> Layout::place(const std::vector<std::int64_t>& sizes, std::int64_t gap) {
  std::vector<Block> placed;
  for (const std::int64_t size : sizes) {
    placed.push_back({bytes_, size});
    bytes_ += size + gap;
  }
  return placed;
}

void Layout::alias(const Problem& problem) {
  using enum collective::Kind;
  std::vector<Block>& sent = blocks_[index(static_cast<int>(Buffer::sent))];
  std::vector<Block>& received = blocks_[index(static_cast<int>(Buffer::received))];
  switch (problem.kind) {
    case gather:
    case gatherv:
    case allgather:
    case allgatherv:
      if (!sent.empty()) sent[0] = received[index(problem.rank)];
      break;
    case scatter:
    case scatterv:
      if (!received.empty()) received[0] = sent[index(problem.rank)];
      break;
    case reduce_scatter:
    case reduce_scatter_block:
      received[0].address = sent[0].address;
      break;
    default:
      sent = received;
  }
}

bool Layout::holds(const Region& region) const {
  const auto& blocks = blocks_[index(static_cast<int>(region.buffer))];
  return region.block >= 0 && region.block < std::ssize(blocks) && region.first >= 0 &&
         region.first + region.bytes <= blocks[index(region.block)].bytes;
}

std::int64_t Layout::address(const Region& region) const {
  return blocks_[index(static_cast<int>(region.buffer))][index(region.block)].address + region.first;
}

namespace {

/// Which actions of a schedule come before which.
class Ancestors {
 public:
  explicit Ancestors(const Schedule& schedule) : words_((schedule.actions.size() + 63) / 64) {
    for (const Action& action : schedule.actions) {
      std::vector<std::uint64_t> mine(words_);
      for (const int earlier : action.after) {
        mine[index(earlier) / 64] |= std::uint64_t{1} << (earlier % 64);
        for (std::size_t w = 0; w < words_; ++w) mine[w] |= of_[index(earlier)][w];
      }
      of_.push_back(std::move(mine));
    }
  }
  bool before(int a, int b) const { return (of_[index(b)][index(a) / 64] >> (a % 64) & 1) != 0; }

 private:
  std::size_t words_;
  std::vector<std::vector<std::uint64_t>> of_;
};

/// Bytes that an action reads or writes.
struct Access {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  int action = 0;
  bool writes = false;
};

std::vector<Access> accesses_of(const Problem& problem, const Schedule& schedule, const Layout& layout) {
  std::vector<Access> accesses;
  const auto add = [&](const Region& region, int action, bool writes) {
    const std::int64_t begin = layout.address(region);
    if (region.bytes > 0) accesses.push_back({begin, begin + region.bytes, action, writes});
  };
  for (int a = 0; a < std::ssize(schedule.actions); ++a) {
    const Action& action = schedule.actions[index(a)];
    if (action.deed == Deed::mark) {
      for (int block = 0; block < std::ssize(problem.sent); ++block) add(problem.sent_block(block), a, true);
    }
    if (action.from.bytes > 0) add(action.from, a, false);
    if (action.to.bytes > 0) add(action.to, a, true);
  }
  return accesses;
}

/// What is wrong with an action, whatever the others do; or nothing.
std::string fault_of(const Problem& problem, const Action& action, int place, const Layout& layout) {
  const bool reads = action.deed == Deed::send || action.deed == Deed::copy || action.deed == Deed::reduce;
  const bool writes = action.deed == Deed::receive || action.deed == Deed::copy || action.deed == Deed::reduce;
  const bool has_peer = action.deed == Deed::send || action.deed == Deed::receive;
  for (const int earlier : action.after) {
    if (earlier < 0 || earlier >= place) return "waits for what is no earlier action";
  }
  if (!action.after.empty() && (action.deed == Deed::receive || action.deed == Deed::mark)) return "waits";
  if (has_peer && (action.peer < 0 || action.peer >= problem.size)) return "has a peer that is no rank";
  if (has_peer && action.peer == problem.rank) return "has its own rank as its peer";
  if (action.is_empty()) return action.after.empty() ? "" : "waits";
  if ((action.from.bytes > 0) != reads || (action.to.bytes > 0) != writes) return "has a region too many or too few";
  if (reads && !layout.holds(action.from)) return "reads outside of the buffers";
  if (writes && !layout.holds(action.to)) return "writes outside of the buffers";
  if (reads && writes && action.from.bytes != action.to.bytes) return "has two regions of different sizes";
  if (reads && writes && std::abs(layout.address(action.from) - layout.address(action.to)) < action.from.bytes) {
    return "reads what it writes";
  }
  if (action.deed == Deed::reduce &&
      (action.from.first % problem.unit_bytes != 0 || action.to.first % problem.unit_bytes != 0 ||
       action.from.bytes % problem.unit_bytes != 0)) {
    return "reduces parts of elements";
  }
  return "";
}

}  // namespace

std::string fault_of(const Problem& problem, const Schedule& schedule) {
  const Layout layout(problem, schedule);
  const auto& actions = schedule.actions;
  std::ptrdiff_t marks = 0;
  for (int a = 0; a < std::ssize(actions); ++a) {
    const std::string fault = fault_of(problem, actions[index(a)], a, layout);
    if (!fault.empty()) return "action " + std::to_string(a) + " " + fault;
    if (actions[index(a)].deed == Deed::mark) ++marks;
  }
  if (marks != (problem.sent.empty() ? 0 : 1)) return std::to_string(marks) + " marks";
  const Ancestors ancestors(schedule);
  std::vector<Access> accesses = accesses_of(problem, schedule, layout);
  std::ranges::sort(accesses, {}, &Access::begin);
  const auto in_order = [&](int first, int second) {
    const Deed later = actions[index(second)].deed;
    return actions[index(first)].deed != Deed::send && later != Deed::receive && later != Deed::mark &&
           ancestors.before(first, second);
  };
  for (std::size_t i = 0; i < accesses.size(); ++i) {
    const Access& one = accesses[i];
    for (std::size_t j = i + 1; j < accesses.size() && accesses[j].begin < one.end; ++j) {
      const Access& other = accesses[j];
      if (one.action == other.action || (!one.writes && !other.writes)) continue;
      if (in_order(one.action, other.action) || in_order(other.action, one.action)) continue;
      return "actions " + std::to_string(one.action) + " and " + std::to_string(other.action) + " race";
    }
  }
  return "";
}

std::string fault_between(const std::vector<Schedule>& schedules) {
  auto receives = ways(schedules, Deed::receive);
  for (const auto& [way, sends] : ways(schedules, Deed::send)) {
    const auto& [from, to] = way;
    const std::string where = " from " + std::to_string(from) + " to " + std::to_string(to);
    const std::vector<int> meeting = receives[way];
    if (meeting.size() != sends.size()) {
      return std::to_string(sends.size()) + " sends and " + std::to_string(meeting.size()) + " receives" + where;
    }
    for (std::size_t i = 0; i < sends.size(); ++i) {
      if (schedules[index(from)].actions[index(sends[i])].from.bytes !=
          schedules[index(to)].actions[index(meeting[i])].to.bytes) {
        return "message " + std::to_string(i) + where + " has different sizes at its ends";
      }
    }
    receives.erase(way);
  }
  for (const auto& [way, left] : receives) {
    if (!left.empty()) {
      return "receives without sends from " + std::to_string(way.first) + " to " + std::to_string(way.second);
    }
  }
  return "";
}

std::string fault_of_all(const std::vector<Problem>& problems, const std::vector<Schedule>& schedules) {
  for (std::size_t rank = 0; rank < problems.size(); ++rank) {
    const std::string fault = fault_of(problems[rank], schedules[rank]);
    if (!fault.empty()) return "rank " + std::to_string(rank) + ": " + fault;
  }
  return fault_between(schedules);
}

Simulator::Simulator(const std::vector<Problem>& problems, const std::vector<Schedule>& schedules, int partitions,
                     Random& random)
    : problems_(problems), schedules_(schedules), partitions_(partitions), random_(random) {
  for (std::size_t rank = 0; rank < problems.size(); ++rank) {
    layouts_.emplace_back(problems[rank], schedules[rank]);
    walks_.emplace_back(schedules[rank]);
    receives_.emplace_back(schedules[rank].actions.size());
  }
  auto receives = ways(schedules, Deed::receive);
  for (const auto& [way, sends] : ways(schedules, Deed::send)) {
    for (std::size_t i = 0; i < sends.size(); ++i) {
      receives_[index(way.first)][index(sends[i])] = {way.second, receives[way][i]};
    }
  }
  for (int rank = 0; rank < std::ssize(problems); ++rank) {
    for (int partition = 0; partition < partitions; ++partition) {
      parties_.emplace_back(rank, partition);
    }
  }
}

std::string Simulator::run(const Contents& contents) {
  for (Party& party : parties_) {
    party.memory.resize(index(layouts_[index(party.rank)].bytes()));
    for (std::uint8_t& byte : party.memory) byte = static_cast<std::uint8_t>(random_.bits());
    party.callers.assign(party.memory.begin(), party.memory.begin() + layouts_[index(party.rank)].caller_bytes());
    party.early.assign(schedules_[index(party.rank)].actions.size(), {});
  }
  for (int rank = 0; rank < std::ssize(walks_); ++rank) {
    walks_[index(rank)].restart(collective::first_bits(partitions_));
    begin_possible(rank);
  }
  while (!events_.empty()) {
    std::swap(events_[random_.bits() % events_.size()], events_.back());
    const Event event = events_.back();
    events_.pop_back();
    happen(event, contents);
  }
  for (const Party& party : parties_) {
    if ((walks_[index(party.rank)].over() & party.bit()) == 0) {
      return "rank " + std::to_string(party.rank) + " waits for ever in partition " + std::to_string(party.partition);
    }
  }
  return "";
}

const Action& Simulator::action_of(const Event& event) const {
  return schedules_[index(parties_[index(event.party)].rank)].actions[index(event.action)];
}

std::uint8_t* Simulator::memory_of(Party& party, const Region& region) {
  return party.memory.data() + layouts_[index(party.rank)].address(region);
}

/// All that waits for nothing any more, of neighbours side by side.
void Simulator::begin_possible(int rank) {
  collective::Walk& walk = walks_[index(rank)];
  for (int action = 0; action < std::ssize(schedules_[index(rank)].actions); ++action) {
    const collective::Bits possible = walk.possible(action);
    walk.begin(action, possible);
    collective::for_each_run(possible, [&](link::Range run) {
      for (std::int64_t p = run.begin; p < run.end; ++p) begin(rank * partitions_ + static_cast<int>(p), action);
    });
  }
}

void Simulator::begin(int party, int action) {
  const Event event{Happening::action, party, action};
  const Action& begun = action_of(event);
  if (begun.deed == Deed::receive) return;  // it ends by a delivery
  events_.push_back(event);
  if (begun.deed != Deed::send) return;
  events_.push_back({Happening::delivery, party, action});
  if (random_.bits() % 2 == 0) {
    Party& sender = parties_[index(party)];
    const std::uint8_t* from = memory_of(sender, begun.from);
    sender.early[index(action)].assign(from, from + begun.from.bytes);
  }
}

void Simulator::happen(const Event& event, const Contents& contents) {
  if (event.what == Happening::delivery) {
    if (!deliver(event)) events_.push_back(event);
    return;
  }
  Party& party = parties_[index(event.party)];
  const Action& action = action_of(event);
  if (action.deed == Deed::mark) mark(party, contents);
  if (action.deed == Deed::copy)
    std::copy_n(memory_of(party, action.from), action.from.bytes, memory_of(party, action.to));
  if (action.deed == Deed::reduce) {
    contents.reduce(memory_of(party, action.from), memory_of(party, action.to), action.from.bytes);
  }
  finish(event.party, event.action);
}

/// Now and then it leaves half a message for a while: returns whether it brought all of it.
bool Simulator::deliver(const Event& event) {
  Party& sender = parties_[index(event.party)];
  const Action& send = action_of(event);
  const Meeting& meeting = receives_[index(sender.rank)][index(event.action)];
  const int receiver = meeting.rank * partitions_ + sender.partition;
  const SimulatedBytes& early = sender.early[index(event.action)];
  const std::uint8_t* from = early.empty() ? memory_of(sender, send.from) : early.data();
  std::uint8_t* to = memory_of(parties_[index(receiver)], action_of({{}, receiver, meeting.action}).to);
  const bool all = random_.bits() % 4 != 0;
  std::copy_n(from, all ? send.from.bytes : send.from.bytes / 2, to);
  if (all) finish(receiver, meeting.action);
  return all;
}

void Simulator::mark(Party& party, const Contents& contents) {
  const Problem& problem = problems_[index(party.rank)];
  for (int block = 0; block < std::ssize(problem.sent); ++block) {
    const std::int64_t first = layouts_[index(party.rank)].address(problem.sent_block(block));
    for (std::int64_t byte = 0; byte < problem.sent[index(block)]; ++byte) {
      party.memory[index(first + byte)] = contents.sent(party.rank, party.partition, block, byte);
      party.callers[index(first + byte)] = party.memory[index(first + byte)];
    }
  }
}

void Simulator::finish(int party, int action) {
  const Party& finished = parties_[index(party)];
  walks_[index(finished.rank)].end(action, finished.bit());
  begin_possible(finished.rank);
}

SimulatedBytes Simulator::received(int rank, int partition, int block) const {
  const SimulatedBytes& memory = parties_[index(rank * partitions_ + partition)].memory;
  const Region region = problems_[index(rank)].received_block(block);
  const auto first = memory.begin() + layouts_[index(rank)].address(region);
  return {first, first + region.bytes};
}

std::string Simulator::changed(int rank, int partition, const std::vector<int>& except) const {
  const Party& party = parties_[index(rank * partitions_ + partition)];
  std::vector<bool> may_change(party.callers.size());
  for (const int block : except) {
    const Region region = problems_[index(rank)].received_block(block);
    const std::int64_t first = layouts_[index(rank)].address(region);
    std::fill_n(may_change.begin() + first, region.bytes, true);
  }
  for (std::size_t byte = 0; byte < party.callers.size(); ++byte) {
    if (!may_change[byte] && party.memory[byte] != party.callers[byte]) {
      return "byte " + std::to_string(byte) + " of the caller's memory changed on rank " + std::to_string(rank);
    }
  }
  return "";
}

}  // namespace partita::test
