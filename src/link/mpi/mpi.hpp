// Link `mpi`: internal messages of the MPI itself. Works between any two ranks and needs nothing else.
#pragma once

#include <memory>

#include "link/context.hpp"
#include "link/link.hpp"

namespace partita::link {

/// On a private communicator (docs/design/link.md).
std::unique_ptr<Link> make_mpi(const Context& context);

}  // namespace partita::link
