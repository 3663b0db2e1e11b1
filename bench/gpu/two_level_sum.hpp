// C = A + B summed over two nodes in two levels: by kernels in a node, by the progress engine between the two.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/gpu/summed_addition.hpp"

namespace partita::bench::gpu {

/// `two-level` and `two-level-whole` of a case, as far as it can have them; the job's notes say what it cannot. Failure
/// where the ranks are not of two nodes with as many each. Collective.
std::vector<Contender> two_level_contenders(Job& job, const Case& c, const std::shared_ptr<SummedArrays>& arrays,
                                            const std::string& reference);

}  // namespace partita::bench::gpu
