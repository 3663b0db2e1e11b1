#include "core/roll_call.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <numeric>
#include <thread>

#include "core/launch.hpp"
#include "core/mpi_check.hpp"

namespace partita {
namespace {

constexpr const char* value = "here";

/// Errors of calls without a communicator return: a name that is not there yet is one.
class ErrorsReturn {
 public:
  ErrorsReturn() {
    for (std::size_t i = 0; i < comms.size(); ++i) {
      PARTITA_MPI(Comm_get_errhandler(comms[i], &before_[i]));
      PARTITA_MPI(Comm_set_errhandler(comms[i], MPI_ERRORS_RETURN));
    }
  }
  ~ErrorsReturn() {
    for (std::size_t i = 0; i < comms.size(); ++i) {
      native::Comm_set_errhandler(comms[i], before_[i]);
      native::Errhandler_free(&before_[i]);
    }
  }
  ErrorsReturn(const ErrorsReturn&) = delete;
  ErrorsReturn& operator=(const ErrorsReturn&) = delete;

 private:
  const std::array<MPI_Comm, 2> comms{MPI_COMM_WORLD, MPI_COMM_SELF};  ///< MPI-3.1's for these, and MPI-4's
  std::array<MPI_Errhandler, 2> before_{};
};

/// World ranks of `comm`.
std::vector<int> world_ranks(MPI_Comm comm) {
  MPI_Group group = MPI_GROUP_NULL;
  MPI_Group world = MPI_GROUP_NULL;
  int size = 0;
  PARTITA_MPI(Comm_size(comm, &size));
  PARTITA_MPI(Comm_group(comm, &group));
  PARTITA_MPI(Comm_group(MPI_COMM_WORLD, &world));
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  std::vector<int> translated(ranks.size());
  PARTITA_MPI(Group_translate_ranks(group, size, ranks.data(), world, translated.data()));
  native::Group_free(&group);
  native::Group_free(&world);
  return translated;
}

/// Begins the names of this job alone: a launcher may keep names for several.
std::string prefix() {
  const char* job = std::getenv("PMIX_NAMESPACE");
  return fmt::format("partita-{}", job == nullptr ? "" : job);
}

}  // namespace

/// The first rank looks for all, and the others for its word that all are there.
RollCall::RollCall(MPI_Comm comm) {
  if (!several_programs_of_open_mpi()) return;
  const ErrorsReturn errors_return;
  const std::vector<int> ranks = world_ranks(comm);
  int rank = 0;
  PARTITA_MPI(Comm_rank(comm, &rank));
  const auto name_of = [](int world_rank) { return fmt::format("{}-{}", prefix(), world_rank); };
  const std::string all = fmt::format("{}-all-of-{}", prefix(), ranks.front());
  if (!publish(name_of(ranks[static_cast<std::size_t>(rank)]))) return;
  if (rank == 0) {
    for (const int other : ranks) await(name_of(other));
    publish(all);
  } else {
    await(all);
  }
}

RollCall::~RollCall() {
  if (published_.empty()) return;
  const ErrorsReturn errors_return;
  for (const std::string& name : published_) native::Unpublish_name(name.c_str(), MPI_INFO_NULL, value);
}

bool RollCall::publish(const std::string& name) {
  if (native::Publish_name(name.c_str(), MPI_INFO_NULL, value) != MPI_SUCCESS) return false;
  published_.push_back(name);
  return true;
}

void RollCall::await(const std::string& name) {
  auto pause = std::chrono::milliseconds(1);
  char found[MPI_MAX_PORT_NAME] = "";
  while (native::Lookup_name(name.c_str(), MPI_INFO_NULL, found) != MPI_SUCCESS) {
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::milliseconds(50));
  }
}

}  // namespace partita
