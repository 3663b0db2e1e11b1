// What PARTITA_VERBOSE=1 tells at the start: how Partita runs.
#pragma once

#include "core/settings.hpp"
#include "core/world.hpp"

namespace partita {

/// The first rank tells the versions and how progress is made, if the settings ask for it.
void report_start(const Settings& settings, const World& world);

}  // namespace partita
