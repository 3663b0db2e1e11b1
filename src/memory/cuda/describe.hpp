// The GPUs of this process, as text.
#pragma once

#include <string>

namespace partita::memory::cuda {

/// Names, sizes, what of Partita's needs each has, and which of them reach one another; or why there are none. Makes no
/// context.
std::string describe();

}  // namespace partita::memory::cuda
