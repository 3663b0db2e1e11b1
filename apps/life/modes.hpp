// The ways to exchange the halo.
#pragma once

#include <array>
#include <string_view>

#include "apps/halo/halo.hpp"

namespace life {

struct Mode {
  std::string_view name;
  partita::halo_way way;
};

inline constexpr std::array modes{
    Mode{"traditional", partita::halo_way::traditional},
    Mode{"queue-regular", partita::halo_way::queue_regular},
    Mode{"queue-ready", partita::halo_way::queue_ready},
    Mode{"partitioned", partita::halo_way::partitioned},
};

}  // namespace life
