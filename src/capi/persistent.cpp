// The C face of ordinary persistent requests, and of matching them for good.
#include <fmt/format.h>

#include <optional>
#include <vector>

#include "capi/arguments.hpp"
#include "capi/requests.hpp"
#include "capi/waits.hpp"
#include "queue/buffered.hpp"
#include "queue/matching.hpp"
#include "queue/persistent.hpp"

using namespace partita;
using namespace partita::capi;

namespace {

RequestArguments checked_message(Runtime& current, Side side, void* buffer, MPI_Count count, MPI_Datatype datatype,
                                 int rank, int tag, MPI_Comm comm) {
  RequestArguments arguments = checked(current, side, {buffer, 1, count, datatype, rank, tag, comm, MPI_INFO_NULL});
  arguments.transport_partitions = 0;  // it has one partition
  return arguments;
}

int make_send(const char* call, SendMode mode, const void* buf, MPI_Count count, MPI_Datatype datatype, int dest,
              int tag, MPI_Comm comm, Partita_Request* request) {
  return make_request(call, comm, request, [&](Runtime& current) {
    return PersistentRequest::send(
        current.services,
        checked_message(current, Side::send, const_cast<void*>(buf), count, datatype, dest, tag, comm), mode);
  });
}

/// The operations behind `requests`. Throws Error unless each may be matched.
std::vector<Operation*> checked_for_match(int count, const Partita_Request requests[]) {
  check_list(count, requests, "requests");
  std::vector<Operation*> found;
  for (int i = 0; i < count; ++i) {
    Operation& operation = operation_of(requests[i]);
    if (!operation.persistent()) throw not_persistent(fmt::format("request {}", i));
    if (operation.queue_use().enqueued()) throw_enqueued(operation);
    if (operation.active()) {
      throw Error(ErrorClass::request, "request {} is active; expected is an inactive one. {}", i, operation.explain());
    }
    found.push_back(&operation);
  }
  return found;
}

/// Blocks until all are matched.
void match_all(int count, const Partita_Request requests[]) {
  const std::vector<Operation*> matched = checked_for_match(count, requests);
  for (Operation* const each : matched) each->begin_match();
  for (Operation* const each : matched) {
    runtime().wait_until(*each, [each] { return has_matched(*each); });
  }
}

void begin_match_of_all(int count, const Partita_Request requests[], Partita_Request* matching) {
  check_output(matching, "matching");
  std::vector<Operation*> awaited = checked_for_match(count, requests);
  const auto communicator = awaited.empty() ? nullptr : awaited.front()->communicator();
  auto operation = std::make_unique<Matching>(std::move(awaited), communicator);
  const Partita_Request made = handle_of(*operation);
  operation->loop_watch().begin();
  runtime().operations.add(std::move(operation));
  *matching = made;
}

}  // namespace

int Partita_Send_init(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
                      Partita_Request* request) {
  return make_send("Send_init", SendMode::standard, buf, count, datatype, dest, tag, comm, request);
}

int Partita_Rsend_init(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
                       Partita_Request* request) {
  return make_send("Rsend_init", SendMode::ready, buf, count, datatype, dest, tag, comm, request);
}

int Partita_Ssend_init(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
                       Partita_Request* request) {
  return make_send("Ssend_init", SendMode::synchronous, buf, count, datatype, dest, tag, comm, request);
}

int Partita_Bsend_init(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
                       Partita_Request* request) {
  return make_request("Bsend_init", comm, request, [&](Runtime& current) {
    return std::make_unique<BufferedSend>(current.services, checked_message(current, Side::send, const_cast<void*>(buf),
                                                                            count, datatype, dest, tag, comm));
  });
}

int Partita_Recv_init(void* buf, MPI_Count count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                      Partita_Request* request) {
  return make_request("Recv_init", comm, request, [&](Runtime& current) {
    return PersistentRequest::receive(current.services,
                                      checked_message(current, Side::recv, buf, count, datatype, source, tag, comm));
  });
}

int Partita_Match(Partita_Request* request) {
  return guarded("Match", [&] { return first_comm(1, request); }, [&] { match_all(1, &request_at(request)); });
}

int Partita_Matchall(int count, Partita_Request requests[]) {
  return guarded("Matchall", [&] { return first_comm(count, requests); }, [&] { match_all(count, requests); });
}

int Partita_Imatch(Partita_Request* request, Partita_Request* matching) {
  return guarded(
      "Imatch", [&] { return first_comm(1, request); }, [&] { begin_match_of_all(1, &request_at(request), matching); });
}

int Partita_Imatchall(int count, Partita_Request requests[], Partita_Request* matching) {
  return guarded(
      "Imatchall", [&] { return first_comm(count, requests); }, [&] { begin_match_of_all(count, requests, matching); });
}

int Partita_Is_matched(Partita_Request request, int* flag) {
  return on_request("Is_matched", request, [&] {
    check_output(flag, "flag");
    Operation& asked = operation_of(request);
    if (!asked.persistent()) throw not_persistent("the request");
    Progress& progress = runtime().progress;
    if (progress.wanted()) progress.poll();
    *flag = asked.matched() ? 1 : 0;
    if (*flag != 0) asked.match_is_seen();
    if (*flag == 0) fail_at_end_of_loop(asked);
  });
}
