#include "capi/state.hpp"

#include "capi/report.hpp"
#include "core/error.hpp"

namespace partita::capi {

Runtime*& current_runtime() {
  static Runtime* runtime = nullptr;
  return runtime;
}

Runtime& runtime() {
  if (current_runtime() == nullptr) {
    throw Error(ErrorClass::other,
                "Partita is not initialised; call Partita_Init first (the drop-in library does so inside MPI_Init)");
  }
  return *current_runtime();
}

void throw_null_request() {
  throw Error(ErrorClass::request, "argument request is null; expected is a request that was made and not freed");
}

void throw_enqueued(const Operation& operation) {
  const auto exclusive = runtime().progress.exclusive();  // a step may use it
  throw Error(
      ErrorClass::request,
      "the request was started in a queue, and its wait there is not over: the host may only mark its partitions "
      "and ask for them. {}",
      operation.explain());
}

MPI_Comm comm_of(Partita_Request handle) {
  return handle == PARTITA_REQUEST_NULL ? MPI_COMM_SELF : handler_of(operation_of(handle).communicator().get());
}

}  // namespace partita::capi
