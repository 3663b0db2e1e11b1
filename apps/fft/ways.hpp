// How the cells of an exchange go between GPUs, as far as it is known before they do, and which staged twins cannot
// differ from their exchanges.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "apps/fft/hops.hpp"

namespace fft {

/// How far the calls of a hop come on the way to peer memory; the farthest is the last.
enum class Reach : std::uint8_t { among_too_many, between_nodes, too_small, by_peers };

/// `rank`: whose hop it is; `nodes`: a number for each rank of `grid`, the same on one node; `from_bytes`: of a rank's
/// larger buffer.
Reach reach_of(const Hop& hop, const RankGrid& grid, int rank, const std::vector<int>& nodes, std::int64_t from_bytes);

/// An exchange by a collective of the MPI's on GPU memory that Partita takes.
struct CollectiveWay {
  std::string exchange;             ///< without the suffix of the staged twin
  std::int64_t peers_from_bytes{};  ///< of a rank's larger buffer it goes by peer memory; -1: never
  std::string why_staged{};  ///< a clause; empty where it goes by peer memory if the ranks' GPUs reach each other
};

/// Who takes GPU memory in MPI's own calls, and how.
struct GpuMemoryWay {
  bool by_partita = false;                   ///< else the MPI takes it
  std::string why{};                         ///< a clause, of this rank
  std::vector<CollectiveWay> collectives{};  ///< where Partita takes it
};

/// What Partita tells of it, and of those of `exchanges` that are collectives. The same on all ranks, but for `why`.
/// Collective over `comm`, which has all ranks of the job.
GpuMemoryWay gpu_memory_way(MPI_Comm comm, const Problem& problem, std::span<const std::string> exchanges);

/// For people, a line for each.
std::string describe(const GpuMemoryWay& way);

/// Sentences about each of `exchanges` that cannot differ from its staged twin, which is one of them. `way`: null where
/// the cells lie in host memory.
std::vector<std::string> notes_on_twins(const GpuMemoryWay* way, std::span<const std::string> exchanges);
/// The same where `links` are those over which the partitions went; empty where they are not known, or not the twin's.
std::vector<std::string> notes_on_links(const std::vector<std::string>& links, std::span<const std::string> exchanges);

}  // namespace fft
