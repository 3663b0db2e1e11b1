#include "capi/gpu_aware.hpp"

#include "capi/state.hpp"
#include "two_sided/message.hpp"

using namespace partita;
using namespace partita::capi;

int Partita_is_gpu_aware(const char** why) {
  Runtime* const current = current_runtime();
  if (current == nullptr) return 0;
  if (why != nullptr) *why = current->gpu_awareness.why.c_str();
  return current->gpu_awareness.on ? 1 : 0;
}

int Partita_mpi_takes_no_gpu_memory(void) {
  Runtime* const current = current_runtime();
  return current != nullptr && current->gpu_awareness.on && current->gpu_awareness.mpi_takes_none ? 1 : 0;
}

int Partita_is_spent(Partita_Request request) {
  if (request == PARTITA_REQUEST_NULL) return 0;
  const Operation& operation = operation_of(request);
  return operation.goes_on_when_freed() && !operation.active() ? 1 : 0;
}

/// Where CUDA fails, the call that follows tells.
int Partita_lies_in_gpu(const void* buffer, MPI_Count count, MPI_Datatype datatype) {
  Runtime* const current = current_runtime();
  if (current == nullptr) return 0;
  try {
    const memory::Place place = place_of_elements(*current->device_memory, buffer, count, datatype);
    return place.kind == memory::Kind::device ? 1 : 0;
  } catch (const std::exception&) {
    return 0;
  }
}
