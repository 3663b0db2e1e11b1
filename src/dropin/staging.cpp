#include "dropin/staging.hpp"

namespace partita::dropin {

/// What the MPI has failed to move it may still have in its hands.
Staging::~Staging() {
  for (const Partita_Mirror mirror : sent_) Partita_Mirror_free(mirror, are_the_mpis_ ? 1 : 0);
  for (const Partita_Mirror mirror : received_) Partita_Mirror_free(mirror, are_the_mpis_ ? 1 : 0);
}

void Staging::sends(const void*& buffer, const Blocks& blocks) {
  buffer = mirrored(buffer, blocks, true, sent_);
}

void Staging::receives(void*& buffer, const Blocks& blocks, bool holds_data) {
  buffer = mirrored(buffer, blocks, holds_data, received_);
}

void Staging::broadcasts(void*& buffer, int root, const Blocks& blocks) {
  if (is_root(root)) {
    buffer = mirrored(buffer, blocks, true, sent_);
  } else if (is_below(root)) {
    buffer = mirrored(buffer, blocks, false, received_);
  }
}

void* Staging::mirrored(const void* buffer, const Blocks& blocks, bool fetch, std::vector<Partita_Mirror>& mirrors) {
  void* host = const_cast<void*>(buffer);
  if (code_ != MPI_SUCCESS || buffer == MPI_IN_PLACE) return host;
  mirrors.reserve(mirrors.size() + 1);
  Partita_Mirror mirror = nullptr;
  code_ =
      Partita_Mirror_make(buffer, static_cast<int>(blocks.size()), blocks.data(), fetch ? 1 : 0, comm_, &host, &mirror);
  if (mirror != nullptr) mirrors.push_back(mirror);
  return host;
}

int Staging::deliver() {
  for (const Partita_Mirror mirror : received_) {
    if (const int code = Partita_Mirror_deliver(mirror, comm_); code != MPI_SUCCESS) return code;
  }
  return MPI_SUCCESS;
}

}  // namespace partita::dropin
