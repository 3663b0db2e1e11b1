// Elements of a buffer: where they lie, how many, of what datatype, and what for.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>

namespace partita {

/// The address `bytes` behind `address`, which may be MPI_BOTTOM, where no object is: adding to the pointer is
/// undefined.
inline std::byte* shifted(const void* address, std::int64_t bytes) {
  return reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(address) + static_cast<std::uintptr_t>(bytes));
}

/// `count` elements of a datatype, the first of them `offset_bytes` from the address of a buffer.
struct ElementBlock {
  std::int64_t offset_bytes = 0;
  std::int64_t count = 0;
  MPI_Datatype datatype = MPI_DATATYPE_NULL;
};

/// What a call does with a buffer.
enum class BufferUse : std::uint8_t { reads, writes, reads_and_writes };

}  // namespace partita
