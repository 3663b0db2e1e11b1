#include "two_sided/peer_board.hpp"

#include <type_traits>

namespace partita {
namespace {

// In a word: the call's number, and below it the answer.
constexpr std::uint64_t yes_bit = 1;
constexpr std::uint64_t much_bit = 2;
constexpr std::uint64_t reduces_bit = 4;
constexpr int answer_bits = 3;

static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "processes share them");
static_assert(std::is_trivially_copyable_v<PeerBoard::Offer>);

std::size_t at(int index) {
  return static_cast<std::size_t>(index);
}

}  // namespace

struct alignas(64) PeerBoard::Head {
  std::atomic<int> left;             ///< ranks that will not touch the board any more
  std::atomic<int> given_up;         ///< the first rank that has, and one more
  std::atomic<std::uint64_t> ended;  ///< from this call on none will be agreed on: all are the MPI's; 0: from none on
};

std::size_t PeerBoard::size_bytes(int ranks) {
  return sizeof(Head) + at(ranks) * sizeof(Words) + sides * at(ranks) * at(ranks) * sizeof(Offer);
}

PeerBoard::PeerBoard(std::byte* memory, int ranks, int rank, LeftBoards* owned_by)
    : memory_(memory), ranks_(ranks), rank_(rank), owned_by_(owned_by) {}

/// The others' last access is their count, which the owner reads before it frees the memory.
PeerBoard::~PeerBoard() {
  head().left.fetch_add(1, std::memory_order_release);
  if (owned_by_ != nullptr) owned_by_->add(memory_, size_bytes(ranks_), ranks_);
}

PeerBoard::Head& PeerBoard::head() const {
  return *reinterpret_cast<Head*>(memory_);
}

PeerBoard::Words& PeerBoard::words(int rank) const {
  return reinterpret_cast<Words*>(memory_ + sizeof(Head))[rank];
}

PeerBoard::Offer& PeerBoard::offer(int owner, int user, Side side) const {
  auto* const offers = reinterpret_cast<Offer*>(memory_ + sizeof(Head) + at(ranks_) * sizeof(Words));
  return offers[(at(owner) * at(ranks_) + at(user)) * sides + static_cast<std::size_t>(side)];
}

/// Pairs with the load in answers().
void PeerBoard::answer(std::uint64_t call, Question question, Answer answer) {
  const std::uint64_t word = call << answer_bits | (answer.yes ? yes_bit : 0) | (answer.much ? much_bit : 0) |
                             (answer.reduces ? reduces_bit : 0);
  words(rank_).answers[static_cast<int>(question)].store(word, std::memory_order_release);
}

PeerBoard::Answers PeerBoard::answers(std::uint64_t call, Question question) const {
  Answers found;
  int missing = -1;
  int refusing = -1;
  std::uint64_t first_yes = 0;
  for (int rank = 0; rank < ranks_; ++rank) {
    const std::uint64_t word = words(rank).answers[static_cast<int>(question)].load(std::memory_order_acquire);
    const std::uint64_t answered = word >> answer_bits;
    bool says_yes = answered == call && (word & yes_bit) != 0;
    if (says_yes && first_yes == 0) first_yes = word;
    if (says_yes && ((word ^ first_yes) & reduces_bit) != 0) says_yes = false;
    if (answered < call) {
      if (missing < 0) missing = rank;
    } else if (!says_yes && refusing < 0) {
      refusing = rank;
    }
    found.any_much |= says_yes && (word & much_bit) != 0;
  }
  const bool waits = missing >= 0 && (refusing < 0 || question == Question::ended);
  found.outcome = waits ? Outcome::open : refusing >= 0 ? Outcome::some_no : Outcome::all_yes;
  found.rank = waits ? missing : refusing;
  return found;
}

void PeerBoard::give_up() {
  int none = 0;
  head().given_up.compare_exchange_strong(none, rank_ + 1, std::memory_order_release, std::memory_order_relaxed);
}

int PeerBoard::who_gave_up() const {
  return head().given_up.load(std::memory_order_acquire) - 1;
}

/// Pairs with have_calls_ended(). No other memory is read for it.
void PeerBoard::end_calls(std::uint64_t call) {
  std::uint64_t before = head().ended.load(std::memory_order_relaxed);
  while (before == 0 || call < before) {
    if (head().ended.compare_exchange_weak(before, call, std::memory_order_release, std::memory_order_relaxed)) return;
  }
}

bool PeerBoard::have_calls_ended(std::uint64_t call) const {
  const std::uint64_t first = head().ended.load(std::memory_order_acquire);
  return first != 0 && call >= first;
}

void LeftBoards::add(std::byte* board, std::size_t size_bytes, int ranks) {
  {
    const std::lock_guard lock(mutex_);
    left_.push_back({board, size_bytes, ranks});
  }
  sweep();
}

void LeftBoards::sweep() {
  const std::lock_guard lock(mutex_);
  std::erase_if(left_, [&](const Left& left) {
    // Pairs with the count in ~PeerBoard.
    if (reinterpret_cast<std::atomic<int>*>(left.board)->load(std::memory_order_acquire) < left.ranks) return false;
    host_memory_.free_block(left.board, left.size_bytes);
    return true;
  });
}

}  // namespace partita
