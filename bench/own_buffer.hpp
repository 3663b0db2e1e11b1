// Buffers of the MPI, past the drop-in.
#pragma once

#include "bench/options.hpp"
#include "bench/subject.hpp"

namespace partita::bench {

/// From malloc, or from the MPI's own MPI_Alloc_mem.
Buffer own_mpi_buffer(Memory memory, std::size_t size_bytes);

}  // namespace partita::bench
