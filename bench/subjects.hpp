// Which subjects a run compares.
#pragma once

#include <memory>
#include <vector>

#include "bench/options.hpp"
#include "bench/subject.hpp"

namespace partita::bench {

/// The persistent send first, then Partita through each face and link, then the peers. All but Partita send on
/// duplicates of `comm`. Collective over its two ranks. Failure where one cannot be had here.
std::vector<std::unique_ptr<Subject>> make_subjects(const Options& options, MPI_Comm comm);

}  // namespace partita::bench
