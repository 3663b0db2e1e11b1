#include "core/launch.hpp"

#include <array>
#include <cstdlib>

#include "core/log.hpp"
#include "core/mpi_check.hpp"
#include "core/which_mpi.hpp"

namespace partita {
namespace {

struct Variables {
  const char* size;
  const char* rank;
};
/// What MPIs' launchers set: Open MPI's, and Hydra and its like.
constexpr std::array<Variables, 2> launchers = {
    {{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"}, {"PMI_SIZE", "PMI_RANK"}}};
/// What a batch system sets in a step, where an MPI's launcher may start jobs of its own. (SLURM_NTASKS speaks of the
/// whole allocation, and stands in the batch script too, which is one process.)
constexpr Variables step = {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"};

/// 0 where the variable is not set, or holds no number.
int number(const char* text) {
  return text == nullptr ? 0 : static_cast<int>(std::strtol(text, nullptr, 10));
}

}  // namespace

std::optional<AnnouncedJob> announced_job(const std::function<const char*(const char*)>& variable) {
  const auto announced_by = [&](const Variables& launcher) {
    return AnnouncedJob{launcher.size, number(variable(launcher.size)), number(variable(launcher.rank))};
  };
  std::optional<AnnouncedJob> larger;
  bool of_a_launcher = false;
  for (const Variables& launcher : launchers) {
    const AnnouncedJob job = announced_by(launcher);
    if (job.size == 1) return std::nullopt;
    if (job.size > 1) larger = job;
    of_a_launcher = of_a_launcher || job.size > 0;
  }
  if (of_a_launcher) return larger;
  const AnnouncedJob job = announced_by(step);
  return job.size > 1 ? std::optional(job) : std::nullopt;
}

bool several_programs_of_open_mpi() {
  return number(std::getenv("OMPI_NUM_APP_CTX")) > 1;
}

void warn_if_launched_by_another_mpi() {
  const auto job = announced_job([](const char* name) -> const char* { return std::getenv(name); });
  if (!job || job->rank != 0) return;
  int size = 0;
  MPI_Comm parent = MPI_COMM_NULL;
  PARTITA_MPI(Comm_size(MPI_COMM_WORLD, &size));
  PARTITA_MPI(Comm_get_parent(&parent));
  if (size > 1 || parent != MPI_COMM_NULL) return;
  log("MPI_COMM_WORLD has one process, though the environment announces {} ({}={}). If they shall be one job, the "
      "launcher is another MPI's: start them with that of {}, for which this program was built",
      job->size, job->variable, job->size, short_name(library_version(native::Get_library_version)));
}

}  // namespace partita
