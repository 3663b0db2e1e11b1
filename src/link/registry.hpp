// The links of this process.
#pragma once

#include <memory>
#include <vector>

#include "link/context.hpp"
#include "link/link.hpp"

namespace partita::link {

// Each link's own source has its function: make_direct, ...
#define PARTITA_LINK(name) std::unique_ptr<Link> make_##name(const Context& context);
#include "link/links.inc"
#undef PARTITA_LINK

/// Makes one instance of every link, in the order of links.inc. Local; links that need a library or a device open it at
/// first use.
std::vector<std::unique_ptr<Link>> make_links(const Context& context);

}  // namespace partita::link
