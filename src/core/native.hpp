// The MPI's own functions, native::Test(…) for PMPI_Test. Where the drop-in is loaded the PMPI names are its own too,
// and those would be looked up among its requests, make progress and make communicators known (docs/design/dropin.md).
#pragma once

#include <mpi.h>

namespace partita::native {

// NOLINTNEXTLINE(bugprone-macro-parentheses): a name that is declared
#define PARTITA_NATIVE(NAME) inline constinit decltype(&PMPI_##NAME) NAME = &PMPI_##NAME;
#include "core/native_calls.inc"
#undef PARTITA_NATIVE

/// Takes all of them as `find` gives them for their PMPI names. While no other thread calls the library.
void take_from(void* (*find)(const char* name));

}  // namespace partita::native
