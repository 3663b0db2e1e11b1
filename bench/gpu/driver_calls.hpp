// What the CUDA driver's own calls cost, below which no call that makes one can come.
#pragma once

#include <memory>
#include <string>

#include "bench/measurement.hpp"

namespace partita::bench::gpu {

/// Microseconds in which rank 0's host puts the store of a word of GPU memory (cuStreamWriteValue32) into a stream that
/// has ended, the mean of the round's; null where the driver does not store so.
std::unique_ptr<Measurement> stored_word(Job& job, std::string name, const Case& c);

}  // namespace partita::bench::gpu
