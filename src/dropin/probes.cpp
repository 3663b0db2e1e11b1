// Probes. Where messages may be offers they are Partita's (docs/design/gpu-aware.md). Where only the calls of the
// program make progress for Partita they poll both, Partita and the MPI (MPI's progress rule, MPI-4, section 2.9).
// Everywhere else each call is three checks.
#include <mpi.h>
#include <partita/partita.h>

#include "dropin/calling.hpp"
#include "dropin/gpu_aware.hpp"
#include "dropin/interpose.hpp"
#include "dropin/native.hpp"
#include "dropin/polling.hpp"
#include "dropin/progress.hpp"

using namespace partita::dropin;

namespace {

/// A receive into GPU memory comes behind the stream of the message's communicator.
int noted(int code, bool found, MPI_Comm comm, const MPI_Message* message) {
  if (code != MPI_SUCCESS || !found || !takes_gpu_memory()) return code;
  return Partita_Note_match(comm, message);
}

}  // namespace

extern "C" {

INTERPOSE(Probe)(int source, int tag, MPI_Comm comm, MPI_Status* status) {
  if (takes_offers()) {
    const Calling calling(__func__);
    return look_until_found([&](int* found) { return Partita_Look(source, tag, comm, found, status); });
  }
  if (!must_poll()) return native().Probe(source, tag, comm, status);
  return look_until_found([&](int* found) { return native().Iprobe(source, tag, comm, found, status); });
}

INTERPOSE(Iprobe)(int source, int tag, MPI_Comm comm, int* flag, MPI_Status* status) {
  if (takes_offers() && flag != nullptr) {
    const Calling calling(__func__);
    return Partita_Look(source, tag, comm, flag, status);
  }
  progress_if_by_caller();
  return native().Iprobe(source, tag, comm, flag, status);
}

INTERPOSE(Improbe)(int source, int tag, MPI_Comm comm, int* flag, MPI_Message* message, MPI_Status* status) {
  if (takes_offers() && flag != nullptr && message != nullptr) {
    const Calling calling(__func__);
    return Partita_Look_and_match(source, tag, comm, flag, message, status);
  }
  progress_if_by_caller();
  const int code = native().Improbe(source, tag, comm, flag, message, status);
  return noted(code, flag != nullptr && *flag != 0, comm, message);
}

INTERPOSE(Mprobe)(int source, int tag, MPI_Comm comm, MPI_Message* message, MPI_Status* status) {
  if (takes_offers() && message != nullptr) {
    const Calling calling(__func__);
    return look_until_found(
        [&](int* found) { return Partita_Look_and_match(source, tag, comm, found, message, status); });
  }
  const int code =
      must_poll()
          ? look_until_found([&](int* found) { return native().Improbe(source, tag, comm, found, message, status); })
          : native().Mprobe(source, tag, comm, message, status);
  return noted(code, message != nullptr, comm, message);
}

}  // extern "C"
