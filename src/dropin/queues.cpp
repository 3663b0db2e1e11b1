// Matching for good, and queues, on MPI_Request (partita/mpix.h). A persistent request of the MPI that is matched
// becomes one of ours, which has another handle.
#include <fmt/format.h>
#include <mpi.h>
#include <partita/mpix.h>
#include <partita/partita.h>

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "capi/gpu_aware.hpp"
#include "dropin/calling.hpp"
#include "dropin/native.hpp"
#include "dropin/records.hpp"
#include "dropin/refuse.hpp"
#include "dropin/requests.hpp"

namespace partita::dropin {
namespace {

/// What a request is that neither is ours nor has a record.
constexpr const char* never_matched = "nonblocking, generalized or persistent of the MPI's own";

int refuse_request(const char* call, int place, const std::string& what) {
  return refuse(MPI_ERR_REQUEST, fmt::format("{}: request {} is {}", call, place, what));
}

int refuse_array(const char* call, int count, const MPI_Request requests[]) {
  if (count < 0)
    return refuse(MPI_ERR_COUNT, fmt::format("{}: argument count is {}; expected is 0 or more", call, count));
  if (count > 0 && requests == nullptr) return refuse_null_pointer(call, "requests");
  return MPI_SUCCESS;
}

/// The request of ours that `handle` stands for, but for one that is staged (gpu-aware.md): that is the MPI's, with a
/// record, until it is matched.
Partita_Request matched(MPI_Request handle) {
  const Partita_Request found = ours(handle);
  return Partita_is_staged(found) != 0 ? PARTITA_REQUEST_NULL : found;
}

/// Frees the MPI's request, which may be complete, though nobody has waited for it.
int free_theirs(MPI_Request request, const Record& record) {
  if (const Partita_Request staged = ours(request); staged != PARTITA_REQUEST_NULL) return release(staged, &request);
  if (!record.is_collective() || record.was_started()) native().Wait(&request, MPI_STATUS_IGNORE);
  return native().Request_free(&request);
}

/// Whether the MPI has started the request: one that is complete, though nobody has waited for it, has a status, unless
/// it is a send, or MPICH has been asked before (it tells once); then it passes for inactive.
bool is_active(MPI_Request request, const Record& record) {
  if (const Partita_Request staged = ours(request); staged != PARTITA_REQUEST_NULL)
    return Partita_is_active(staged) != 0;
  if (record.is_collective() && !record.was_started()) return false;
  MPI_Status status;
  int complete = 0;
  if (native().Request_get_status(request, &complete, &status) != MPI_SUCCESS || complete == 0) return true;
  return status.MPI_SOURCE != MPI_ANY_SOURCE;
}

/// An array of requests as the C API takes it. Those that the MPI has are made anew, and replace the MPI's once the
/// match has begun; where it has not, they go again, and the MPI's are as they were.
class OwnRequests {
 public:
  OwnRequests(int count, MPI_Request* requests) : requests_(requests, requests + count), handles_(requests) {}
  ~OwnRequests() {
    for (Made& each : made_) {
      if (each.request != PARTITA_REQUEST_NULL) Partita_Request_free(&each.request);
      if (each.handle != MPI_REQUEST_NULL) forget(&each.handle);
    }
  }
  OwnRequests(const OwnRequests&) = delete;
  OwnRequests& operator=(const OwnRequests&) = delete;

  int prepare(const char* call);
  Partita_Request* array() { return own_.data(); }
  int replace();

 private:
  int find(const char* call);
  int make(bool collectives);

  struct Made {
    Partita_Request request = PARTITA_REQUEST_NULL;
    MPI_Request handle = MPI_REQUEST_NULL;  ///< what the caller gets for it
    std::vector<std::size_t> places;
  };

  const std::vector<MPI_Request> requests_;
  MPI_Request* handles_;  ///< the caller's
  std::vector<Partita_Request> own_;
  std::vector<std::shared_ptr<const Record>> records_;  ///< of what is not ours
  std::vector<Made> made_;
};

int OwnRequests::prepare(const char* call) {
  if (const int code = find(call); code != MPI_SUCCESS) return code;
  // The others first: a collective that is made and freed again fails at its peers.
  for (const bool collectives : {false, true}) {
    if (const int code = make(collectives); code != MPI_SUCCESS) return code;
  }
  return MPI_SUCCESS;
}

/// What the MPI's requests were made for.
int OwnRequests::find(const char* call) {
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    const int place = static_cast<int>(i);
    const MPI_Request request = requests_[i];
    if (request == MPI_REQUEST_NULL) return refuse_request(call, place, "MPI_REQUEST_NULL");
    own_.push_back(matched(request));
    records_.push_back(own_[i] == PARTITA_REQUEST_NULL ? find_record(request) : nullptr);
    if (own_[i] == PARTITA_REQUEST_NULL && !records_[i]) {
      return refuse_request(
          call, place,
          "neither persistent nor partitioned: nonblocking and generalized requests, and those of the MPI's own "
          "extensions, cannot be matched");
    }
    if (records_[i] && is_active(request, *records_[i])) {
      return refuse_request(call, place, "active; expected is an inactive one");
    }
  }
  return MPI_SUCCESS;
}

/// One for each handle, wherever that stands.
int OwnRequests::make(bool collectives) {
  std::unordered_map<RequestTable::Key, std::size_t> made_of;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (!records_[i] || records_[i]->is_collective() != collectives) continue;
    const auto [found, is_new] = made_of.try_emplace(key_of(requests_[i]), made_.size());
    if (is_new) {
      Made& made = made_.emplace_back();
      if (const int code = records_[i]->make(&made.request); code != MPI_SUCCESS) return code;
      if (const int code = reserve(&made.handle); code != MPI_SUCCESS) return code;
    }
    made_[found->second].places.push_back(i);
    own_[i] = made_[found->second].request;
  }
  return MPI_SUCCESS;
}

/// The caller's handles stand for the new requests from now on; the MPI's are freed. Needs no memory. Returns what the
/// MPI says of those.
int OwnRequests::replace() {
  int code = MPI_SUCCESS;
  for (const Made& made : made_) {
    const MPI_Request theirs = requests_[made.places.front()];
    stand_for(made.handle, made.request);
    for (const std::size_t place : made.places) handles_[place] = made.handle;
    move_record(theirs, made.handle);
    if (const int freed = free_theirs(theirs, *records_[made.places.front()]); freed != MPI_SUCCESS) code = freed;
  }
  made_.clear();
  return code;
}

int match_all(const char* call, int count, MPI_Request* requests) {
  if (const int code = refuse_array(call, count, requests); code != MPI_SUCCESS) return code;
  OwnRequests own(count, requests);
  if (const int code = own.prepare(call); code != MPI_SUCCESS) return code;
  const int code = Partita_Matchall(count, own.array());
  return code == MPI_SUCCESS ? own.replace() : code;
}

int imatch_all(const char* call, int count, MPI_Request* requests, MPI_Request* matching) {
  if (const int code = refuse_array(call, count, requests); code != MPI_SUCCESS) return code;
  if (matching == nullptr) return refuse_null_pointer(call, "matching");
  OwnRequests own(count, requests);
  if (const int code = own.prepare(call); code != MPI_SUCCESS) return code;
  MPI_Request handle = MPI_REQUEST_NULL;
  if (const int code = reserve(&handle); code != MPI_SUCCESS) return code;
  Partita_Request begun = PARTITA_REQUEST_NULL;
  if (const int code = Partita_Imatchall(count, own.array(), &begun); code != MPI_SUCCESS) {
    forget(&handle);
    return code;
  }
  stand_for(handle, begun);
  *matching = handle;
  return own.replace();
}

/// Returns what `use(array)` does with requests that are all ours, as matched ones are.
template <class Use>
int with_matched(const char* call, int count, const MPI_Request* requests, Use use) {
  if (const int code = refuse_array(call, count, requests); code != MPI_SUCCESS) return code;
  std::vector<Partita_Request> own;
  for (int i = 0; i < count; ++i) {
    own.push_back(matched(requests[i]));
    if (own.back() != PARTITA_REQUEST_NULL) continue;
    if (requests[i] == MPI_REQUEST_NULL) return refuse_request(call, i, "MPI_REQUEST_NULL");
    const char* const what = find_record(requests[i]) ? "not matched" : never_matched;
    return refuse_request(call, i, fmt::format("{}; expected is one that MPIX_Match has matched", what));
  }
  return use(own.data());
}

int refuse_address(const char* call) {
  return refuse(MPI_ERR_REQUEST,
                fmt::format("{}: argument request is null; expected is the address of a request", call));
}

/// Whether a request that is not ours is matched: none is, and some never can be.
int look_at_foreign(const char* call, MPI_Request request, int* flag) {
  if (flag == nullptr) return refuse_null_pointer(call, "flag");
  if (!find_record(request)) {
    return refuse(MPI_ERR_REQUEST, fmt::format("{}: the request is {}; expected is a persistent or partitioned request",
                                               call, request == MPI_REQUEST_NULL ? "MPI_REQUEST_NULL" : never_matched));
  }
  *flag = 0;
  return MPI_SUCCESS;
}

}  // namespace
}  // namespace partita::dropin

using namespace partita::dropin;

extern "C" {

int Partita_mpi_Match(MPI_Request* request) {
  return guarded("MPIX_Match", [=](const char* call) {
    return request == nullptr ? refuse_address(call) : match_all(call, 1, request);
  });
}

int Partita_mpi_Matchall(int count, MPI_Request requests[]) {
  return guarded("MPIX_Matchall", [=](const char* call) { return match_all(call, count, requests); });
}

int Partita_mpi_Imatch(MPI_Request* request, MPI_Request* matching) {
  return guarded("MPIX_Imatch", [=](const char* call) {
    return request == nullptr ? refuse_address(call) : imatch_all(call, 1, request, matching);
  });
}

int Partita_mpi_Imatchall(int count, MPI_Request requests[], MPI_Request* matching) {
  return guarded("MPIX_Imatchall", [=](const char* call) { return imatch_all(call, count, requests, matching); });
}

int Partita_mpi_Is_matched(MPI_Request request, int* flag) {
  return guarded("MPIX_Is_matched", [=](const char* call) {
    const Partita_Request found = matched(request);
    return found != PARTITA_REQUEST_NULL ? Partita_Is_matched(found, flag) : look_at_foreign(call, request, flag);
  });
}

int Partita_mpi_Queue_init(MPIX_Queue* queue, MPIX_Queue_type type, void* stream) {
  const Calling calling("MPIX_Queue_init");
  return Partita_Queue_init(queue, type, stream);
}

int Partita_mpi_Queue_free(MPIX_Queue* queue) {
  const Calling calling("MPIX_Queue_free");
  return Partita_Queue_free(queue);
}

int Partita_mpi_Queue_wait(MPIX_Queue queue) {
  const Calling calling("MPIX_Queue_wait");
  return Partita_Queue_wait(queue);
}

int Partita_mpi_Enqueue_start(MPIX_Queue queue, MPI_Request* request) {
  return guarded("MPIX_Enqueue_start", [=](const char* call) {
    if (request == nullptr) return refuse_address(call);
    return with_matched(call, 1, request, [=](Partita_Request* own) { return Partita_Enqueue_start(queue, own); });
  });
}

int Partita_mpi_Enqueue_startall(MPIX_Queue queue, int count, MPI_Request requests[]) {
  return guarded("MPIX_Enqueue_startall", [=](const char* call) {
    return with_matched(call, count, requests,
                        [=](Partita_Request* own) { return Partita_Enqueue_startall(queue, count, own); });
  });
}

int Partita_mpi_Enqueue_wait(MPIX_Queue queue, MPI_Request* request) {
  return guarded("MPIX_Enqueue_wait", [=](const char* call) {
    if (request == nullptr) return refuse_address(call);
    return with_matched(call, 1, request, [=](Partita_Request* own) { return Partita_Enqueue_wait(queue, own); });
  });
}

int Partita_mpi_Enqueue_waitall(MPIX_Queue queue, int count, MPI_Request requests[]) {
  return guarded("MPIX_Enqueue_waitall", [=](const char* call) {
    return with_matched(call, count, requests,
                        [=](Partita_Request* own) { return Partita_Enqueue_waitall(queue, count, own); });
  });
}

int Partita_mpi_Queue_completion(MPI_Request request, MPIX_Completion* completion) {
  return guarded("MPIX_Queue_completion", [=](const char* call) {
    return with_matched(call, 1, &request,
                        [=](Partita_Request* own) { return Partita_Queue_completion(*own, completion); });
  });
}

}  // extern "C"
