// How the partitions of the two sides and the transfers between them lie over one another; kernels share the
// arithmetic.
#pragma once

#include <partita/device/impl/plan.hpp>

namespace partita::link {

using device::Plan;
using device::Range;

}  // namespace partita::link
