// Whether a launcher has started more processes than the MPI has found: then it is the launcher of another MPI.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace partita {

/// What the environment tells of the job that this process was started in.
struct AnnouncedJob {
  std::string variable;  ///< that tells the size
  int size = 0;
  int rank = 0;  ///< of this process; 0 where that is not told
};

/// The job of more than one process that the innermost launchers announce. Nothing where one of them announces a job of
/// one process, as `mpiexec -n 1` within a larger job does. `variable` gives an environment variable's value or null.
std::optional<AnnouncedJob> announced_job(const std::function<const char*(const char*)>& variable);

/// Says once, on the process that is announced as rank 0, where MPI_COMM_WORLD has this process alone though the
/// environment announces more.
void warn_if_launched_by_another_mpi();

/// Whether Open MPI's launcher has started this process, and more than one program.
bool several_programs_of_open_mpi();

}  // namespace partita
