#include "apps/support/origin.hpp"

#include <array>
#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>

#include "apps/support/gpu_origin.hpp"
#include "apps/support/shown_command.hpp"
#include "apps/support/versions.hpp"

namespace partita::apps {
namespace {

using nlohmann::ordered_json;

ordered_json machine_json(const Machine& machine) {
  return {{"cpu", machine.cpu},
          {"cores", machine.cores},
          {"cores_allowed", machine.cores_allowed},
          {"mpi", machine.mpi},
          {"mpi_standard", machine.mpi_standard},
          {"thread_level", machine.thread_level},
          {"gpu", machine.gpu},
          {"gpus", machine.gpus}};
}

ordered_json clocks_json(const ClockRates& rates) {
  ordered_json json = ordered_json::object();
  if (rates.cpu_least_mhz) json["cpu_least_mhz"] = *rates.cpu_least_mhz;
  if (rates.cpu_most_mhz) json["cpu_most_mhz"] = *rates.cpu_most_mhz;
  if (!rates.cpu_governor.empty()) json["cpu_governor"] = rates.cpu_governor;
  if (rates.gpu_sm_mhz) json["gpu_sm_mhz"] = *rates.gpu_sm_mhz;
  if (rates.gpu_sm_most_mhz) json["gpu_sm_most_mhz"] = *rates.gpu_sm_most_mhz;
  return json;
}

ordered_json binding_json(const std::vector<RankPlace>& binding) {
  ordered_json json = ordered_json::array();
  for (const RankPlace& place : binding) {
    json.push_back({{"rank", place.rank}, {"node", place.node}, {"cores", place.cores}});
    if (!place.gpu.empty()) json.back()["gpu"] = place.gpu;
  }
  return json;
}

}  // namespace

Origin begin_origin(MPI_Comm comm, std::string command, bool on_gpu) {
  Origin origin{utc_now(), std::move(command), describe_machine(), on_gpu};
  if (on_gpu) describe_gpu(origin.machine);
  origin.binding = gather_places(comm, origin.machine.gpu_id);
  return origin;
}

Origin begin_app_origin(bool recorded, MPI_Comm comm, bool on_gpu) {
  return recorded ? begin_origin(comm, own_command(), on_gpu) : Origin{};
}

void end_origin(Origin& origin) {
  if (origin.binding.empty()) return;
  origin.clock_rates = read_clock_rates(allowed_cores());
  if (origin.on_gpu) read_gpu_clock_rates(origin.clock_rates);
  origin.versions.merge(find_versions());
  if (!origin.machine.cuda_runtime.empty()) origin.versions["cuda_runtime"] = origin.machine.cuda_runtime;
}

nlohmann::ordered_json origin_json(const Origin& origin) {
  return {{"date", origin.date},
          {"command", origin.command},
          {"versions", origin.versions},
          {"machine", machine_json(origin.machine)},
          {"clocks", clocks_json(origin.clock_rates)},
          {"binding", binding_json(origin.binding)}};
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  std::array<char, 32> text{};
  gmtime_r(&now, &utc);
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text.data();
}

}  // namespace partita::apps
