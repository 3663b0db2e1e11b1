// Which software a measurement ran on.
#pragma once

#include <map>
#include <string>

namespace partita::apps {

/// Version by name: kernel (the system's), driver (NVIDIA's), cuda_driver (the CUDA that the driver has), mpi, ucx,
/// nvshmem, and what was told. What this process has not loaded, or this machine has not, is left out: so ask after the
/// measurements.
std::map<std::string, std::string> find_versions();

/// 13000 is "13.0", as CUDA counts.
std::string cuda_version(int number);

}  // namespace partita::apps
