// What a rank knows of the board of a communicator.
#pragma once

#include <memory>
#include <optional>

#include "core/error.hpp"
#include "two_sided/peer_board.hpp"

namespace partita {

struct MadeBoard {
  std::unique_ptr<PeerBoard> board;  ///< null: there can be none, or nobody has made it yet
  bool has_tried = false;            ///< to make it, on all ranks
  std::optional<Error> failure;      ///< or this rank does not know whether the others have one
};

}  // namespace partita
