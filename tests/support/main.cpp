// main() of every test that runs under mpirun: starts MPI, runs the cases on all ranks, ends with one verdict.
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>

#include "apps/support/own_mpi.hpp"
#include "support/chosen_files.hpp"
#include "support/gather.hpp"
#include "support/gpu_memory.hpp"
#include "support/job.hpp"
#include "support/watchdog.hpp"

// Present where the test links Partita. The drop-in has called them already.
extern "C" {
__attribute__((weak)) int Partita_Initialized(int* flag);
__attribute__((weak)) int Partita_Init(MPI_Comm world);
__attribute__((weak)) int Partita_Finalize(void);
}

namespace partita::test {
namespace {

bool partita_started = false;
int own_rank = 0;
int rank_count = 1;
int granted_level = MPI_THREAD_SINGLE;
MPI_Comm private_comm = MPI_COMM_NULL;

int wanted_thread_level() {
  const char* name = std::getenv("PARTITEST_THREAD_LEVEL");
  const std::string wanted = name == nullptr ? "multiple" : name;
  if (wanted == "single") return MPI_THREAD_SINGLE;
  if (wanted == "funneled") return MPI_THREAD_FUNNELED;
  if (wanted == "serialized") return MPI_THREAD_SERIALIZED;
  if (wanted == "multiple") return MPI_THREAD_MULTIPLE;
  std::fprintf(stderr, "PARTITEST_THREAD_LEVEL=%s: expected single, funneled, serialized or multiple\n", name);
  std::exit(2);
}

long gpus_here() {
  std::error_code none;
  const std::filesystem::directory_iterator gpus("/proc/driver/nvidia/gpus", none);
  return none ? 0 : std::distance(begin(gpus), end(gpus));
}

/// What the machine must have. PARTITEST_SHARE_GPU lets ranks share a GPU, which takes NVIDIA's multi-process service,
/// but for tests of different GPUs.
long gpus_needed() {
  const long wanted = environment_number("PARTITEST_GPUS", 0);
  const bool shared = environment_number("PARTITEST_SHARE_GPU", 0) != 0;
  return shared && environment_number("PARTITEST_DISTINCT_GPUS", 0) == 0 ? std::min(wanted, 1L) : wanted;
}

void start_mpi(int& argc, char**& argv) {
  if (MPI_Init_thread(&argc, &argv, wanted_thread_level(), &granted_level) != MPI_SUCCESS) std::exit(3);
  PMPI_Comm_dup(MPI_COMM_WORLD, &private_comm);
  PMPI_Comm_rank(private_comm, &own_rank);
  PMPI_Comm_size(private_comm, &rank_count);
  int started_by_drop_in = 1;
  if (Partita_Initialized != nullptr) Partita_Initialized(&started_by_drop_in);
  if (started_by_drop_in == 0) {
    if (Partita_Init(MPI_COMM_WORLD) != MPI_SUCCESS) std::exit(3);
    partita_started = true;
  }
}

/// The job ends here, on all ranks, where the buffers cannot lie in the memory that PARTITEST_MEMORY names.
void check_memory() {
  try {
    if (gpu_memory_is_wanted()) own_gpu();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", own_rank, error.what());
    PMPI_Abort(MPI_COMM_WORLD, 2);
  }
}

int end_mpi(int exit_code) {
  if (partita_started && Partita_Finalize() != MPI_SUCCESS) {
    std::fprintf(stderr, "rank %d: Partita_Finalize reported an error\n", own_rank);
    exit_code = exit_code == 0 ? 1 : exit_code;
  }
  PMPI_Comm_free(&private_comm);
  if (MPI_Finalize() == MPI_SUCCESS) return exit_code;
  std::fprintf(stderr, "rank %d: MPI_Finalize reported an error\n", own_rank);
  return exit_code == 0 ? 1 : exit_code;
}

}  // namespace

int rank() {
  return own_rank;
}
int ranks() {
  return rank_count;
}
int thread_level() {
  return granted_level;
}
MPI_Comm harness_comm() {
  return private_comm;
}
void harness_barrier() {
  static const auto barrier = PARTITA_OF_MPI(Barrier);
  barrier(private_comm);
}

unsigned long long from_rank_zero(unsigned long long value) {
  PMPI_Bcast(&value, 1, MPI_UNSIGNED_LONG_LONG, 0, private_comm);
  return value;
}

long environment_number(const char* name, long otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr || *text == '\0' ? otherwise : std::strtol(text, nullptr, 10);
}

}  // namespace partita::test

int main(int argc, char** argv) {
  using namespace partita::test;
  testing::InitGoogleTest(&argc, argv);
  run_chosen_files_only();
  start_mpi(argc, argv);
  start_watchdog(rank(), environment_number("PARTITEST_LIMIT", 60));
  if (gpus_here() < gpus_needed()) {
    if (rank() == 0) std::printf("skipped: needs %ld GPUs, this machine has %ld\n", gpus_needed(), gpus_here());
    const int code = end_mpi(skipped_exit_code);
    stop_watchdog();
    return code;
  }
  check_memory();
  install_listeners();
  const int exit_code = common_exit_code(RUN_ALL_TESTS());
  step("MPI_Finalize");
  const int code = end_mpi(exit_code);
  stop_watchdog();
  return code;
}
