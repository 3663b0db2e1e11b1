// Where the ranks of a communicator agree on collectives by peer memory: shared memory of their node.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "memory/device_export.hpp"
#include "memory/host.hpp"

namespace partita {

/// Boards in this rank's memory whose communicators it has freed, until the other ranks have freed them, too. To the
/// end of the runtime they stay mapped there. Any thread.
class LeftBoards {
 public:
  explicit LeftBoards(memory::HostMemory& host_memory) : host_memory_(host_memory) {}

  /// Frees it once so many ranks have left it.
  void add(std::byte* board, std::size_t size_bytes, int ranks);
  /// Frees those that all have left.
  void sweep();

 private:
  struct Left {
    std::byte* board;
    std::size_t size_bytes;
    int ranks;
  };
  memory::HostMemory& host_memory_;
  std::mutex mutex_;
  std::vector<Left> left_;
};

/// One rank's view of the board of a communicator. Calls on it are numbered, alike on all ranks. In each, ranks answer
/// up to four questions in this order, and read each other's answers. A rank that says no to one of the first three has
/// left the call, and need not read anything; so has one that reads a no. Since those that leave may be in later calls,
/// an answer to a later one counts as a no: where all have said yes to a question nobody overwrites that with a yes
/// before the last question, which all await from all. Two more questions are asked behind a call that all have made,
/// until all have said yes to the first of them, and never again.
class PeerBoard {
 public:
  /// So many bytes, zeroed, make the board of `ranks` ranks.
  static std::size_t size_bytes(int ranks);
  /// `memory`: as this rank maps it. `owned_by`: null on ranks other than the one whose memory it is.
  PeerBoard(std::byte* memory, int ranks, int rank, LeftBoards* owned_by);
  ~PeerBoard();
  PeerBoard(const PeerBoard&) = delete;
  PeerBoard& operator=(const PeerBoard&) = delete;

  int ranks() const { return ranks_; }
  int rank() const { return rank_; }
  /// This rank begins a call.
  void begin() { ++calls_; }
  /// The number of the call that this rank has begun last.
  std::uint64_t call() const { return calls_; }
  /// This rank says no to the call that it has begun last, and need not ask.
  void leave() { answer(calls_, Question::wants, {}); }

  enum class Question : std::uint8_t {
    wants,   ///< my buffers lie in GPU memory that peers can map
    named,   ///< my offers stand on the board
    mapped,  ///< I reach all memory that I use
    ended,   ///< what I write has landed
    // Behind a call that all have made:
    may_queue,  ///< I may make a communicator for nonblocking calls now
    has_queue,  ///< I have
  };
  static constexpr int questions = 6;

  struct Answer {
    bool yes = false;
    bool much = false;     ///< to `wants`: my bytes are enough for this way
    bool reduces = false;  ///< to `wants`: the call is one that reduces
  };
  /// What was written before it is read by who reads it.
  void answer(std::uint64_t call, Question question, Answer answer);

  enum class Outcome : std::uint8_t { open, all_yes, some_no };
  struct Answers {
    Outcome outcome = Outcome::open;
    bool any_much = false;
    int rank = -1;  ///< the first that has not answered, or has said no
  };
  /// The answers so far; a no decides, and so do ranks that reduce where others do not. To `ended`, all have to be
  /// there.
  Answers answers(std::uint64_t call, Question question) const;

  enum class Side : std::uint8_t { to_write, to_read };
  static constexpr int sides = 2;

  /// The memory that `owner` offers `user` for that.
  struct Offer {
    memory::DevicePiece piece;
    std::int64_t offset_bytes = 0;  ///< in the piece
    std::int64_t size_bytes = 0;    ///< 0: none, and no piece
  };
  Offer& offer(int owner, int user, Side side) const;

  /// From `call` on the MPI makes all calls of the communicator: what this rank began last was not made by peers and
  /// has failed, so that the numbers of its calls may no longer be those of the others. No call whose ranks agree is
  /// one of these.
  void end_calls(std::uint64_t call);
  /// Whether some rank has said so of `call`. Who finds that before a question that all agree on goes to the MPI.
  bool have_calls_ended(std::uint64_t call) const;

  /// This rank has given up a call that others may be in: no call on the board will be agreed on any more.
  void give_up();
  /// The first rank that has; -1 where none has.
  int who_gave_up() const;

 private:
  struct alignas(64) Words {
    std::atomic<std::uint64_t> answers[questions];
  };
  struct Head;

  Head& head() const;
  Words& words(int rank) const;

  std::byte* const memory_;
  const int ranks_;
  const int rank_;
  LeftBoards* const owned_by_;
  std::uint64_t calls_ = 0;
};

}  // namespace partita
