// Runs the schedules of all ranks of a collective in one process, and proves that none of them leaves a race.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "collective/problem.hpp"
#include "collective/schedule.hpp"
#include "collective/walk.hpp"
#include "support/random.hpp"

namespace partita::test {

using SimulatedBytes = std::vector<std::uint8_t>;

/// Where the blocks and the slots of one partition lie in its rank's memory. What MPI_IN_PLACE makes the same memory
/// has the same addresses.
class Layout {
 public:
  Layout(const collective::Problem& problem, const collective::Schedule& schedule);
  bool holds(const collective::Region& region) const;
  /// The address of a region that it holds.
  std::int64_t address(const collective::Region& region) const;
  std::int64_t bytes() const { return bytes_; }
  /// Behind it lie the slots; before it, what is the caller's.
  std::int64_t caller_bytes() const { return caller_bytes_; }

 private:
  struct Block {
    std::int64_t address = 0;
    std::int64_t bytes = 0;
  };
  /// Puts blocks behind what is there, with a gap behind each if asked for.
  std::vector<Block> place(const std::vector<std::int64_t>& sizes, std::int64_t gap);
  void alias(const collective::Problem& problem);

  std::vector<Block> blocks_[3];  // by Buffer
  std::int64_t bytes_ = 0;
  std::int64_t caller_bytes_ = 0;
};

/// What is wrong with a schedule by itself, or nothing. It has no race if whatever writes bytes is ordered by `after`
/// against all else that touches them, where a receive writes from the epoch's start on, the caller until its mark, and
/// a send reads until the end.
std::string fault_of(const collective::Problem& problem, const collective::Schedule& schedule);

/// What is wrong with the schedules of all ranks together, or nothing: the sends of each rank to each other one must be
/// as many, and of the same bytes, as the receives there.
std::string fault_between(const std::vector<collective::Schedule>& schedules);

/// The first fault of any rank, or between them; or nothing.
std::string fault_of_all(const std::vector<collective::Problem>& problems,
                         const std::vector<collective::Schedule>& schedules);

/// The contents of the send buffers, and ⊕.
struct Contents {
  std::function<std::uint8_t(int rank, int partition, int block, std::int64_t byte)> sent;
  /// to = from ⊕ to
  std::function<void(const std::uint8_t* from, std::uint8_t* to, std::int64_t bytes)> reduce;
};

/// All ranks and partitions of a collective whose schedules have no fault. Whatever may happen in any order happens in
/// random order: marks, deliveries, ends of sends, copies. A send's bytes are read when it begins or when they arrive.
class Simulator {
 public:
  Simulator(const std::vector<collective::Problem>& problems, const std::vector<collective::Schedule>& schedules,
            int partitions, Random& random);
  /// One epoch, over garbage. What kept it from its end, or nothing.
  std::string run(const Contents& contents);
  SimulatedBytes received(int rank, int partition, int block) const;
  /// The first change to what is the caller's outside of `except`, blocks of the receive buffer; or nothing.
  std::string changed(int rank, int partition, const std::vector<int>& except) const;

 private:
  enum class Happening : std::uint8_t { action, delivery };
  struct Event {
    Happening what{};
    int party = 0;
    int action = 0;
  };
  struct Meeting {
    int rank = 0;
    int action = 0;
  };
  /// One partition of one rank.
  struct Party {
    Party(int rank_of_it, int partition_of_it) : rank(rank_of_it), partition(partition_of_it) {}
    collective::Bits bit() const { return collective::Bits{1} << partition; }
    int rank;
    int partition;
    SimulatedBytes memory;
    SimulatedBytes callers;             // what the caller's memory would be if nobody else wrote there
    std::vector<SimulatedBytes> early;  // by actions: what a send read when it began
  };
  const collective::Action& action_of(const Event& event) const;
  std::uint8_t* memory_of(Party& party, const collective::Region& region);
  void begin_possible(int rank);
  void begin(int party, int action);
  void happen(const Event& event, const Contents& contents);
  bool deliver(const Event& event);
  void mark(Party& party, const Contents& contents);
  void finish(int party, int action);

  const std::vector<collective::Problem>& problems_;
  const std::vector<collective::Schedule>& schedules_;
  int partitions_;
  Random& random_;
  std::vector<Layout> layouts_;
  std::vector<collective::Walk> walks_;         // of all partitions of a rank
  std::vector<std::vector<Meeting>> receives_;  // of each rank's sends, by actions
  std::vector<Party> parties_;
  std::vector<Event> events_;  // that may happen now
};

}  // namespace partita::test
