#include "memory/gpu_layout.hpp"

#include <bit>
#include <vector>

#include "memory/grid.hpp"

namespace partita::memory {
namespace {

constexpr std::uint64_t largest_unit_bytes = 16;

std::uint64_t bits(std::int64_t distance) {
  return static_cast<std::uint64_t>(distance);
}

}  // namespace

GpuLayout::GpuLayout(DeviceMemory& device_memory, int device, const Layout& layout)
    : device_memory_(device_memory),
      device_(device),
      size_bytes_(layout.size_bytes()),
      extent_bytes_(layout.extent_bytes()),
      run_count_(layout.runs().size()),
      steps_(bits(size_bytes_) | bits(extent_bytes_)),
      runs_(device_memory.allocate_unzeroed_block(device, run_count_ * sizeof(PackRun))) {
  std::vector<PackRun> runs;
  std::uint64_t packed_bytes = 0;
  for (const Layout::Run& run : layout.runs()) {
    runs.push_back({run.offset_bytes, run.stride_bytes, bits(run.length_bytes), packed_bytes});
    packed_bytes += bits(run.length_bytes * run.count);
    steps_ |= bits(run.offset_bytes) | bits(run.stride_bytes) | bits(run.length_bytes);
  }
  try {
    device_memory.copy(runs_, runs.data(), run_count_ * sizeof(PackRun));
  } catch (...) {
    device_memory.free_block(device, runs_, run_count_ * sizeof(PackRun));
    throw;
  }
}

GpuLayout::~GpuLayout() {
  device_memory_.free_block(device_, runs_, run_count_ * sizeof(PackRun));
}

void GpuLayout::pack(Stream& stream, const std::byte* user, std::int64_t bytes, std::byte* packed) const {
  if (bytes > 0) stream.launch(grid_for(bytes), packing(user, bytes, packed));
}

void GpuLayout::unpack(Stream& stream, const std::byte* packed, std::byte* user, std::int64_t bytes) const {
  if (bytes > 0) stream.launch(grid_for(bytes), unpacking(packed, user, bytes));
}

PackElements GpuLayout::unpacking(const std::byte* packed, std::byte* user, std::int64_t bytes) const {
  PackElements arguments = packing(user, bytes, const_cast<std::byte*>(packed));
  arguments.unpacks = 1;
  return arguments;
}

PackElements GpuLayout::packing(const std::byte* user, std::int64_t bytes, std::byte* packed) const {
  const auto addresses = reinterpret_cast<std::uintptr_t>(user) | reinterpret_cast<std::uintptr_t>(packed);
  PackElements arguments;
  arguments.packed = packed;
  arguments.user = const_cast<std::byte*>(user);
  arguments.runs = reinterpret_cast<const PackRun*>(runs_);
  arguments.run_count = static_cast<partita_u32>(run_count_);
  const int zeros = std::countr_zero(steps_ | addresses | bits(bytes) | largest_unit_bytes);
  arguments.unit_bytes = partita_u32{1} << zeros;
  arguments.bytes = bits(bytes);
  arguments.size_bytes = bits(size_bytes_);
  arguments.extent_bytes = extent_bytes_;
  return arguments;
}

}  // namespace partita::memory
