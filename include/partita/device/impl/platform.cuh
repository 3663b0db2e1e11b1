// What the bodies of the device API need of the platform: words with scope and order, blocks and lanes, a clock.
#pragma once

#include <partita/device/impl/execution_space.hpp>

#if defined(__CUDACC__)
#include <partita/device/impl/platform_cuda.cuh>
#else
#include <partita/device/impl/platform_cpu.cuh>
#endif
