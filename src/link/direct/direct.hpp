// Link `direct`: the thread that marks a partition stores its bytes into the receiver's memory itself.
#pragma once

#include <memory>

#include "link/context.hpp"
#include "link/link.hpp"

namespace partita::link {

/// Between ranks of one node, and of a rank with itself. In place where the receiver's memory can be mapped, else
/// through slots in the receiver's exported memory, up to Settings::slot_limit_bytes.
std::unique_ptr<Link> make_direct(const Context& context);

}  // namespace partita::link
