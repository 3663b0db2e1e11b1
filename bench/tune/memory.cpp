#include "bench/tune/memory.hpp"

#include <cstring>

namespace partita::bench::tune {

const Memory& host_memory() {
  static constexpr Memory memory{"host", plain_buffer, [](void* to, const void* from, std::size_t size_bytes) {
                                   std::memcpy(to, from, size_bytes);
                                 }};
  return memory;
}

}  // namespace partita::bench::tune
