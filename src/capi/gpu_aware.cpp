#include "capi/gpu_aware.hpp"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "capi/operators.hpp"
#include "capi/report.hpp"
#include "capi/requests.hpp"
#include "capi/state.hpp"
#include "capi/waits.hpp"
#include "core/mpi_check.hpp"
#include "two_sided/exchange.hpp"
#include "two_sided/host_mirrors.hpp"
#include "two_sided/message.hpp"
#include "two_sided/peer_request.hpp"
#include "two_sided/queued_call.hpp"
#include "two_sided/staged_call.hpp"

using namespace partita;
using namespace partita::capi;

struct Partita_StageImpl {
  HostMirrors mirrors;
};

namespace {

/// Where CUDA fails, the call that follows tells.
memory::Place place_in(Runtime& runtime, const void* buffer, MPI_Count count, MPI_Datatype datatype) {
  try {
    return place_of_elements(*runtime.device_memory, buffer, count, datatype);
  } catch (const std::exception&) {
    return {};
  }
}

/// Null for other requests, and for none.
const StagedRequest* staged_of(Partita_Request request) {
  return request == PARTITA_REQUEST_NULL ? nullptr : dynamic_cast<const StagedRequest*>(&operation_of(request));
}

/// An operation of the program's takes any datatype.
bool may_reduce(MPI_Op op, MPI_Datatype type) {
  try {
    check_operator(op, type);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

Communicator& communicator_of(Partita_Peers peers) {
  return *reinterpret_cast<Communicator*>(peers);
}

PeerRequest* peer_request_of(Partita_Queued queued) {
  return reinterpret_cast<PeerRequest*>(queued);
}

/// As the drop-in makes it.
class CallOfDropin final : public QueuedCall {
 public:
  /// What is kept, and how it is dropped.
  using Context = std::unique_ptr<void, void (*)(void*)>;
  CallOfDropin(const CallToQueue& call, Context context) : call_(call), context_(std::move(context)) {}

  void stage(MPI_Comm comm, HostMirrors& mirrors) override {
    Partita_Stage stage = nullptr;
    const int code = call_.stage(call_.context, comm, &stage);
    const std::unique_ptr<Partita_StageImpl> staged(stage);
    if (code != MPI_SUCCESS) {
      int mpi_class = MPI_ERR_OTHER;
      native::Error_class(code, &mpi_class);
      const std::string* const sentence = sentence_of(code);
      throw Error(error_class_of(mpi_class), "{}", sentence != nullptr ? *sentence : mpi_text(code));
    }
    if (staged != nullptr) mirrors = std::move(staged->mirrors);
  }
  int make(MPI_Comm comm, MPI_Request* request) override { return call_.make(call_.context, comm, request); }

 private:
  const CallToQueue call_;
  const Context context_;
};

/// Describes a call on `comm` of this rank.
template <class Description>
int describe(const char* call, MPI_Comm comm, const Description& description, Partita_Queued* queued) {
  *queued = nullptr;
  return guarded(
      call, [comm] { return comm; },
      [&] {
        Runtime& current = runtime();
        auto request = current.peer_collectives.request_on(current.communicators.find(comm));
        if (request->describe(description)) *queued = reinterpret_cast<Partita_Queued>(request.release());
      });
}

}  // namespace

int Partita_is_gpu_aware(const char** why) {
  Runtime* const current = current_runtime();
  if (current == nullptr) return 0;
  if (why != nullptr) *why = current->gpu_awareness.why.c_str();
  return current->gpu_awareness.on ? 1 : 0;
}

int Partita_Take_offers(int* taken) {
  *taken = 0;
  Runtime* const current = current_runtime();
  if (current == nullptr) return MPI_SUCCESS;
  const int code = guarded("Take_offers", [&] { current->offers.turn_on(); });
  *taken = current->offers.on() ? 1 : 0;
  return code;
}

int Partita_Look(int source, int tag, MPI_Comm comm, int* found, MPI_Status* status) {
  int code = MPI_SUCCESS;
  const int called = guarded(
      "Look", [comm] { return handler_of_argument(comm); },
      [&] {
        check_status(status);
        Runtime& current = runtime();
        code = current.offers.probed().probe(source, tag, comm, found, status,
                                             [&] { return current.communicators.find_if_known(comm); });
      });
  return called != MPI_SUCCESS ? called : code;
}

int Partita_Look_and_match(int source, int tag, MPI_Comm comm, int* found, MPI_Message* message, MPI_Status* status) {
  int code = MPI_SUCCESS;
  const int called = guarded(
      "Look_and_match", [comm] { return handler_of_argument(comm); },
      [&] {
        check_status(status);
        Runtime& current = runtime();
        code = current.offers.probed().match(source, tag, comm, found, message, status,
                                             [&] { return current.communicators.find_if_known(comm); });
        if (code == MPI_SUCCESS && *found != 0 && current.matched_messages.on())
          current.matched_messages.note(*message, current.communicators.find_if_known(comm));
      });
  return called != MPI_SUCCESS ? called : code;
}

int Partita_Note_match(MPI_Comm comm, const MPI_Message* message) {
  Runtime* const running = current_runtime();
  if (running == nullptr || !running->matched_messages.on()) return MPI_SUCCESS;
  return guarded(
      "Note_match", [comm] { return handler_of_argument(comm); },
      [&] { running->matched_messages.note(*message, running->communicators.find_if_known(comm)); });
}

int Partita_Forget_promises(MPI_Comm comm) {
  return guarded(
      "Forget_promises", [comm] { return handler_of_argument(comm); },
      [&] {
        const auto known = runtime().communicators.find_if_known(comm);
        if (known != nullptr) Offers::forget_promises(*known);
      });
}

int Partita_is_spent(Partita_Request request) {
  if (request == PARTITA_REQUEST_NULL) return 0;
  const Operation& operation = operation_of(request);
  const bool is_of_mpi = staged_of(request) != nullptr || dynamic_cast<const Exchange*>(&operation) != nullptr ||
                         dynamic_cast<const PeerRequest*>(&operation) != nullptr;
  return is_of_mpi && !operation.persistent() && !operation.active() ? 1 : 0;
}

int Partita_is_staged(Partita_Request request) {
  const StagedRequest* const staged = staged_of(request);
  return staged != nullptr && staged->persistent() ? 1 : 0;
}

int Partita_is_active(Partita_Request request) {
  return operation_of(request).active() ? 1 : 0;
}

int Partita_gpu_of(const void* buffer, MPI_Count count, MPI_Datatype datatype) {
  constexpr int none = -1;
  Runtime* const current = current_runtime();
  if (current == nullptr) return none;
  const memory::Place place = place_in(*current, buffer, count, datatype);
  return place.kind == memory::Kind::device ? place.device : none;
}

int Partita_Raise_on_window(MPI_Win window, int error_class, const char* sentence) {
  return raise_on_window(window, remember(error_class, sentence));
}

int Partita_Raise_on_file(MPI_File file, int error_class, const char* sentence) {
  return raise_on_file(file, remember(error_class, sentence));
}

int Partita_Begin_by_peers(MPI_Comm comm, PeerCollective collective, Partita_Peers* peers, PeerRanks* ranks,
                           int* may_ask) {
  *peers = nullptr;
  if (comm == MPI_COMM_NULL) return MPI_SUCCESS;  // the MPI says so
  return guarded(
      "Begin_by_peers", [comm] { return comm; },
      [&] {
        Runtime& current = runtime();
        const auto& sizes = current.peer_collectives.sizes();
        if (!sizes) return;
        const auto communicator = current.communicators.find_if_known(comm);
        if (communicator == nullptr) return;
        const auto begun = current.peer_collectives.begin(*communicator);
        if (begun == PeerCollectives::Begun::none) return;
        *peers = reinterpret_cast<Partita_Peers>(communicator.get());
        *ranks = PeerCollectives::ranks_of(*communicator, collective, *sizes);
        *may_ask = begun == PeerCollectives::Begun::may_ask ? 1 : 0;
      });
}

int64_t Partita_Peers_from_bytes(PeerCollective collective, int ranks, const char** why) {
  Runtime* const current = current_runtime();
  if (current == nullptr) return -1;
  if (why != nullptr) *why = current->gpu_awareness.why_no_peers.c_str();
  const auto& sizes = current->gpu_awareness.peer_sizes;
  return sizes ? sizes->from_bytes(collective, ranks) : -1;
}

void Partita_Leave_peers(Partita_Peers peers) {
  if (Runtime* const current = current_runtime()) current->peer_collectives.leave(communicator_of(peers));
}

int Partita_Move_by_peers(Partita_Peers peers, const PeerParts* parts, MPI_Comm comm, int* moved) {
  *moved = 0;
  return guarded(
      "Move_by_peers", [comm] { return comm; },
      [&] { *moved = runtime().peer_collectives.make(communicator_of(peers), *parts) ? 1 : 0; });
}

int Partita_Reduce_by_peers(Partita_Peers peers, PeerShares* shares, MPI_Comm comm, int* reduced) {
  *reduced = 0;
  return guarded(
      "Reduce_by_peers", [comm] { return comm; },
      [&] {
        shares->is_valid = shares->is_valid && may_reduce(shares->op, shares->type);
        *reduced = runtime().peer_collectives.make(communicator_of(peers), *shares) ? 1 : 0;
      });
}

void Partita_End_peers(Partita_Peers peers) {
  if (Runtime* const current = current_runtime()) current->peer_collectives.end_calls(communicator_of(peers));
}

Partita_Constructors Partita_Begin_constructor() {
  Runtime* const current = current_runtime();
  if (current == nullptr) return nullptr;
  current->constructors.begin();
  return &current->constructors;
}

void Partita_End_constructor(Partita_Constructors constructors) {
  if (constructors != nullptr) static_cast<Constructors*>(constructors)->end();
}

int Partita_Are_refused(const void* buffer, MPI_Count count, MPI_Datatype datatype) {
  Runtime* const current = current_runtime();
  return current != nullptr && current->peer_collectives.refuses(buffer, count, datatype) ? 1 : 0;
}

int Partita_is_refused(MPI_Op op, MPI_Datatype datatype) {
  Runtime* const current = current_runtime();
  return current != nullptr && current->peer_collectives.refuses(op, datatype) ? 1 : 0;
}

int Partita_Begin_in_order(MPI_Comm comm, PeerCollective collective, Partita_Peers* peers, PeerRanks* ranks,
                           int* is_first) {
  *peers = nullptr;
  if (comm == MPI_COMM_NULL) return MPI_SUCCESS;  // the MPI says so
  return guarded(
      "Begin_in_order", [comm] { return comm; },
      [&] {
        Runtime& current = runtime();
        const auto& sizes = current.peer_collectives.sizes();
        if (!sizes) return;
        const auto communicator = current.communicators.find_if_known(comm);
        if (communicator == nullptr || !PeerCollectives::may_queue(*communicator)) return;
        *is_first = PeerCollectives::has_before(*communicator) ? 0 : 1;
        *peers = reinterpret_cast<Partita_Peers>(communicator.get());
        *ranks = PeerCollectives::ranks_of(*communicator, collective, *sizes);
      });
}

int Partita_Describe_move(MPI_Comm comm, const PeerParts* parts, Partita_Queued* queued) {
  return describe("Describe_move", comm, *parts, queued);
}

int Partita_Describe_reduction(MPI_Comm comm, const PeerShares* shares, Partita_Queued* queued) {
  PeerShares described = *shares;
  described.is_valid = described.is_valid && may_reduce(described.op, described.type);
  return describe("Describe_reduction", comm, described, queued);
}

void Partita_Queued_free(Partita_Queued queued) {
  delete peer_request_of(queued);
}

int Partita_Comm_in_order(MPI_Comm comm, MPI_Comm* on) {
  *on = MPI_COMM_NULL;
  return guarded(
      "Comm_in_order", [comm] { return comm; },
      [&] {
        Runtime& current = runtime();
        const PeerQueue& queue = PeerCollectives::queue_of(*current.communicators.find(comm));
        if (queue.is_empty()) *on = queue.comm();
      });
}

void Partita_Count_in_order(Partita_Peers peers) {
  PeerCollectives::count(communicator_of(peers));
}

int Partita_Make_in_order(Partita_Queued queued, Partita_Stage stage, const CallToQueue* call, MPI_Comm comm,
                          Partita_Request* made) {
  std::unique_ptr<PeerRequest> request(peer_request_of(queued));
  CallOfDropin::Context context(call->context, call->drop);
  return make_request("Make_in_order", comm, made, [&](Runtime& current) {
    auto made_later = std::make_unique<CallOfDropin>(*call, std::move(context));
    const auto communicator = current.communicators.find(comm);
    if (request == nullptr) request = current.peer_collectives.request_on(communicator);
    request->queue(PeerCollectives::queue_of(*communicator), call->name, std::move(made_later),
                   stage != nullptr ? std::move(stage->mirrors) : HostMirrors());
    request->loop_watch().begin();
    return std::unique_ptr<Operation>(std::move(request));
  });
}

void Partita_Time_peers(PeerTimes* times) {
  if (Runtime* const current = current_runtime()) current->peer_collectives.add_times_to(times);
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
        *host = (*stage)->mirrors.add(current.gpu_lanes, place.device, user, elements, use);
      });
}

int Partita_Stage_fetch(Partita_Stage stage, MPI_Comm comm) {
  return guarded(
      "Stage_fetch", [comm] { return handler_of_argument(comm); },
      [&] {
        const auto known = comm == MPI_COMM_NULL ? nullptr : runtime().communicators.find_if_known(comm);
        stage->mirrors.await_stream(known.get());
        stage->mirrors.fetch();
      });
}

int Partita_Stage_deliver(Partita_Stage stage, MPI_Comm comm) {
  return guarded(
      "Stage_deliver", [comm] { return handler_of_argument(comm); },
      [&] {
        stage->mirrors.begin_delivery();
        stage->mirrors.await_delivery();
      });
}

int Partita_Stage_request(Partita_Stage stage, const CallToStage* call, MPI_Comm comm, Partita_Request* made) {
  return make_request("Stage_request", comm, made, [&](Runtime& current) {
    auto staged = std::make_unique<StagedCall>(stage != nullptr ? std::move(stage->mirrors) : HostMirrors(), *call,
                                               current.communicators.find_if_known(comm));
    staged->loop_watch().begin();
    return staged;
  });
}

void Partita_Stage_free(Partita_Stage stage, int is_the_mpis) {
  if (is_the_mpis != 0 && stage != nullptr) stage->mirrors.leave_to_the_mpi();
  delete stage;
}
