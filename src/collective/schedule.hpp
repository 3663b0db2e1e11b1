// What one rank does for one partition of a collective, and in which order.
#pragma once

#include <cstdint>
#include <vector>

namespace partita::collective {

/// Whose memory a region lies in.
enum class Buffer : std::uint8_t {
  sent,      ///< the caller's send buffer
  received,  ///< the caller's receive buffer
  slots,     ///< memory of the collective's own: slot 0, slot 1, …
};

/// Bytes of one partition. A partition has a slice of each block of a buffer, and a piece of each slot.
struct Region {
  Buffer buffer = Buffer::sent;
  int block = 0;           ///< of the buffer, or the slot's number
  std::int64_t first = 0;  ///< bytes before it in the partition's slice
  std::int64_t bytes = 0;

  /// That of so many neighbouring partitions, where theirs follow each other (CollectiveMemory::is_whole).
  Region times(std::int64_t partitions) const { return {buffer, block, first, bytes * partitions}; }
  /// `count` bytes of it from its `at`-th on.
  Region part(std::int64_t at, std::int64_t count) const { return {buffer, block, first + at, count}; }
  friend bool operator==(const Region&, const Region&) = default;
};

enum class Deed : std::uint8_t {
  mark,     ///< the caller marks the partition: what it sends is there
  send,     ///< `from` goes to rank `peer`
  receive,  ///< `to` comes from rank `peer`
  copy,     ///< to = from
  reduce,   ///< to = from ⊕ to, so `from` comes of lower ranks than `to` where ⊕ does not commute
};

/// What is done in one go, once all of `after` is done.
struct Action {
  Deed deed{};
  int peer = -1;
  Region from{};
  Region to{};
  std::vector<int> after{};  ///< places of earlier actions in the schedule

  bool has_peer() const { return deed == Deed::send || deed == Deed::receive; }
  /// A send or receive of no bytes: it has its place among those that meet, and moves nothing.
  bool is_empty() const { return has_peer() && from.bytes + to.bytes == 0; }
};

/// The actions of one rank for one partition. Each partition goes through them as far as data and marks let it; those
/// in which the same one is possible may do it together (courses.hpp). It generalises the steps (I, R, ⊕, O, A) of
/// gpu-initiated-partitioned-mpi (section IV-B): a step there is a receive, a reduction after it and a send after that,
/// and the next step waits for all of it; here an action waits only for what it needs.
///
/// What `a` sends to `b` comes in the order of the sends in a's schedule and of the receives in b's. A receive may
/// write its region at any time from the start of the epoch on, and a send may read its own until the end. So a region
/// that is received is not used but by actions after the receive, and one that is sent is not written after it.
///
/// How many sends and receives there are does not depend on sizes, which one rank alone may know: where a block is
/// empty, the action is.
struct Schedule {
  std::vector<Action> actions;
  std::vector<std::int64_t> slot_bytes;  ///< of a partition's piece of each slot
};

/// Writes a schedule, one action after the other; each call but slot() returns the action's place. Copies and
/// reductions of no bytes are left out, and nobody waits for an action that is empty.
class Writer {
 public:
  using After = std::vector<int>;
  /// Instead of the place of an action that was left out, or is empty.
  static constexpr int nothing = -1;

  /// A region of its own, in a slot of its own.
  Region slot(std::int64_t bytes);
  /// The caller's mark, the same place each time: it comes before what reads the caller's send buffer.
  int mark();
  int send(int peer, Region from, const After& after);
  int receive(int peer, Region to);
  /// Throws Error (truncate) where the two differ in size, as arguments of the program's may.
  int copy(Region from, Region to, const After& after);
  int reduce(Region from, Region to, const After& after);

  Schedule finished() && { return std::move(schedule_); }

 private:
  int add(Action action, const After& after);
  int add_empty(Action action);

  Schedule schedule_;
  int mark_ = nothing;
};

}  // namespace partita::collective
