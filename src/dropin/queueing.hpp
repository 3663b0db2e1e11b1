// Nonblocking collectives that may go by peer memory: all ranks make them in one order (docs/design/gpu-aware.md).
#pragma once

#include <mpi.h>
#include <partita/partita.h>

#include <memory>
#include <utility>

#include "capi/gpu_aware.hpp"
#include "dropin/by_peers.hpp"
#include "dropin/staging.hpp"

namespace partita::dropin {

/// One call on this rank, which the MPI makes where its ranks do not by peers.
class Queueing {
 public:
  /// `stage` has the mirrors of a call that this rank does not want by peers. `name`: a text that stays.
  Queueing(const char* name, MPI_Comm comm, ByPeers& peers, Staging& stage, MPI_Request* handle)
      : name_(name), comm_(comm), peers_(peers), stage_(stage), handle_(handle) {}

  /// Whether nothing is left to do: the MPI has made it, or something was wrong, which was raised. `make(comm,
  /// request)` makes it. A call that has failed is none: the program may make another in its place.
  template <class Make>
  bool ends_at_once(Make make) {
    MPI_Comm on = MPI_COMM_NULL;
    if (!finds_comm(&on)) return true;
    if (on == MPI_COMM_NULL) return false;
    code_ = stage_.request_apart(name_, handle_, [&](MPI_Request* request) { return make(on, request); });
    if (code_ == MPI_SUCCESS) peers_.count();
    return true;
  }
  int code() const { return code_; }

  /// Makes its request. `call` keeps what it was given: call(stage, comm, request) stages it where `stage` is not null,
  /// else makes it. `kept` is what the program may free meanwhile.
  template <class Kept, class Call>
  int queue(Kept kept, Call call) {
    using Context = std::pair<Kept, Call>;
    auto context = std::make_unique<Context>(std::move(kept), std::move(call));
    const CallToQueue to_queue{name_, context.get(),
                               [](void* of, MPI_Comm comm, Partita_Stage* made) {
                                 Staging stage(comm);
                                 static_cast<Context*>(of)->second(&stage, comm, nullptr);
                                 *made = stage.take();
                                 return stage.code();
                               },
                               [](void* of, MPI_Comm comm, MPI_Request* request) {
                                 return static_cast<Context*>(of)->second(nullptr, comm, request);
                               },
                               [](void* of) { delete static_cast<Context*>(of); }};
    if (const int code = reserves(); code != MPI_SUCCESS) return code;
    static_cast<void>(context.release());
    return queue(to_queue);
  }

 private:
  bool finds_comm(MPI_Comm* on);
  int reserves();
  int queue(const CallToQueue& call);

  const char* name_;
  MPI_Comm comm_;
  ByPeers& peers_;
  Staging& stage_;
  MPI_Request* handle_;
  MPI_Request reserved_ = MPI_REQUEST_NULL;
  int code_ = MPI_SUCCESS;
};

}  // namespace partita::dropin
