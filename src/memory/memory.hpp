// What kind of memory a pointer names.
#pragma once

#include <cstdint>

namespace partita::memory {

enum class Kind : std::uint8_t {
  host,           ///< any host memory of this process
  host_exported,  ///< host memory that the other ranks of the node can map (Partita_Alloc)
  device,         ///< memory of one GPU
  managed,        ///< memory that migrates between host and GPU
};

}  // namespace partita::memory
