// What a process holds of memory, for tests that it does not grow.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "support/gpu_memory.hpp"

namespace partita::test {

/// Resident memory of this process, without what it shares with others.
inline long private_kib() {
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) return 0;
  long pages = 0, resident = 0, shared = 0;
  const int read = std::fscanf(file, "%ld %ld %ld", &pages, &resident, &shared);
  std::fclose(file);
  return read == 3 ? (resident - shared) * sysconf(_SC_PAGESIZE) / 1024 : 0;
}

/// What this process has touched of Partita's shared segments, its own and its peers'.
inline long segments_kib() {
  std::ifstream file("/proc/self/smaps");
  long sum = 0;
  bool in_segment = false;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string first;
    words >> first;
    if (first.find('-') != std::string::npos) {  // the line that begins a mapping: its addresses, ..., its file
      in_segment = line.find("/memfd:partita") != std::string::npos;
    } else if (in_segment && first == "Rss:") {
      long kib = 0;
      words >> kib;
      sum += kib;
    }
  }
  return sum;
}

struct Footprint {
  long own_kib = private_kib();
  long segments = segments_kib();
};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// A sanitizer keeps freed memory for a while, to find its use; here it checks the epochs, not the memory.
inline constexpr long allowed_growth_kib = 1L << 40;
inline constexpr long allowed_growth_with_cuda_kib = allowed_growth_kib;
#else
inline constexpr long allowed_growth_kib = 1024;
// With GPU memory fewer epochs run, in which CUDA's own memory still settles, and buffers of a request are staged: what
// is held against these, and those of segments below, is a leak in each epoch, or of each such buffer.
inline constexpr long allowed_growth_with_cuda_kib = 8 * 1024;
#endif
/// Four pages. A block has 64 bytes at least: of 2,500 requests every tenth that lost one would show.
inline constexpr long allowed_segment_growth_kib = 16;
inline constexpr long allowed_segment_growth_with_cuda_kib = 512;

/// `warm`: when all that stays had been made. `over`: what has been done since.
inline void expect_flat(const Footprint& warm, const std::string& over) {
  const Footprint end;
  const bool with_cuda = gpu_memory_is_wanted();
  EXPECT_LE(end.own_kib - warm.own_kib, with_cuda ? allowed_growth_with_cuda_kib : allowed_growth_kib)
      << "private memory grew from " << warm.own_kib << " KiB to " << end.own_kib << " KiB over " << over;
  EXPECT_LE(end.segments - warm.segments, with_cuda ? allowed_segment_growth_with_cuda_kib : allowed_segment_growth_kib)
      << "Partita's shared memory grew from " << warm.segments << " KiB to " << end.segments << " KiB over " << over;
}

}  // namespace partita::test
