// Measures one benchmark: verify, warm up, alternate, summarise.
#pragma once

#include "bench/measurement.hpp"
#include "bench/results.hpp"

namespace partita::bench {

/// Complete on rank 0 of the job; the other rank's result has no use. Collective. Throws Failure for wrong data.
Results run(const Benchmark& benchmark, Job& job, const Subjects& subjects);

}  // namespace partita::bench
