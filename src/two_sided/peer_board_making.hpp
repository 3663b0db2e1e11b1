// How the ranks of a communicator get the board on which they agree on collectives by peer memory.
#pragma once

#include <mpi.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/watch.hpp"
#include "two_sided/peer_board.hpp"
#include "two_sided/peer_services.hpp"

namespace partita {

/// On one rank. Its first rank owns the board; all of them have it, or none uses it. Two small reductions of the MPI's,
/// in which all ranks take part, say so. One thread at a time.
class BoardMaking final : public Waiting {
 public:
  /// `members`: the world ranks of the communicator, of which this rank is number `rank`.
  BoardMaking(const PeerServices& services, const std::vector<int>& members, int rank)
      : services_(services), members_(members), rank_(rank) {}
  ~BoardMaking() override;
  BoardMaking(const BoardMaking&) = delete;
  BoardMaking& operator=(const BoardMaking&) = delete;

  /// Takes the steps that can be taken, with calls of the MPI's on `comm`; returns whether it is over. Throws Error.
  bool step(MPI_Comm comm);
  /// Behind that: the board; null where there can be none, as all ranks know.
  std::unique_ptr<PeerBoard> take() { return std::move(board_); }
  /// Why this rank could not name the memory, or map it; empty where it could.
  const std::string& why_not() const { return why_not_; }

  std::string explain() const override {
    return "the first collective on a communicator waits until all its ranks have made it";
  }
  int waits_for() const override { return -1; }

 private:
  /// A word that is not 0 where the rank has failed, and the address of the board, which one rank knows.
  using Words = std::array<std::uint64_t, 5>;
  /// A reduction of the MPI's, in memory that must stay where it is until the MPI has ended it.
  struct Talk {
    Words own;
    Words all;
    MPI_Request request;
    Talk* next;
  };
  enum class Stage : std::uint8_t { begun, named, mapped, over };

  template <class Step>
  bool succeeds(const Step& step);
  void begin_largest_of(MPI_Comm comm, const Words& own);
  const Words* largest();
  Words named_words();
  bool maps(const Words& named);

  const PeerServices& services_;
  const std::vector<int>& members_;
  const int rank_;
  Stage stage_ = Stage::begun;
  std::unique_ptr<Talk> talk_;
  std::unique_ptr<PeerBoard> board_;
  std::string why_not_;
};

}  // namespace partita
