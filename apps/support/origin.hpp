// Where the figures of a record come from: enough to repeat the run, and to tell which runs may be compared.
#pragma once

#include <mpi.h>

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "apps/support/binding.hpp"
#include "apps/support/clock_rates.hpp"
#include "apps/support/machine.hpp"

namespace partita::apps {

/// The version of records and of the benchmarks' results; bench/results.schema.json describes both.
inline constexpr int schema_version = 1;

struct Origin {
  std::string date;     ///< when the measuring began, UTC: 2026-01-31T23:59:00Z
  std::string command;  ///< without the folders of files
  Machine machine;      ///< as rank 0 sees it
  bool on_gpu = false;
  std::vector<RankPlace> binding{};               ///< of every rank; on rank 0
  ClockRates clock_rates{};                       ///< right after the measuring
  std::map<std::string, std::string> versions{};  ///< see find_versions()
};

/// Right before the measuring, on GPUs or not; this rank's GPU is CUDA's current device. Collective. Throws
/// std::runtime_error.
Origin begin_origin(MPI_Comm comm, std::string command, bool on_gpu);
/// Begins the origin of an app's run, with the command that has started this process. Nothing where the run is not
/// `recorded`.
Origin begin_app_origin(bool recorded, MPI_Comm comm, bool on_gpu);
/// The rest of it, right after the measuring, on rank 0; nothing elsewhere, and where there is no origin.
void end_origin(Origin& origin);

/// The fields `date`, `command`, `versions`, `machine`, `clocks` and `binding` of a record. What the system does not
/// tell is left out. bench/results.schema.json describes them.
nlohmann::ordered_json origin_json(const Origin& origin);

/// This moment, UTC: 2026-01-31T23:59:00Z.
std::string utc_now();

}  // namespace partita::apps
