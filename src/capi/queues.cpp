// The C face of queues.
#include <array>
#include <span>
#include <vector>

#include "capi/requests.hpp"
#include "queue/kinds.hpp"

using namespace partita;
using namespace partita::capi;

namespace {

Partita_Queue handle_of_queue(Queue& queue) {
  return reinterpret_cast<Partita_Queue>(&queue);
}

/// Calls `use` with what the handles stand for; few of them need no memory.
template <class Use>
void with_operations(int count, const Partita_Request requests[], Use use) {
  check_list(count, requests, "requests");
  constexpr int few = 32;
  std::array<Operation*, few> on_stack;
  std::vector<Operation*> many;
  if (count > few) many.resize(static_cast<std::size_t>(count));
  const std::span operations(count > few ? many.data() : on_stack.data(), static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < operations.size(); ++i) operations[i] = &operation_of(requests[i]);
  use(std::span<Operation* const>(operations));
}

void enqueue_starts(Partita_Queue handle, int count, const Partita_Request requests[]) {
  Queue& queue = runtime().queues.find(handle);
  with_operations(count, requests, [&](std::span<Operation* const> operations) { queue.enqueue_start(operations); });
}

void enqueue_waits(Partita_Queue handle, int count, const Partita_Request requests[]) {
  Queue& queue = runtime().queues.find(handle);
  with_operations(count, requests, [&](std::span<Operation* const> operations) { queue.enqueue_wait(operations); });
}

/// Reports what went wrong late in `handle`, and calls `finish(queue)` before. Throws Error.
template <class Finish>
int end_of_queue(const char* call, Partita_Queue handle, Finish finish) noexcept {
  std::shared_ptr<Communicator> communicator;
  return guarded(
      call, [&] { return handler_of(communicator.get()); },
      [&] {
        Queue& queue = runtime().queues.find(handle);
        if (const Operation* const unawaited = queue.unawaited()) communicator = unawaited->communicator();
        auto late = finish(queue);
        if (!late) return;
        communicator = late->communicator;
        throw Error(late->error);
      });
}

}  // namespace

int Partita_Queue_init(Partita_Queue* queue, Partita_Queue_type type, void* stream) {
  return guarded("Queue_init", [&] {
    check_output(queue, "queue");
    Runtime& current = runtime();
    *queue = handle_of_queue(current.queues.add(make_queue(type, current.queue_services, stream)));
  });
}

int Partita_Queue_wait(Partita_Queue queue) {
  return end_of_queue("Queue_wait", queue, [](Queue& waited) {
    waited.finish();
    return waited.take_late_error();
  });
}

int Partita_Queue_free(Partita_Queue* queue) {
  return end_of_queue("Queue_free", queue == nullptr ? PARTITA_QUEUE_NULL : *queue, [queue](Queue& freed) {
    if (const Operation* const unawaited = freed.unawaited()) {
      const auto exclusive = runtime().progress.exclusive();  // a step may use it
      throw Error(ErrorClass::request, "a request was started in the queue, and no wait for it is enqueued. {}",
                  unawaited->explain());
    }
    freed.finish();
    auto late = freed.take_late_error();
    runtime().queues.free(freed);
    *queue = PARTITA_QUEUE_NULL;
    return late;
  });
}

int Partita_Enqueue_start(Partita_Queue queue, Partita_Request* request) {
  return guarded(
      "Enqueue_start", [&] { return first_comm(1, request); }, [&] { enqueue_starts(queue, 1, &request_at(request)); });
}

int Partita_Enqueue_startall(Partita_Queue queue, int count, Partita_Request requests[]) {
  return guarded(
      "Enqueue_startall", [&] { return first_comm(count, requests); }, [&] { enqueue_starts(queue, count, requests); });
}

int Partita_Enqueue_wait(Partita_Queue queue, Partita_Request* request) {
  return guarded(
      "Enqueue_wait", [&] { return first_comm(1, request); }, [&] { enqueue_waits(queue, 1, &request_at(request)); });
}

int Partita_Enqueue_waitall(Partita_Queue queue, int count, Partita_Request requests[]) {
  return guarded(
      "Enqueue_waitall", [&] { return first_comm(count, requests); }, [&] { enqueue_waits(queue, count, requests); });
}

int Partita_Queue_completion(Partita_Request request, Partita_Completion* completion) {
  return on_request("Queue_completion", request, [&] {
    check_output(completion, "completion");
    Operation& operation = operation_of(request);
    const KernelPollable* const pollable = operation.facets().kernel_pollable;
    if (pollable == nullptr) {
      throw Error(
          ErrorClass::request,
          "the request is of kind {}; expected is an ordinary persistent send or receive, other than a buffered "
          "send (kernels ask for partitions by MPIX_Parrived)",
          operation.kind());
    }
    if (!operation.matched()) {
      throw Error(ErrorClass::request, "the request is not matched; expected is one that Match has matched. {}",
                  operation.explain());
    }
    operation.match_is_seen();
    *completion = pollable->completion();
  });
}
