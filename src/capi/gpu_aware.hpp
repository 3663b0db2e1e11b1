// For libpartita_mpi and the program partita alone.
#pragma once

#include "core/element_block.hpp"
#include "partita/partita.h"

extern "C" {

/// Whether the MPI's own calls give GPU memory to Partita, on all ranks alike; `*why`, where `why` is not null, says
/// this rank's reason and lives as long as the runtime. 0 outside Partita_Init … Partita_Finalize.
PARTITA_EXPORT int Partita_is_gpu_aware(const char** why);

/// Whether that is so and the MPI says that it takes no GPU memory, which crashes in its own calls then.
PARTITA_EXPORT int Partita_mpi_takes_no_gpu_memory(void);

/// Whether `request`, which may be null, is that of a nonblocking message that has failed: only a free is left.
PARTITA_EXPORT int Partita_is_spent(Partita_Request request);

/// Whether the elements of a buffer lie in the memory of a GPU. Any thread.
PARTITA_EXPORT int Partita_lies_in_gpu(const void* buffer, MPI_Count count, MPI_Datatype datatype);

/// Host memory that stands for a buffer in GPU memory within one call of the MPI's.
typedef struct Partita_MirrorImpl* Partita_Mirror;

/// Where `count` blocks of `buffer` lie in the memory of a GPU, as the first that has elements does, makes a mirror of
/// them: `*host` stands for `buffer`. With `fetch` it holds what lies there now. Elsewhere it stores nothing. An error
/// is raised on `comm`. Blocks; any thread.
PARTITA_EXPORT int Partita_Mirror_make(const void* buffer, int count, const partita::ElementBlock blocks[], int fetch,
                                       MPI_Comm comm, void** host, Partita_Mirror* mirror);
/// Puts what it holds to its places in the GPU. An error is raised on `comm`. Blocks.
PARTITA_EXPORT int Partita_Mirror_deliver(Partita_Mirror mirror, MPI_Comm comm);
/// Frees it; with `is_the_mpis`, that may still use it, its memory stays.
PARTITA_EXPORT void Partita_Mirror_free(Partita_Mirror mirror, int is_the_mpis);
}
