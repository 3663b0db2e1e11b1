// The buffers in GPU memory of one call of the MPI's, as that takes them.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "core/element_block.hpp"
#include "transfer/communicator.hpp"
#include "two_sided/host_mirror.hpp"

namespace partita {

/// The mirrors of such buffers. One thread at a time.
class HostMirrors {
 public:
  /// Makes one, and returns what stands for `user`. As HostMirror's constructor.
  void* add(GpuLanes& lanes, int device, std::byte* user, std::span<const ElementBlock> blocks, BufferUse use);

  /// Marks where the program's stream stands behind which calls on `communicator`, which may be null, come, and returns
  /// once it has come there: before anything of the buffers is touched. Makes progress meanwhile. Throws Error.
  void await_stream(const Communicator* communicator);

  /// Each does what HostMirror's member of its name does, for all of them.
  void fetch();
  void begin_fetch();
  bool fetched();
  void begin_delivery();
  bool settled();
  void await_delivery();
  void leave_to_the_mpi() noexcept;

 private:
  GpuLanes* lanes_ = nullptr;  ///< of all of them
  std::vector<std::unique_ptr<HostMirror>> mirrors_;
};

}  // namespace partita
