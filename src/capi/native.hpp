// For libpartita_mpi alone.
#pragma once

#include "partita/partita.h"

/// The library reaches the MPI by what `find` gives for the names PMPI_… from now on. Before any other call.
extern "C" PARTITA_EXPORT void Partita_use_native(void* (*find)(const char* name));
