#include "two_sided/peer_request.hpp"

#include <functional>
#include <utility>

#include "core/current_error.hpp"
#include "two_sided/own_comms.hpp"
#include "two_sided/peer_move.hpp"
#include "two_sided/peer_reduce.hpp"

namespace partita {
PeerRequest::PeerRequest(const Site& site, std::shared_ptr<Communicator> communicator)
    : Operation({}, std::move(communicator)), site_(site) {}

PeerRequest::~PeerRequest() = default;

std::shared_ptr<PeerRequest::Described> PeerRequest::begin_description() {
  const auto of = communicator();
  auto described = std::make_shared<Described>(Described{of,
                                                         {site_.services,
                                                          site_.mappings,
                                                          *of,
                                                          of->members(site_.services.requests.world),
                                                          site_.rank,
                                                          nullptr,
                                                          nullptr,
                                                          {}},
                                                         {},
                                                         nullptr});
  described->context.aside = [&work = site_.side_work, kept = std::weak_ptr(described)](std::function<void()> job) {
    work.add([job = std::move(job), call = kept.lock()] { job(); });
  };
  return described;
}

bool PeerRequest::describe(PeerParts parts) {
  auto described = begin_description();
  const std::size_t ranks = described->context.world_ranks.size();
  described->parts[0].assign(parts.sent, parts.sent + ranks);
  described->parts[1].assign(parts.received, parts.received + ranks);
  parts.sent = described->parts[0].data();
  parts.received = described->parts[1].data();
  name_ = parts.call;
  described->call = std::make_unique<PeerMove>(described->context, parts);
  return is_wanted(std::move(described));
}

bool PeerRequest::describe(PeerShares shares) {
  auto described = begin_description();
  described->parts[0].assign(shares.shares, shares.shares + described->context.world_ranks.size());
  shares.shares = described->parts[0].data();
  name_ = shares.call;
  described->call = std::make_unique<PeerReduce>(described->context, shares);
  return is_wanted(std::move(described));
}

bool PeerRequest::is_wanted(std::shared_ptr<Described> described) {
  if (!described->call->describe()) {
    site_.reasons.tell(name_, described->call->why_not());
    return false;
  }
  by_peers_ = std::move(described);
  return true;
}

void PeerRequest::queue(PeerQueue& queue, const char* name, std::unique_ptr<QueuedCall> call, HostMirrors mirrors) {
  queue_ = &queue;
  name_ = name;
  call_ = std::move(call);
  mirrors_ = std::move(mirrors);
}

void PeerRequest::seek_peers() {
  enter(Phase::queued);
  queue_->add(*this);
}

void PeerRequest::begin(PeerBoard& board) {
  enter(by_peers_ == nullptr ? Stage::fetches : Stage::stages);
  if (const int rank = board.who_gave_up(); rank >= 0) {
    throw Error(ErrorClass::other, "rank {} of the communicator has given up a collective on it, after an error", rank);
  }
  board.begin();
  if (by_peers_ != nullptr) by_peers_->context.board = &board;
  if (by_peers_ != nullptr && !board.have_calls_ended(board.call())) {
    enter(Stage::agrees);
  } else {
    board.leave();
  }
}

bool PeerRequest::step(PeerBoard& board, MPI_Comm comm) {
  if (stage() == Stage::waits) begin(board);
  if (stage() == Stage::agrees) {
    PeerCall& call = *by_peers_->call;
    try {
      if (!call.step()) return false;
    } catch (const std::exception&) {
      if (!call.is_over()) throw;
      fail_in_queue(current_error());  // on all ranks, and the next call is none the worse for it
      return true;
    }
    if (call.is_made()) {
      outcome_ = Phase::made;
      return true;
    }
    site_.reasons.tell(name_, call.why_not());
    enter(Stage::stages);
  }
  if (stage() == Stage::stages && !stages(comm)) return false;
  if (!mirrors_.fetched()) return false;
  // Nobody knows whether the others have made it: the MPI has to make all that follow.
  if (!calls_mpi(comm)) board.end_calls(board.call());
  return true;
}

/// Whether what the MPI reads is being fetched.
bool PeerRequest::stages(MPI_Comm comm) {
  if (!by_peers_->call->is_behind_stream()) return false;
  by_peers_->call->check_memory();
  call_->stage(comm, mirrors_);
  mirrors_.begin_fetch();
  enter(Stage::fetches);
  return true;
}

/// False where the MPI has refused the call, which is a mistake of the program's. Throws where Partita has failed: then
/// the others have made a call that this rank has not.
bool PeerRequest::calls_mpi(MPI_Comm comm) {
  struct Made {
    QueuedCall& call;
    MPI_Comm comm;
  } made{*call_, comm};
  const CallToStage call{name_,
                         true,
                         false,
                         [](void* context, MPI_Request* request) {
                           const Made& of = *static_cast<Made*>(context);
                           return of.call.make(of.comm, request);
                         },
                         &made,
                         true};
  staged_ = std::make_unique<StagedCall>(std::move(mirrors_), call, communicator(), StagedCall::Fetched::yes);
  staged_->keep_silent(true);
  try {
    staged_->seek_peers();
  } catch (const Error& error) {
    if (error.raised_code() == 0) throw;
    refusal_ = error.raised_code();
    fail_in_queue(current_error());
    return false;
  }
  staged_->keep_silent(false);
  outcome_ = Phase::in_mpi;
  return true;
}

/// The GPU may be at it.
void PeerRequest::fail_in_queue(Error error) noexcept {
  if (stage() == Stage::agrees) by_peers_->call->give_up();
  failure_ = std::move(error);
  outcome_ = Phase::failed;
}

void PeerRequest::start() {
  throw Error(ErrorClass::request, "the request is that of the nonblocking {}; expected is a persistent one", name_);
}

bool PeerRequest::prepared() {
  throw Error(ErrorClass::request, "the request is that of {}; expected is one with partitions", name_);
}

/// As the MPI would have at the call, had that not been behind others.
void PeerRequest::raise_refusal() {
  raise_on(*communicator(), std::exchange(refusal_, MPI_SUCCESS));
}

bool PeerRequest::done() {
  if (imposed_) throw Error(*imposed_);
  switch (phase()) {
    case Phase::queued:
      return false;
    case Phase::failed:
      if (refusal_ != MPI_SUCCESS) raise_refusal();
      if (failure_) throw Error(*failure_);
      return true;
    case Phase::in_mpi:
      return staged_->done();
    default:
      return true;
  }
}

void PeerRequest::fill_status(MPI_Status* status) const {
  staged_ != nullptr ? staged_->fill_status(status) : set_status(status, MPI_ANY_SOURCE, MPI_ANY_TAG, 0);
}

void PeerRequest::abandon(const std::optional<Error>& cause) {
  const auto exclusive = site_.services.requests.progress.exclusive();
  if (phase() == Phase::queued) {
    queue_->give_up(*this);
    if (stage() == Stage::agrees) by_peers_->call->give_up();
  } else if (phase() == Phase::in_mpi) {
    staged_->abandon(cause);
  }
  enter(Phase::inactive);
}

std::string PeerRequest::explain() const {
  switch (phase()) {
    case Phase::queued:
      return queue_->explain(*this);
    case Phase::in_mpi:
      return staged_->explain();
    default:
      return fmt::format("{} on GPU memory has ended", name_);
  }
}

int PeerRequest::waits_for() const {
  return phase() == Phase::queued ? queue_->waits_for() : -1;
}

std::string PeerRequest::explain_first() const {
  switch (stage()) {
    case Stage::waits:
      return fmt::format("{} on GPU memory is about to begin", name_);
    case Stage::agrees:
      return by_peers_->call->explain();
    case Stage::stages:
      return fmt::format("{} on GPU memory waits for the stream of this rank's program that it comes behind", name_);
    default:
      return fmt::format("{} on GPU memory is copied to host memory, for the MPI", name_);
  }
}

int PeerRequest::first_waits_for() const {
  return stage() == Stage::agrees ? by_peers_->call->waits_for() : -1;
}

std::vector<InfoEntry> PeerRequest::info() const {
  return {{"partita_kind", kind()}, {"partita_active", active() ? "true" : "false"}};
}

}  // namespace partita
