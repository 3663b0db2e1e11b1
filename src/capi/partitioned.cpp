// The C face of partitioned requests: sends and receives are made, all are started, marked, asked and freed.
#include <optional>
#include <string_view>

#include "capi/arguments.hpp"
#include "capi/array_call.hpp"
#include "capi/requests.hpp"
#include "capi/waits.hpp"
#include "core/mpi_check.hpp"
#include "partitioned/recv.hpp"
#include "partitioned/send.hpp"

using namespace partita;
using namespace partita::capi;

namespace {

void check_partitioned(const Operation& operation) {
  if (operation.has_partitions()) return;
  throw Error(ErrorClass::request, "argument request has no partitions ({}); expected is a partitioned request",
              operation.kind());
}

[[noreturn]] void throw_not_markable(const Operation& operation) {
  check_partitioned(operation);
  const std::string_view kind = operation.kind();
  if (kind == "recv") {
    throw Error(ErrorClass::request, "argument request is a partitioned receive; expected is a partitioned send");
  }
  throw Error(ErrorClass::request,
              "argument request is a partitioned {} in which this rank sends nothing of its own; "
              "expected is one in which it does",
              kind);
}

[[noreturn]] void throw_not_awaitable(const Operation& operation) {
  check_partitioned(operation);
  const std::string_view kind = operation.kind();
  if (kind == "send") {
    throw Error(ErrorClass::request, "argument request is a partitioned send; expected is a partitioned receive");
  }
  throw Error(ErrorClass::request,
              "argument request is a partitioned {} in which nothing arrives at this rank; "
              "expected is one in which something does",
              kind);
}

Markable& markable_of(Partita_Request handle) {
  const Operation& operation = operation_of(handle);
  if (operation.facets().markable == nullptr) [[unlikely]]
    throw_not_markable(operation);
  return *operation.facets().markable;
}

/// Marks of an operation whose start is enqueued and has not run wait for that.
void mark(Partita_Request handle, int first, int last) {
  Markable& markable = markable_of(handle);
  Operation& operation = operation_of(handle);
  const QueueUse& queue_use = operation.queue_use();
  EarlyMarks* const early = queue_use.early_marks();
  if (early != nullptr && early->keep(queue_use, first, last)) [[unlikely]]
    return;
  markable.mark(first, last);
}

Awaitable& awaitable_of(Partita_Request handle) {
  const Operation& operation = operation_of(handle);
  if (operation.facets().awaitable == nullptr) [[unlikely]]
    throw_not_awaitable(operation);
  return *operation.facets().awaitable;
}

KernelUsable& kernel_usable_of(const Operation& operation) {
  KernelUsable* const kernel_usable = operation.facets().kernel_usable;
  if (kernel_usable == nullptr) throw Error(ErrorClass::request, "kernels cannot use what argument request stands for");
  return *kernel_usable;
}

void start(Operation& operation) {
  if (operation.queue_use().enqueued()) throw_enqueued(operation);
  operation.start();
  operation.loop_watch().begin();
}

void wait_until_prepared(Operation& operation) {
  runtime().wait_until(operation,
                       [&] { return operation.queue_use().early_marks() == nullptr && operation.prepared(); });
}

}  // namespace

int Partita_Psend_init(const void* buf, int partitions, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                       MPI_Comm comm, MPI_Info info, Partita_Request* request) {
  return make_request("Psend_init", comm, request, [&](Runtime& current) {
    const RawArguments raw{const_cast<void*>(buf), partitions, count, datatype, dest, tag, comm, info};
    return std::make_unique<SendRequest>(current.services, checked(current, Side::send, raw));
  });
}

int Partita_Precv_init(void* buf, int partitions, MPI_Count count, MPI_Datatype datatype, int source, int tag,
                       MPI_Comm comm, MPI_Info info, Partita_Request* request) {
  return make_request("Precv_init", comm, request, [&](Runtime& current) {
    const RawArguments raw{buf, partitions, count, datatype, source, tag, comm, info};
    return std::make_unique<RecvRequest>(current.services, checked(current, Side::recv, raw));
  });
}

int Partita_Start(Partita_Request* request) {
  return on_request("Start", request == nullptr ? PARTITA_REQUEST_NULL : *request,
                    [&] { start(operation_of(request_at(request))); });
}

int Partita_Startall(int count, Partita_Request requests[]) {
  int code = guarded("Startall", [&] { check_list(count, requests, "requests"); });
  for (int i = 0; i < count && code == MPI_SUCCESS; ++i) {
    code = on_request("Startall", requests[i], [&] { start(operation_of(requests[i])); });
  }
  return code;
}

int Partita_Pready(int partition, Partita_Request request) {
  return on_request("Pready", request, [&] {
    Markable& markable = markable_of(request);
    if (operation_of(request).queue_use().early_marks() != nullptr) [[unlikely]]
      return mark(request, partition, partition);
    markable.mark(partition);
  });
}

int Partita_Pready_range(int first, int last, Partita_Request request) {
  return on_request("Pready_range", request, [&] { mark(request, first, last); });
}

int Partita_Pready_list(int length, const int partitions[], Partita_Request request) {
  return on_request("Pready_list", request, [&] {
    check_list(length, partitions, "partitions");
    markable_of(request);  // even of none
    for (int i = 0; i < length; ++i) mark(request, partitions[i], partitions[i]);
  });
}

int Partita_Parrived(Partita_Request request, int partition, int* flag) {
  return on_request("Parrived", request, [&] {
    check_output(flag, "flag");
    Awaitable& awaitable = awaitable_of(request);
    *flag = 0;
    if (operation_of(request).queue_use().early_marks() != nullptr) [[unlikely]]
      return runtime().progress.poll();  // the epoch is still to come
    *flag = awaitable.arrived(partition) ? 1 : 0;
    if (*flag == 0) fail_at_end_of_loop(operation_of(request));
  });
}

int Partita_Pbuf_prepare(Partita_Request request) {
  return on_request("Pbuf_prepare", request, [&] { wait_until_prepared(operation_of(request)); });
}

int Partita_Pbuf_prepareall(int count, Partita_Request requests[]) {
  int code = guarded("Pbuf_prepareall", [&] { check_list(count, requests, "requests"); });
  for (int i = 0; i < count && code == MPI_SUCCESS; ++i) {
    code = on_request("Pbuf_prepareall", requests[i], [&] { wait_until_prepared(operation_of(requests[i])); });
  }
  return code;
}

int Partita_Prequest_create(Partita_Prequest* prequest, Partita_Request handle) {
  return on_request("Prequest_create", handle, [&] {
    check_output(prequest, "prequest");
    Operation& operation = operation_of(handle);
    if (operation.queue_use().enqueued()) throw_enqueued(operation);
    KernelUsable& kernel_usable = kernel_usable_of(operation);
    runtime().wait_until(operation, [&] { return kernel_usable.can_make_device_request(); });
    *prequest = kernel_usable.make_device_request();
  });
}

int Partita_Prequest_free(Partita_Prequest* prequest) {
  return guarded("Prequest_free", [&] {
    check_output(prequest, "prequest");
    const Operation& operation = runtime().operations.operation_with(*prequest);
    if (operation.queue_use().enqueued()) throw_enqueued(operation);
    const auto untold = kernel_usable_of(operation).free_device_request();
    *prequest = Partita_Prequest{};
    if (untold) throw Error(*untold);
  });
}

namespace {

/// What a kernel did wrong and nobody was told.
std::optional<Error> untold_mistake(const Operation& operation) {
  const KernelUsable* const kernel_usable = operation.facets().kernel_usable;
  return kernel_usable != nullptr ? kernel_usable->untold_mistake() : std::nullopt;
}

/// One look, which makes progress: an epoch that is complete, though nobody has waited, is closed. An error of it is
/// returned, and ends it as in a wait. Throws Error where the epoch is not complete.
std::optional<Error> end_epoch(Operation& operation) {
  const bool streams_have_news = operation.facets().stream_runnable != nullptr && operation.open();
  if (!operation.active() && (operation.facets().kernel_usable != nullptr || !streams_have_news)) {
    return untold_mistake(operation);
  }
  runtime().progress.poll();
  try {
    if (operation.done()) {
      operation.close();
      return untold_mistake(operation);
    }
  } catch (const std::exception&) {
    Error error = current_error();
    operation.abandon(error);
    return error;
  }
  if (operation.goes_on_when_freed()) return {};
  throw Error(ErrorClass::request, "the request is active and not complete; complete it before it is freed. {}",
              operation.explain());
}

}  // namespace

int Partita_Request_free(Partita_Request* request) {
  const Partita_Request handle = request == nullptr ? PARTITA_REQUEST_NULL : *request;
  // An error may be told when the request is gone.
  const auto communicator = handle == PARTITA_REQUEST_NULL ? nullptr : operation_of(handle).communicator();
  return guarded(
      "Request_free", [&] { return handler_of(communicator.get()); },
      [&] {
        Operation& freed = operation_of(handle);
        if (freed.queue_use().enqueued()) throw_enqueued(freed);
        if (freed.queue_use().awaited() > 0) {
          throw Error(ErrorClass::request, "an Imatch waits for the request; complete that before it is freed");
        }
        const auto failure = end_epoch(freed);
        runtime().free(freed);
        ArrayCall::forget(handle, request);
        *request = PARTITA_REQUEST_NULL;
        if (failure) throw Error(*failure);
      });
}

int Partita_Request_get_info(Partita_Request handle, MPI_Info* info) {
  return on_request("Request_get_info", handle, [&] {
    if (info == nullptr)
      throw Error(ErrorClass::arg, "argument info is null; expected is where to put the info object");
    const std::vector<InfoEntry> entries = operation_of(handle).info();
    PARTITA_MPI(Info_create(info));
    for (const InfoEntry& entry : entries) {
      PARTITA_MPI(Info_set(*info, entry.key, entry.value.substr(0, MPI_MAX_INFO_VAL - 1).c_str()));
    }
  });
}
