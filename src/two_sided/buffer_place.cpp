#include "two_sided/buffer_place.hpp"

#include <fmt/format.h>

#include <string>

#include "core/element_block.hpp"
#include "core/error.hpp"

namespace partita {
namespace {

/// What a driver hands out is no smaller, and no such page has memory of two GPUs, or of one and of the host.
constexpr unsigned page_bits = 21;

std::string text_of(const memory::Place& place) {
  if (place.kind == memory::Kind::device) return fmt::format("GPU {}", place.device);
  return place.kind == memory::Kind::managed ? "managed memory" : "host memory";
}

bool is_in(const memory::Place& place, int device) {
  return place.kind == memory::Kind::device && place.device == device;
}

}  // namespace

void BufferPlace::check_byte(const std::byte* address) {
  const std::uintptr_t page = reinterpret_cast<std::uintptr_t>(address) >> page_bits;
  if (page == known_page_) return;
  const memory::Place place = device_memory_.place_of(address, 1);
  if (!is_in(place, device_)) {
    throw Error(ErrorClass::buffer,
                "elements of one buffer lie in GPU {} and in {}; expected is that all of a buffer lie in the memory of "
                "one GPU, or none of it in any",
                device_, text_of(place));
  }
  known_page_ = page;
}

void BufferPlace::check(const std::byte* address, const Layout& layout, bool is_bottom) {
  check_byte(shifted(address, layout.first_byte()));
  if (!is_bottom) return;
  for (const Layout::Run& run : layout.runs()) check_byte(shifted(address, run.offset_bytes));
}

void check_still_in_gpu(memory::DeviceMemory& device_memory, const std::byte* address, int device) {
  const memory::Place place = device_memory.place_of(address, 1);
  if (is_in(place, device)) return;
  throw Error(ErrorClass::buffer,
              "the buffer at {} lay in the memory of GPU {} when the request was made, and is {} now; was it freed? "
              "Expected is that it stays until the request is complete, and a persistent one freed",
              static_cast<const void*>(address), device, text_of(place));
}

}  // namespace partita
