#include "two_sided/peer_request.hpp"

#include <utility>

#include "core/current_error.hpp"
#include "two_sided/peer_move.hpp"
#include "two_sided/peer_reduce.hpp"

namespace partita {
namespace {

/// No error handler has heard of it: the MPI has raised it on a communicator of Partita's.
Error unraised(const Error& error) {
  return Error(error.error_class(), "{}", error.sentence());
}

}  // namespace

PeerRequest::PeerRequest(const Site& site, std::shared_ptr<Communicator> communicator)
    : Operation({}, std::move(communicator)),
      site_(site),
      context_{site.services,
               site.mappings,
               *Operation::communicator(),
               Operation::communicator()->members(site.services.requests.world),
               site.rank,
               nullptr,
               nullptr,
               false} {}

PeerRequest::~PeerRequest() = default;

PeerRequest::Wish PeerRequest::describe(PeerParts parts) {
  const std::size_t ranks = context_.world_ranks.size();
  parts_[0].assign(parts.sent, parts.sent + ranks);
  parts_[1].assign(parts.received, parts.received + ranks);
  parts.sent = parts_[0].data();
  parts.received = parts_[1].data();
  name_ = parts.call;
  by_peers_ = std::make_unique<PeerMove>(context_, parts);
  return described();
}

PeerRequest::Wish PeerRequest::describe(PeerShares shares) {
  parts_[0].assign(shares.shares, shares.shares + context_.world_ranks.size());
  shares.shares = parts_[0].data();
  name_ = shares.call;
  by_peers_ = std::make_unique<PeerReduce>(context_, shares);
  return described();
}

PeerRequest::Wish PeerRequest::described() {
  if (by_peers_->describe()) return Wish::yes;
  const Wish wish = by_peers_->is_mistaken() ? Wish::mistaken : Wish::no;
  site_.reasons.tell(name_, by_peers_->why_not());
  by_peers_ = nullptr;
  return wish;
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

void PeerRequest::begin(PeerBoard* board) {
  context_.board = board;
  enter(by_peers_ == nullptr ? Stage::fetches : Stage::stages);
  if (board == nullptr) return;
  if (const int rank = board->who_gave_up(); rank >= 0) {
    throw Error(ErrorClass::other, "rank {} of the communicator has given up a collective on it, after an error", rank);
  }
  board->begin();
  if (by_peers_ != nullptr && !board->have_calls_ended(board->call())) {
    enter(Stage::agrees);
  } else {
    board->leave();
  }
}

bool PeerRequest::step(PeerBoard* board, MPI_Comm comm) {
  if (stage() == Stage::waits) begin(board);
  if (stage() == Stage::agrees) {
    try {
      if (!by_peers_->step()) return false;
    } catch (const std::exception&) {
      if (!by_peers_->is_over()) {
        by_peers_->give_up();
        throw;
      }
      fail_in_queue(current_error());  // on all ranks, and the next call is none the worse for it
      return true;
    }
    if (by_peers_->is_made()) {
      outcome_ = Phase::made;
      return true;
    }
    site_.reasons.tell(name_, by_peers_->why_not());
    enter(Stage::stages);
  }
  if (stage() == Stage::stages && !stages(comm)) return false;
  if (!mirrors_.fetched()) return false;
  call_mpi(comm);
  outcome_ = Phase::in_mpi;
  return true;
}

/// Whether what the MPI reads is being fetched.
bool PeerRequest::stages(MPI_Comm comm) {
  if (!by_peers_->is_behind_stream()) return false;
  by_peers_->check_memory();
  call_->stage(comm, mirrors_);
  mirrors_.begin_fetch();
  enter(Stage::fetches);
  return true;
}

void PeerRequest::call_mpi(MPI_Comm comm) {
  struct Made {
    QueuedCall& call;
    MPI_Comm comm;
  } made{*call_, comm};
  const CallToStage call{name_, true, false,
                         [](void* context, MPI_Request* request) {
                           const Made& of = *static_cast<Made*>(context);
                           return of.call.make(of.comm, request);
                         },
                         &made};
  staged_ = std::make_unique<StagedCall>(std::move(mirrors_), call, communicator(), StagedCall::Fetched::yes);
  try {
    staged_->seek_peers();
  } catch (const Error& error) {
    throw unraised(error);
  }
}

void PeerRequest::fail_in_queue(const Error& error) noexcept {
  failure_ = error;
  outcome_ = Phase::failed;
}

void PeerRequest::start() {
  throw Error(ErrorClass::request, "the request is that of the nonblocking {}; expected is a persistent one", name_);
}

bool PeerRequest::prepared() {
  throw Error(ErrorClass::request, "the request is that of {}; expected is one with partitions", name_);
}

bool PeerRequest::done() {
  if (imposed_) throw Error(*imposed_);
  switch (phase()) {
    case Phase::queued:
      return false;
    case Phase::failed:
      throw Error(*failure_);
    case Phase::in_mpi:
      try {
        return staged_->done();
      } catch (const Error& error) {
        throw unraised(error);
      }
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
    if (stage() == Stage::agrees) by_peers_->give_up();
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
      return fmt::format("{} waits until all ranks have made the first nonblocking collective on its communicator",
                         name_);
    case Stage::agrees:
      return by_peers_->explain();
    case Stage::stages:
      return fmt::format("{} on GPU memory waits for the stream of this rank's program that it comes behind", name_);
    default:
      return fmt::format("{} on GPU memory is copied to host memory, for the MPI", name_);
  }
}

int PeerRequest::first_waits_for() const {
  return stage() == Stage::agrees ? by_peers_->waits_for() : -1;
}

std::vector<InfoEntry> PeerRequest::info() const {
  return {{"partita_kind", kind()}, {"partita_active", active() ? "true" : "false"}};
}

}  // namespace partita
