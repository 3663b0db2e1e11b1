// A rank that computes on its host, by one thread.
#pragma once

#include <memory>
#include <vector>

#include "apps/fft/work.hpp"

namespace fft {

/// For these hops, which outlive it. Needs FFTW (problem_with_fftw). Throws std::bad_alloc where there is no memory.
std::unique_ptr<Work> make_host_work(const std::vector<Hop>& hops);

}  // namespace fft
