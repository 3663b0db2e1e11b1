#include "memory/gpu_presence.hpp"

#include <algorithm>
#include <fstream>
#include <string>
#include <system_error>

namespace partita::memory {
namespace {

std::string first_word_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string word;
  in >> word;
  return word;
}

/// By its numbers on the bus: NVIDIA's, of the class of displays and of what computes without one.
bool is_gpu(const std::filesystem::path& device) {
  return first_word_of(device / "vendor") == "0x10de" && first_word_of(device / "class").starts_with("0x03");
}

}  // namespace

bool sees_gpus(const std::filesystem::path& root) {
  // The devices of cards, of Linux within Windows, and of chips with a GPU.
  constexpr const char* devices[] = {"dev/nvidiactl", "dev/dxg", "dev/nvhost-ctrl-gpu", "dev/nvgpu", "dev/nvmap"};
  std::error_code failure;
  if (std::ranges::any_of(devices, [&](const char* device) { return std::filesystem::exists(root / device, failure); }))
    return true;
  // The driver's own program makes the devices of a card when somebody first uses it.
  const std::filesystem::directory_iterator cards(root / "sys/bus/pci/devices", failure);
  return !failure && std::any_of(begin(cards), end(cards), [](const auto& card) { return is_gpu(card.path()); });
}

}  // namespace partita::memory
