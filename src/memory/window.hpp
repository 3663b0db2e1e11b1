// Memory that the ranks of a node show each other: each side has a window, which its peers map.
#pragma once

#include <cstddef>
#include <memory>
#include <variant>

#include "memory/blocks.hpp"
#include "memory/device.hpp"
#include "memory/device_export.hpp"
#include "memory/host.hpp"
#include "memory/window_name.hpp"
#include "partita/device/peer.h"

namespace partita::memory {

/// This rank's side: words of its own, zeroed, in host memory and in that of one GPU. What it shows besides, its
/// buffer, is the program's. It lives as long as any peer may write there: a request's end at both sides.
class Window {
 public:
  /// Words of 0 bytes are none.
  Window(HostMemory& host_memory, DeviceMemory& device_memory, int device, std::size_t host_bytes,
         std::size_t device_bytes);

  std::byte* host_words() const { return host_ ? host_->address() : nullptr; }
  std::byte* device_words() const { return device_ ? device_->address() : nullptr; }
  /// As the GPU addresses them. The first call for a segment registers it, which takes longer than a mark may.
  std::byte* host_words_on_gpu() const;

  /// Shows the words, host words as a peer's GPU may write them, to `peer`, which may be this rank, and nothing else:
  /// the caller adds the buffer, if it shows one. Any number of peers. Throws Error, also where GPU memory of Partita's
  /// own cannot be mapped.
  WindowName name_for(int peer) const;

 private:
  HostMemory& host_memory_;
  DeviceMemory& device_memory_;
  int device_of_words_;
  std::unique_ptr<HostBlock> host_;
  std::unique_ptr<DeviceBlock> device_;
};

/// Names device words that belong to no window. Throws Error as Window::name_for does.
DeviceExport name_block(DeviceMemory& device_memory, int peer, const DeviceBlock& block);

/// A peer's window, mapped for one GPU of this process. The mappings live as long as this object and its copies do.
class PeerWindow {
 public:
  /// Host words are mapped if there are `host_bytes`, more than 0, to be mapped. Throws Error; gives why not where GPU
  /// memory cannot be mapped, this GPU not reaching the peer's for one. `clearing`: as DeviceMemory::import's.
  static std::variant<PeerWindow, NotMappable> map(HostMemory& host_memory, DeviceMemory& device_memory, int peer,
                                                   const WindowName& name, int device, std::size_t host_bytes,
                                                   Clearing clearing = Clearing::if_quiet);
  PeerWindow() = default;

  /// As this GPU, and the host's copies, address them; null for what the peer does not show.
  std::byte* buffer() const { return buffer_.get(); }
  std::byte* device_words() const { return device_words_.get(); }
  /// As this process's CPUs address them; valid until the peer frees its window.
  std::byte* host_words() const { return host_words_; }
  /// As this GPU does. The first call for a segment registers it, which takes longer than a mark may.
  std::byte* host_words_on_gpu() const;
  /// The whole as a kernel of this GPU takes it; registers as host_words_on_gpu does.
  Partita_Peer peer() const;
  /// The buffer is shown no longer: the peer's program may free it, and have other memory at its place.
  void let_go_of_buffer() { buffer_.reset(); }

 private:
  DeviceMemory* device_memory_ = nullptr;
  int device_ = -1;
  std::shared_ptr<std::byte> buffer_;
  std::shared_ptr<std::byte> device_words_;
  std::byte* host_words_ = nullptr;
};

}  // namespace partita::memory
