// Which link each pair of ranks uses and why, found out by making requests between them.
#pragma once

#include <mpi.h>

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace partita::program {

/// What was tried with a pair.
enum class Where : std::uint8_t { plain, partita, gpu, gpu_pool };
struct Probe {
  const char* memory;
  Where where;
  const char* size;
  MPI_Count partition_bytes;  ///< of each of probe_partitions partitions
};
inline constexpr int probe_partitions = 8;
inline constexpr Probe probes[] = {
    {"plain", Where::plain, "1 KiB", 128},
    {"Partita_Alloc", Where::partita, "1 KiB", 128},
    {"plain", Where::plain, "1 MiB", 131072},
    {"Partita_Alloc", Where::partita, "1 MiB", 131072},
    {"GPU", Where::gpu, "1 KiB", 128},
    {"GPU", Where::gpu, "1 MiB", 131072},
    {"GPU pool", Where::gpu_pool, "1 MiB", 131072},
};

/// What Partita chose for one probe; the reason says "the sender" and "the receiver" for their ranks.
struct Choice {
  std::string link, reason, transfers;

  auto operator<=>(const Choice&) const = default;
};

/// The choices of a pair, one for each probe that all ranks could make.
using Choices = std::vector<Choice>;

/// For rank 0: all different Choices, and for every pair which of them it has, at sender * ranks + receiver.
struct Survey {
  std::vector<Choices> different;
  std::vector<int> of_pair;
};

/// Every rank's text, on rank 0. Collective.
std::vector<std::string> gather_texts(MPI_Comm comm, const std::string& text);

/// Makes, runs once and frees the requests of every probe between all pairs, those on GPUs where every rank has one.
/// Collective over `comm`, which Partita knows. Blocks. The result is complete on rank 0. Throws std::runtime_error if
/// a call fails.
Survey survey_links(MPI_Comm comm);

}  // namespace partita::program
