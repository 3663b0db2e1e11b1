// The MPI's own functions, whose PMPI names are the drop-in's here (interpose.hpp): native().Wait(…).
#pragma once

#include <mpi.h>

#include <atomic>

namespace partita::dropin {

// NOLINTBEGIN(bugprone-macro-parentheses): names that are declared
struct Native {
#define NATIVE_NAMED(NAME) decltype(&PMPI_##NAME) NAME;
#define NATIVE(NAME) NATIVE_NAMED(NAME)
#define EXTENSION(NAME) decltype(&PMPIX_##NAME) NAME;
#include "dropin/native_calls.inc"
#undef NATIVE_NAMED
#undef NATIVE
#undef EXTENSION
};
// NOLINTEND(bugprone-macro-parentheses)

namespace internal {
inline constinit std::atomic<bool> native_is_found{false};
inline constinit Native native_calls{};
void find_native();
}  // namespace internal

/// Found at the first call: a library may start the MPI while the process loads, before ours has been initialised.
inline const Native& native() {
  if (!internal::native_is_found.load(std::memory_order_acquire)) internal::find_native();
  return internal::native_calls;
}

}  // namespace partita::dropin
