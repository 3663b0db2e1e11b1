#include "capi/gpu_aware.hpp"

#include <algorithm>
#include <memory>
#include <span>

#include "capi/requests.hpp"
#include "capi/state.hpp"
#include "two_sided/host_mirrors.hpp"
#include "two_sided/message.hpp"

using namespace partita;
using namespace partita::capi;

struct Partita_StageImpl : HostMirrors {};

namespace {

/// Where CUDA fails, the call that follows tells.
memory::Place place_in(Runtime& runtime, const void* buffer, MPI_Count count, MPI_Datatype datatype) {
  try {
    return place_of_elements(*runtime.device_memory, buffer, count, datatype);
  } catch (const std::exception&) {
    return {};
  }
}

}  // namespace

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
  return !operation.persistent() && operation.goes_on_when_freed() && !operation.active() ? 1 : 0;
}

int Partita_lies_in_gpu(const void* buffer, MPI_Count count, MPI_Datatype datatype) {
  Runtime* const current = current_runtime();
  return current != nullptr && place_in(*current, buffer, count, datatype).kind == memory::Kind::device ? 1 : 0;
}

int Partita_Stage_add(Partita_Stage* stage, const void* buffer, int count, const ElementBlock blocks[], BufferUse use,
                      MPI_Comm comm, void** host) {
  return guarded(
      "Stage_add", [comm] { return handler_of_argument(comm); },
      [&] {
        const std::span elements(blocks, static_cast<std::size_t>(count));
        const auto first = std::ranges::find_if(elements, [](const ElementBlock& each) { return each.count > 0; });
        if (first == elements.end()) return;
        Runtime& current = runtime();
        const memory::Place place =
            place_in(current, shifted(buffer, first->offset_bytes), first->count, first->datatype);
        if (place.kind != memory::Kind::device) return;
        if (*stage == nullptr) *stage = new Partita_StageImpl;
        auto* const user = static_cast<std::byte*>(const_cast<void*>(buffer));
        *host = (*stage)->add(current.gpu_lanes, place.device, user, elements, use);
      });
}

int Partita_Stage_fetch(Partita_Stage stage, MPI_Comm comm) {
  return guarded("Stage_fetch", [comm] { return handler_of_argument(comm); }, [&] { stage->fetch(); });
}

int Partita_Stage_deliver(Partita_Stage stage, MPI_Comm comm) {
  return guarded(
      "Stage_deliver", [comm] { return handler_of_argument(comm); },
      [&] {
        stage->begin_delivery();
        stage->await_delivery();
      });
}

void Partita_Stage_free(Partita_Stage stage, int is_the_mpis) {
  if (is_the_mpis != 0 && stage != nullptr) stage->leave_to_the_mpi();
  delete stage;
}
