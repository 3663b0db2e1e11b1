// For libpartita_mpi and the program partita alone.
#pragma once

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
}
