// Which algorithms the collectives of a job take, where a file says so: the same on all ranks.
#pragma once

#include "collective/tuning.hpp"
#include "core/settings.hpp"
#include "core/world.hpp"

namespace partita {

/// The rules of the file that rank 0's PARTITA_TUNING names, which rank 0 alone reads, so that all ranks have the same;
/// none where it names no file. Collective. Throws SharedError on all ranks where the file cannot be read or is
/// malformed.
collective::Tuning agreed_tuning(const Settings& settings, const World& world);

}  // namespace partita
