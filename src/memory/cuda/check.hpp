// Calls the CUDA driver and turns a failure into an Error that names the call.
#pragma once

#include "core/error.hpp"
#include "memory/cuda/driver.hpp"

/// PARTITA_CU(cuMemUnmap, address, 64): a call of the driver.
#define PARTITA_CU(function, ...)                                          \
  ::partita::memory::cuda::check_driver(::partita::memory::cuda::driver(), \
                                        ::partita::memory::cuda::driver().function(__VA_ARGS__), #function)
/// A call of the driver where nothing can be done about a failure: in destructors, and at the end of the process, when
/// CUDA may have ended already.
#define PARTITA_CU_QUIETLY(function, ...) static_cast<void>(::partita::memory::cuda::driver().function(__VA_ARGS__))
