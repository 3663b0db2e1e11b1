// Among how many ranks the MPI's collectives may go by peer memory.
#pragma once

#include <cstddef>

namespace partita {

/// Larger communicators have no board: it grows with the square of their ranks, and the answers with their number.
inline constexpr std::size_t most_peer_ranks = 64;

}  // namespace partita
