#include "memory/window.hpp"

#include <utility>

#include "core/error.hpp"

namespace partita::memory {

DeviceExport name_block(DeviceMemory& device_memory, int peer, const DeviceBlock& block) {
  auto exported = device_memory.export_to(peer, block.address(), block.size_bytes());
  if (const auto* not_mappable = std::get_if<NotMappable>(&exported)) {
    throw Error(ErrorClass::internal, "GPU memory of Partita's own cannot be mapped: {}", not_mappable->reason);
  }
  return std::move(std::get<DeviceExport>(exported));
}

Window::Window(HostMemory& host_memory, DeviceMemory& device_memory, int device, std::size_t host_bytes,
               std::size_t device_bytes)
    : host_memory_(host_memory), device_memory_(device_memory), device_of_words_(device) {
  if (host_bytes > 0) host_ = std::make_unique<HostBlock>(host_memory, host_bytes);
  if (device_bytes > 0) device_ = std::make_unique<DeviceBlock>(device_memory, device, device_bytes);
}

std::byte* Window::host_words_on_gpu() const {
  return host_ ? device_memory_.device_pointer(device_of_words_, host_->address()) : nullptr;
}

WindowName Window::name_for(int peer) const {
  WindowName name;
  if (device_) name.device_words = name_block(device_memory_, peer, *device_);
  if (host_) name.host_words = host_memory_.export_to_gpu_of(peer, host_->address());
  return name;
}

std::variant<PeerWindow, NotMappable> PeerWindow::map(HostMemory& host_memory, DeviceMemory& device_memory, int peer,
                                                      const WindowName& name, int device, std::size_t host_bytes,
                                                      Clearing clearing) {
  PeerWindow window;
  window.device_memory_ = &device_memory;
  window.device_ = device;
  for (const auto& [exported, mapped] :
       {std::pair{&name.device_words, &window.device_words_}, std::pair{&name.buffer, &window.buffer_}}) {
    if (!*exported) continue;
    auto mapping = device_memory.import(peer, **exported, device, clearing);
    if (auto* not_mappable = std::get_if<NotMappable>(&mapping)) return std::move(*not_mappable);
    *mapped = std::move(std::get<std::shared_ptr<std::byte>>(mapping));
  }
  if (name.host_words && host_bytes > 0) window.host_words_ = host_memory.import(peer, *name.host_words, host_bytes);
  return window;
}

std::byte* PeerWindow::host_words_on_gpu() const {
  return host_words_ == nullptr ? nullptr : device_memory_->device_pointer(device_, host_words_);
}

Partita_Peer PeerWindow::peer() const {
  return {reinterpret_cast<unsigned char*>(buffer()), reinterpret_cast<partita_u32*>(device_words()),
          reinterpret_cast<partita_u32*>(host_words_on_gpu())};
}

}  // namespace partita::memory
