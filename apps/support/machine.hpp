// What a result file says of the machine: enough to compare, nothing of its environment.
#pragma once

#include <string>

namespace partita::apps {

struct Machine {
  std::string cpu;             ///< model name; empty where the system does not tell
  int cores = 0;               ///< online in the whole machine
  int cores_allowed = 0;       ///< that this rank may run on
  std::string mpi;             ///< the library and its version
  std::string mpi_standard;    ///< "4.1"
  std::string thread_level;    ///< that the MPI gave: single, funneled, serialized or multiple
  std::string gpu{};           ///< model of this rank's GPU; empty where none is used
  int gpus = 0;                ///< that this process sees
  std::string gpu_id{};        ///< PCI bus id of this rank's GPU
  std::string cuda_runtime{};  ///< version; empty where none is used
};

Machine describe_machine();

/// What MPI_Get_library_version says, shortened.
std::string mpi_library_version();

/// The beginning of what MPI_Get_library_version says: up to the first comma or line's end, after which some MPIs tell
/// who built them and where. Runs of blanks become one.
std::string shorten_version(const std::string& text);

}  // namespace partita::apps
