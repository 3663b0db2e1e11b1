// How the program ends where something fails on a rank.
#pragma once

#include <exception>

namespace partita::program {

/// Says what has failed on this rank, and ends the job: the other ranks may wait for this one. Called between MPI_Init
/// and MPI_Finalize, by any number of ranks.
[[noreturn]] void end_job(const std::exception& error);

}  // namespace partita::program
