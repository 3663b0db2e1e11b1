// Epochs number the Start … completion rounds of a request; kernels share the arithmetic.
#pragma once

#include <partita/device/impl/epoch.hpp>
