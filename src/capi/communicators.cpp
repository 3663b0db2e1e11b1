// The C face of communicators.
#include <optional>

#include "capi/gpu_aware.hpp"
#include "capi/info.hpp"
#include "capi/requests.hpp"
#include "core/call_stream.hpp"
#include "core/current_error.hpp"
#include "core/mpi_check.hpp"

using namespace partita;
using namespace partita::capi;

namespace {

constexpr const char* stream_key = "partita_stream";

/// What an info object says of calls on a communicator.
struct CallKeys {
  std::optional<CallStream> stream;
};

void set_stream(const std::string& value, CallKeys& keys) {
  keys.stream = parse_call_stream(value);
  if (keys.stream) return;
  throw Error(ErrorClass::info_value,
              "info key {} is \"{}\"; expected is none, legacy or per-thread (a default stream of CUDA's), or the "
              "handle of a stream as a hexadecimal number that is not 0, as printf writes it for %p: 0x55d0c0ffee00",
              stream_key, value);
}

/// For keys of requests: a program may give one info object to calls of both kinds.
void leave_to_requests(const std::string&, CallKeys&) {}

CallKeys keys_of(MPI_Info info) {
  static constexpr InfoKey<CallKeys> keys[] = {{stream_key, &set_stream},
                                               {"partita_link", &leave_to_requests},
                                               {"partita_transport_partitions", &leave_to_requests},
                                               {"partita_driver", &leave_to_requests},
                                               {"partita_gpu_copy", &leave_to_requests},
                                               {"partita_in_place", &leave_to_requests},
                                               {"partita_algorithm", &leave_to_requests}};
  CallKeys given;
  apply_info(info, keys, given);
  return given;
}

/// A default stream is one of each GPU: whether it can be used, its call finds.
void check_handle(memory::DeviceMemory& device_memory, CallStream stream) {
  if (stream <= CallStream::per_thread) return;
  try {
    device_memory.stream_of_program(reinterpret_cast<void*>(stream));
  } catch (const std::exception&) {
    throw Error(ErrorClass::info_value, "info key {} is \"{}\": {}", stream_key, text_of(stream),
                current_error().sentence());
  }
}

/// The MPI's own calls come behind no stream.
void check_awareness(const GpuAwareness& awareness, CallStream stream) {
  if (awareness.on || stream == CallStream::none) return;
  throw Error(ErrorClass::info_value,
              "info key {} is \"{}\", but GPU memory in MPI's own calls is left to the MPI, which knows no such key: "
              "{}; expected is PARTITA_GPU_AWARE=on for the job, or no such key",
              stream_key, text_of(stream), awareness.why);
}

enum class Calls { of_partita, of_mpi };

void set_info(MPI_Comm comm, MPI_Info info, Calls calls) {
  const CallKeys given = keys_of(info);
  if (!given.stream) return;
  Runtime& current = runtime();
  const auto communicator = current.communicators.find(comm);
  if (calls == Calls::of_mpi) check_awareness(current.gpu_awareness, *given.stream);
  check_handle(*current.device_memory, *given.stream);
  communicator->stream.store(*given.stream, std::memory_order_relaxed);
  current.matched_messages.turn_on();
}

}  // namespace

int Partita_Comm_register(MPI_Comm comm) {
  return guarded("Comm_register", [&] { runtime().communicators.add_collectively(comm); });
}

int Partita_Comm_derive(MPI_Comm parent, MPI_Comm comm) {
  return guarded("Comm_derive", [&] { runtime().communicators.add_derived(parent, comm); });
}

int Partita_Comm_set_info(MPI_Comm comm, MPI_Info info) {
  return guarded(
      "Comm_set_info", [comm] { return handler_of_argument(comm); }, [&] { set_info(comm, info, Calls::of_partita); });
}

int Partita_Take_info(MPI_Comm comm, MPI_Info info) {
  return guarded(
      "Take_info", [comm] { return handler_of_argument(comm); }, [&] { set_info(comm, info, Calls::of_mpi); });
}

int Partita_Add_info(MPI_Comm comm, MPI_Info info) {
  return guarded(
      "Add_info", [comm] { return handler_of_argument(comm); },
      [&] {
        const auto communicator = runtime().communicators.find_if_known(comm);
        if (communicator == nullptr) return;
        const CallStream stream = communicator->stream.load(std::memory_order_relaxed);
        if (stream != CallStream::of_job) PARTITA_MPI(Info_set(info, stream_key, text_of(stream).c_str()));
      });
}
