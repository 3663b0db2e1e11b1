// What tests of the drop-in on GPU memory know of the jobs that they are started in.
#pragma once

#include <cstdlib>
#include <string_view>

namespace partita::test {

/// So many ints are an offer where any are.
constexpr int many = 20'000;

/// What an offer is to the MPI: the size of its record.
constexpr int offer_bytes = 251;

/// The job was started with PARTITA_GPU_AWARE=off: the fake GPU's memory, host memory in truth, is the MPI's.
inline bool is_off() {
  const char* const setting = std::getenv("PARTITA_GPU_AWARE");
  return setting != nullptr && std::string_view(setting) == "off";
}

}  // namespace partita::test
