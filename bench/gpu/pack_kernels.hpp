// Kernels with the same body as the library's for datatypes with gaps, launched as the library does.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace partita::bench::gpu {

/// Rows of equal length, one every `stride_bytes`: a column of a matrix, a face of a grid.
struct Rows {
  std::int64_t count;
  std::int64_t length_bytes;
  std::int64_t stride_bytes;

  std::int64_t packed_bytes() const { return count * length_bytes; }
};

/// What the kernel reads of `rows`, in this GPU's memory. Freed with its owner.
class PackedLayout {
 public:
  explicit PackedLayout(const Rows& rows);
  ~PackedLayout();
  PackedLayout(const PackedLayout&) = delete;
  PackedLayout& operator=(const PackedLayout&) = delete;

  /// Copies the rows that begin at `user` to `packed`, without gaps.
  void pack(const std::byte* user, std::byte* packed, cudaStream_t stream) const;
  /// The reverse.
  void unpack(const std::byte* packed, std::byte* user, cudaStream_t stream) const;

 private:
  void launch(void* packed, void* user, bool unpacks, cudaStream_t stream) const;

  const Rows rows_;
  void* run_ = nullptr;  ///< a memory::PackRun
};

}  // namespace partita::bench::gpu
