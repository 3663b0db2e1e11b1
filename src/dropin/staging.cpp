#include "dropin/staging.hpp"

#include "dropin/progress.hpp"
#include "dropin/refuse.hpp"
#include "dropin/requests.hpp"

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

/// The placeholder first: a collective that is under way cannot be taken back.
int Staging::staged_request(const CallToStage& call, MPI_Request* handle) {
  if (handle == nullptr) return refuse_null_pointer(call.name, "request");
  MPI_Request reserved = MPI_REQUEST_NULL;
  if (const int code = reserve(&reserved); code != MPI_SUCCESS) return code;
  if (!call.is_collective) some_may_linger();  // it may be freed while it is active
  Partita_Request made = PARTITA_REQUEST_NULL;
  if (const int code = Partita_Stage_request(stage_, &call, comm_, &made); code != MPI_SUCCESS) {
    forget(&reserved);
    return code;
  }
  stand_for(reserved, made);
  *handle = reserved;
  return MPI_SUCCESS;
}

}  // namespace partita::dropin
