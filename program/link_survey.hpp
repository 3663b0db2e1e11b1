// Which link each pair of ranks uses and why, found out by making requests between them.
#pragma once

#include <mpi.h>

#include <compare>
#include <string>
#include <vector>

namespace partita::program {

/// What was tried with a pair.
struct Probe {
  const char* memory;
  bool allocated_by_partita;
  const char* size;
  MPI_Count partition_bytes;  ///< of each of probe_partitions partitions
};
inline constexpr int probe_partitions = 8;
inline constexpr Probe probes[] = {
    {"plain", false, "1 KiB", 128},
    {"Partita_Alloc", true, "1 KiB", 128},
    {"plain", false, "1 MiB", 131072},
    {"Partita_Alloc", true, "1 MiB", 131072},
};

/// What Partita chose for one probe; the reason says "the sender" and "the receiver" for their ranks.
struct Choice {
  std::string link, reason, transfers;

  auto operator<=>(const Choice&) const = default;
};

/// The choices of a pair, one for each probe.
using Choices = std::vector<Choice>;

/// For rank 0: all different Choices, and for every pair which of them it has, at sender * ranks + receiver.
struct Survey {
  std::vector<Choices> different;
  std::vector<int> of_pair;
};

/// Makes, runs once and frees the requests of every probe between all pairs. Collective over `comm`, which Partita
/// knows. Blocks. The result is complete on rank 0. Throws std::runtime_error if a call fails.
Survey survey_links(MPI_Comm comm);

}  // namespace partita::program
