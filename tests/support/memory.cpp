#include "support/memory.hpp"

#include <mpi.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

namespace partita::test {
namespace {

std::uint8_t* allocate(Memory memory, std::size_t size_bytes) {
  void* data = nullptr;
  switch (memory) {
    case Memory::plain:
      data = std::malloc(size_bytes == 0 ? 1 : size_bytes);
      break;
    case Memory::mpi_alloc:
      if (MPI_Alloc_mem(static_cast<MPI_Aint>(size_bytes), MPI_INFO_NULL, &data) != MPI_SUCCESS) data = nullptr;
      break;
    case Memory::gpu:
      data = gpu_allocate(size_bytes);
      break;
  }
  if (data == nullptr) throw std::bad_alloc();
  return static_cast<std::uint8_t*>(data);
}

}  // namespace

bool gpu_memory_is_wanted() {
  static const bool wanted = [] {
    const char* name = std::getenv("PARTITEST_MEMORY");
    const std::string memory = name == nullptr ? "host" : name;
    if (memory != "host" && memory != "gpu") {
      throw std::runtime_error("PARTITEST_MEMORY=" + memory + ": expected host or gpu");
    }
    return memory == "gpu";
  }();
  return wanted;
}

const char* name_of(Memory memory) {
  static constexpr const char* names[] = {"plain memory", "MPI_Alloc_mem memory", "GPU memory"};
  return names[static_cast<int>(memory)];
}

Memory memory_of_next(Direction direction, int tag) {
  if (!gpu_memory_is_wanted()) return Memory::plain;
  static std::mutex mutex;
  static std::map<std::pair<Direction, int>, unsigned> made;
  const std::lock_guard lock(mutex);
  const unsigned n = made[{direction, tag}]++;
  // Any three in a row, and another one each time for what a test makes in rows of three or six.
  const unsigned turn = (n + n / 3) % 3;
  const unsigned turn_of_host = direction == Direction::send ? 1 : 2;
  return turn == turn_of_host ? Memory::plain : Memory::gpu;
}

Bytes::Bytes(Memory memory, std::int64_t size_bytes)
    : memory_(memory),
      size_bytes_(size_bytes),
      data_(allocate(memory, static_cast<std::size_t>(size_bytes)), FreeMemory{memory}) {}

void FreeMemory::operator()(std::uint8_t* data) const {
  switch (memory) {
    case Memory::plain:
      return std::free(data);
    case Memory::mpi_alloc:
      MPI_Free_mem(data);
      return;
    case Memory::gpu:
      return gpu_free(data);
  }
}

}  // namespace partita::test
