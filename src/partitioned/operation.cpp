#include "partitioned/operation.hpp"

#include "core/native.hpp"

namespace partita {

void set_status(MPI_Status* status, int source, int tag, std::int64_t size_bytes) {
  if (status == MPI_STATUS_IGNORE) return;
  status->MPI_SOURCE = source;
  status->MPI_TAG = tag;
  // Set in bytes: MPI_Status_set_elements counts basic elements, of which a datatype may hold several kinds.
  native::Status_set_elements_x(status, MPI_BYTE, size_bytes);
  native::Status_set_cancelled(status, 0);
}

void Operation::cancel() {
  throw Error(ErrorClass::request,
              "the request cannot be cancelled; expected is one of a nonblocking message. It is partitioned, a "
              "collective, matched for good, or that of an Imatch");
}

}  // namespace partita
