// How the partitions of the two sides and the transfers between them lie over one another; kernels share the
// arithmetic.
#pragma once

#include <partita/device/impl/plan.hpp>

namespace partita::link {

using device::Plan;
using device::Range;

/// The packed bytes of neighbouring transport partitions, at least one.
constexpr Range bytes_of(const Plan& plan, Range run) {
  return {plan.bytes(run.begin).begin, plan.bytes(run.end - 1).end};
}

}  // namespace partita::link
