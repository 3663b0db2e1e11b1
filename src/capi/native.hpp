// For libpartita_mpi alone.
#pragma once

#include "partita/partita.h"

/// The library reaches the MPI by what `find` gives for the names PMPI_… from now on, and its errors name the call that
/// `current_call` gives, where it gives one: what the program has called on this thread. Before any other call.
extern "C" PARTITA_EXPORT void Partita_use_native(void* (*find)(const char* name), const char* (*current_call)());
