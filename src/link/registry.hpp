// The links of this build, in the order in which `auto` prefers them.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "link/context.hpp"
#include "link/link.hpp"

namespace partita::link {

/// Their names, in the same order.
std::vector<std::string_view> link_names();

/// Makes one instance of every link. Local; links that need a library or a device open it at first use.
std::vector<std::unique_ptr<Link>> make_links(const Context& context);

}  // namespace partita::link
