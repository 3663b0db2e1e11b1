// The buffers in GPU memory of one call of the MPI's, as that takes them.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "core/element_block.hpp"
#include "two_sided/host_mirror.hpp"

namespace partita {

/// The mirrors of such buffers. One thread at a time.
class HostMirrors {
 public:
  /// Makes one, and returns what stands for `user`. As HostMirror's constructor.
  void* add(GpuLanes& lanes, int device, std::byte* user, std::span<const ElementBlock> blocks, BufferUse use);

  /// Each does what HostMirror's member of its name does, for all of them.
  void fetch();
  void begin_delivery();
  bool settled();
  void await_delivery();
  void leave_to_the_mpi() noexcept;

 private:
  std::vector<std::unique_ptr<HostMirror>> mirrors_;
};

}  // namespace partita
