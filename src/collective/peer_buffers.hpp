// The buffers of a collective's ranks, which kernels of all of them read and write.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collective/shown_buffers.hpp"
#include "memory/device.hpp"
#include "partitioned/request_services.hpp"

namespace partita::collective {

/// Two buffers of one rank, as this rank's GPU addresses them. They may be one.
struct BufferPair {
  std::byte* sent = nullptr;
  std::byte* received = nullptr;
};

/// Bytes of a pair, the same on all ranks but in place.
struct BufferBytes {
  std::size_t sent = 0;
  std::size_t received = 0;
};

class PeerBuffers {
 public:
  /// Names `own`, in the memory of one GPU, to the other ranks, which are `world_ranks` but for the entry `rank`. None
  /// of them hears a name where one of them could not map it. Throws Error.
  PeerBuffers(const RequestServices& services, int device, BufferPair own, BufferBytes bytes,
              std::vector<int> world_ranks, int rank);

  /// What `rank` shall hear: ShownBuffers.
  wire::Bytes shown_to(int rank) const { return shown_[static_cast<std::size_t>(rank)].pack(); }
  /// Why this rank shows nothing; empty where it does.
  const std::string& why_not() const { return shown_.front().why_not; }
  const BufferPair& own() const { return own_; }
  /// Maps what `rank` shows, as that rank's shown_to() has it. The mapping is kept until forget(). Throws Error.
  BufferPair map(int rank, std::span<const std::byte> shown_bytes);
  /// The program has freed its request.
  void forget() { mapped_.clear(); }

 private:
  std::byte* map(int rank, const char* which, const memory::DeviceExport& name);

  const RequestServices& services_;
  const int device_;
  const BufferPair own_;
  const std::vector<int> world_ranks_;
  std::vector<ShownBuffers> shown_;  ///< to each rank; that to itself has no names
  std::vector<std::shared_ptr<std::byte>> mapped_;
};

}  // namespace partita::collective
