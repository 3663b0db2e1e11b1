// What a program does without partitioned communication: each thread sends what it has computed as a message of its
// own.
#pragma once

#include <memory>

#include "bench/options.hpp"
#include "bench/subject.hpp"

namespace partita::bench {

inline constexpr const char* isend_name = "isend";

/// Every partition is a message: an MPI_Isend by the thread that marks it, and an MPI_Irecv. On a duplicate of `comm`,
/// past the drop-in. Collective.
std::unique_ptr<Subject> make_isend(MPI_Comm comm, Memory memory);

}  // namespace partita::bench
