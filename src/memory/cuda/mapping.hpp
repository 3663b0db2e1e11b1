// Memory of another process, mapped into this one.
#pragma once

#include <cstddef>
#include <memory>
#include <variant>
#include <vector>

#include "core/node_socket.hpp"
#include "memory/cuda/context.hpp"
#include "memory/device.hpp"

namespace partita::memory::cuda {

/// Unmaps when it goes away.
class Mapping {
 public:
  virtual ~Mapping() = default;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::byte* base() const { return base_; }
  /// Whether its end waits for every running kernel of this process, which no thread can launch or copy beside then.
  virtual bool blocks() const = 0;

 protected:
  Mapping() = default;
  std::byte* base_ = nullptr;
};

struct AlreadyMapped {};
using Mapped = std::variant<std::shared_ptr<Mapping>, NotMappable, AlreadyMapped>;

/// The whole allocation of `piece`, for GPU `device`, whose context is `context`. AlreadyMapped: an older mapping is in
/// the way.
Mapped map_by_ipc(const DevicePiece& piece, int device, CUcontext context);
/// The whole handles of `pieces` one after another; `descriptors` are theirs.
Mapped map_by_descriptors(const DeviceExport& pieces, const std::vector<UniqueFd>& descriptors, int device,
                          CUcontext context);

}  // namespace partita::memory::cuda
