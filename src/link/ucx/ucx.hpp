// Link ucx: puts and small messages of UCX, within a node and between nodes (docs/design/link-ucx.md).
#pragma once

#include <memory>

#include "link/context.hpp"
#include "link/link.hpp"

namespace partita::link {

/// UCX itself starts with the first request. Where this build has no UCX, every request is refused with that reason.
std::unique_ptr<Link> make_ucx(const Context& context);

}  // namespace partita::link
