#include "collective/peer_buffers.hpp"

#include <utility>

namespace partita::collective {
namespace {

/// Adds the name of memory for `peer`, a world rank, or why there is none.
void show(const RequestServices& services, int peer, const char* which, const std::byte* address, std::size_t bytes,
          memory::DeviceExport& name, std::string& why_not) {
  if (!services.world.on_my_node(peer)) {
    why_not = fmt::format("rank {} is on another node", peer);
    return;
  }
  auto exported = services.device_memory.export_to(peer, address, bytes);
  if (auto* reason = std::get_if<memory::NotMappable>(&exported)) {
    why_not = fmt::format("its {} buffer cannot be mapped by other processes: {}", which, reason->reason);
  } else {
    name = std::get<memory::DeviceExport>(std::move(exported));
  }
}

}  // namespace

PeerBuffers::PeerBuffers(const RequestServices& services, int device, BufferPair own, BufferBytes bytes,
                         std::vector<int> world_ranks, int rank)
    : services_(services),
      device_(device),
      own_(own),
      world_ranks_(std::move(world_ranks)),
      shown_(world_ranks_.size()) {
  std::string why_not;
  for (std::size_t r = 0; r < shown_.size() && why_not.empty(); ++r) {
    if (static_cast<int>(r) == rank) continue;
    show(services, world_ranks_[r], "send", own.sent, bytes.sent, shown_[r].sent, why_not);
    if (why_not.empty()) {
      show(services, world_ranks_[r], "receive", own.received, bytes.received, shown_[r].received, why_not);
    }
  }
  if (why_not.empty()) return;
  for (ShownBuffers& shown : shown_) shown = {why_not, {}, {}};
}

BufferPair PeerBuffers::map(int rank, std::span<const std::byte> shown_bytes) {
  const ShownBuffers shown = ShownBuffers::unpack(shown_bytes);
  return {map(rank, "send", shown.sent), map(rank, "receive", shown.received)};
}

std::byte* PeerBuffers::map(int rank, const char* which, const memory::DeviceExport& name) {
  const int peer = world_ranks_[static_cast<std::size_t>(rank)];
  auto imported = services_.device_memory.import(peer, name, device_);
  if (const auto* reason = std::get_if<memory::NotMappable>(&imported)) {
    throw Error(ErrorClass::other,
                "the {} buffer of rank {} cannot be mapped into GPU {} of this rank: {}; with the info key "
                "partita_algorithm=packets kernels need not reach it",
                which, rank, device_, reason->reason);
  }
  mapped_.push_back(std::get<std::shared_ptr<std::byte>>(std::move(imported)));
  return mapped_.back().get();
}

}  // namespace partita::collective
