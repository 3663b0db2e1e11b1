// MPI_Alltoall on GPU memory by protocol, and where its time goes (ipc-collectives-gpu, figures 4 and 5).
#pragma once

#include <vector>

#include "bench/cpu_mapping.hpp"
#include "bench/measurement.hpp"
#include "bench/messages.hpp"

namespace partita::bench {

/// What the protocols need of this rank's GPU.
struct AlltoallGpu {
  StagingMemory memory;
  MapForCpu map_for_cpu;
};

// A block, what one rank has for another, has the case's bytes. Protocols that cannot be had here are left out, of
// which the job gets a note. Collective.

/// A call by each protocol; a sample is its time in microseconds.
std::vector<Contender> compare_protocols(Job& job, const Case& c, const AlltoallGpu& gpu);
/// The parts of a call by each protocol that has some: rank 0's, so that they add up to the whole. A part's sample is
/// of the calls of which that of the whole is, in each epoch but 0.
std::vector<Contender> split_protocols(Job& job, const Case& c, const AlltoallGpu& gpu);

}  // namespace partita::bench
