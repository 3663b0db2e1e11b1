// What a kernel tells the host about its measurement.
#pragma once

#include <partita/device/prequest.h>

#include <cstddef>
#include <cstdint>

namespace partita::bench::gpu {

struct KernelReport {
  std::uint64_t measured_ns;  ///< the part that counts
  std::uint64_t whole_ns;     ///< with everything around it
  int error;                  ///< a code of PARTITA_DEVICE_*, 0: none
};

}  // namespace partita::bench::gpu
