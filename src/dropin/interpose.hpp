// How a function of the drop-in takes the place of the MPI's.
#pragma once

#include <mpi.h>
#include <partita/partita.h>

/// INTERPOSE(Wait)(MPI_Request* request, MPI_Status* status) { … } defines MPI_Wait, and PMPI_Wait as another name of
/// it: a tool that stands in front of the drop-in wraps the one and calls the other. Within extern "C".
#define INTERPOSE(NAME) INTERPOSE_NAMES(MPI_##NAME, PMPI_##NAME)
#define INTERPOSE_EXTENSION(NAME) INTERPOSE_NAMES(MPIX_##NAME, PMPIX_##NAME)
// NOLINTBEGIN(bugprone-macro-parentheses): names that are declared
#define INTERPOSE_NAMES(NAME, SHIFTED_NAME)                                 \
  PARTITA_EXPORT decltype(NAME) SHIFTED_NAME __attribute__((alias(#NAME))); \
  PARTITA_EXPORT int NAME
// NOLINTEND(bugprone-macro-parentheses)
