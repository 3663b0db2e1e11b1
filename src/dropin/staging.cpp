#include "dropin/staging.hpp"

namespace partita::dropin {

void Staging::broadcasts(void*& buffer, int root, const Blocks& blocks) {
  if (is_root(root)) {
    buffer = staged(buffer, blocks, BufferUse::reads);
  } else if (is_below(root)) {
    buffer = staged(buffer, blocks, BufferUse::writes);
  }
}

void* Staging::staged(const void* buffer, const Blocks& blocks, BufferUse use) {
  void* host = const_cast<void*>(buffer);
  if (code_ != MPI_SUCCESS || buffer == MPI_IN_PLACE) return host;
  code_ = Partita_Stage_add(&stage_, buffer, static_cast<int>(blocks.size()), blocks.data(), use, comm_, &host);
  return host;
}

}  // namespace partita::dropin
