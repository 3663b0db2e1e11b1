// GPU memory that the host's CPU loads from and stores to by itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace partita::bench {

/// The first bytes of a piece of a GPU's memory, mapped for the CPU. No copy or kernel on that memory is under way
/// while it is used; those that begin later see what was written.
class CpuMapping {
 public:
  virtual ~CpuMapping() = default;
  virtual void read(void* to, std::size_t size_bytes) const = 0;
  virtual void write(const void* from, std::size_t size_bytes) const = 0;
};

/// So much is mapped, and copied so at most: reads across the bus come one after another, and larger ones take far
/// longer than any copy of the GPU's.
inline constexpr std::int64_t cpu_mapped_bytes = 64 << 10;

/// Where `mapping` is null, `why_not` says why.
struct CpuMapped {
  std::unique_ptr<CpuMapping> mapping;
  std::string why_not;
};

/// Maps the first cpu_mapped_bytes of an allocation of at least 2 MiB, which outlives the mapping.
using MapForCpu = CpuMapped (*)(std::byte* allocation);

}  // namespace partita::bench
