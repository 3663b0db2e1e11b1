// The hash behind the benchmarks' contents, for the host and for kernels.
#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#define PARTITA_BENCH_HOST_DEVICE __host__ __device__
#else
#define PARTITA_BENCH_HOST_DEVICE
#endif

namespace partita::bench {

/// The finaliser of the SplitMix64 generator: every input bit changes about half of the output bits.
PARTITA_BENCH_HOST_DEVICE constexpr std::uint64_t mix(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15ULL;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

/// The byte at `offset` of partition `partition`; `epoch_hash` is mix(epoch).
PARTITA_BENCH_HOST_DEVICE constexpr std::uint8_t content_byte(std::uint64_t epoch_hash, std::uint64_t partition,
                                                              std::uint64_t offset) {
  return static_cast<std::uint8_t>(mix((partition << 40) ^ offset ^ epoch_hash) >> 56);
}

}  // namespace partita::bench
