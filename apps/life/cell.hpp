// What a board is made of.
#pragma once

#include <cstdint>

#include "apps/support/framed.hpp"

namespace life {

/// 1 lives, 0 does not. 8 bytes, as in cpu-free-stream-triggered-mpi, section VI.
using Cell = std::uint64_t;
using Field = partita::apps::Framed<Cell>;

}  // namespace life
