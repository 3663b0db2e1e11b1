#include "core/mailbox.hpp"

#include <chrono>
#include <iterator>
#include <memory>
#include <utility>

#include "core/log.hpp"
#include "core/mpi_check.hpp"

namespace partita {
namespace {
constexpr int mailbox_tag = 1;

/// A look into the node socket is a system call, which not every step of a rank that waits shall pay.
constexpr int steps_between_looks = 16;

/// Keeps `memory`, which the MPI may read or write until its own end.
template <class T>
void leave_to_the_mpi(T memory) {
  static auto& kept = *new std::list<T>;  // never destroyed
  kept.push_back(std::move(memory));
}

}  // namespace

Mailbox::~Mailbox() {
  if (flying_.empty()) return;  // they are not only after a failed drain
  for (auto& message : flying_) native::Request_free(&message.request);
  leave_to_the_mpi(std::move(flying_));
}

void Mailbox::post(int peer, wire::Bytes message, Caller caller) {
  {
    const std::lock_guard lock(mutex_);
    held_[peer].push_back({peer, std::move(message)});
  }
  posted_.fetch_add(1, std::memory_order_relaxed);
  progress_.want();  // until the MPI has taken its bytes
  if (caller == Caller::may_not) return;
  try {
    send_held();
  } catch (const std::exception&) {
    // The message is kept: the next step tries again, and says what fails.
  }
}

/// Throws Error, and then the message stays where it is.
void Mailbox::send_first(std::list<Outgoing>& queue) {
  Outgoing& message = queue.front();
  PARTITA_MPI(Isend(message.bytes.data(), static_cast<int>(message.bytes.size()), MPI_BYTE, message.peer, mailbox_tag,
                    world_.control(), &message.request));
  flying_.splice(flying_.end(), queue, queue.begin());
}

/// A peer that cannot be sent to holds up no other one.
bool Mailbox::send_held() {
  const std::lock_guard lock(mutex_);
  bool moved = false;
  std::exception_ptr failure;
  for (auto entry = held_.begin(); entry != held_.end();) {
    auto& [peer, queue] = *entry;
    try {
      while (!queue.empty() && world_.socket().flush(peer)) {
        send_first(queue);
        moved = true;
      }
    } catch (const std::exception&) {
      failure = std::current_exception();
    }
    entry = queue.empty() ? held_.erase(entry) : std::next(entry);
  }
  if (failure) std::rethrow_exception(failure);
  return moved;
}

bool Mailbox::receive_one() {
  if (taken_ == MPI_MESSAGE_NULL) {
    int found = 0;
    PARTITA_MPI(Improbe(MPI_ANY_SOURCE, mailbox_tag, world_.control(), &found, &taken_, &taken_status_));
    if (found == 0) {
      taken_ = MPI_MESSAGE_NULL;
      return false;
    }
  }
  const MPI_Status status = taken_status_;
  int size = 0;
  PARTITA_MPI(Get_count(&status, MPI_BYTE, &size));
  wire::Bytes bytes(static_cast<std::size_t>(size));  // where there is no memory, the next step tries again
  PARTITA_MPI(Mrecv(bytes.data(), size, MPI_BYTE, &taken_, MPI_STATUS_IGNORE));

  received_.fetch_add(1, std::memory_order_relaxed);
  wire::Reader reader(bytes);
  const auto handler = handlers_.find(reader.get<std::uint8_t>());
  if (handler == handlers_.end()) {
    throw Error(ErrorClass::internal,
                "rank {} sent a setup message of unknown kind: do all ranks run the same build of Partita?",
                status.MPI_SOURCE);
  }
  handler->second(status.MPI_SOURCE, reader);
  return true;
}

bool Mailbox::complete_sent() {
  const std::lock_guard lock(mutex_);
  bool moved = false;
  for (auto message = flying_.begin(); message != flying_.end();) {
    int done = 0;
    PARTITA_MPI(Test(&message->request, &done, MPI_STATUS_IGNORE));
    if (done == 0) {
      ++message;
      continue;
    }
    message = flying_.erase(message);
    progress_.unwant();
    moved = true;
  }
  return moved;
}

/// A peer's next message may wait behind descriptors that nobody here asks for, a freed request's for instance: the
/// socket has to be emptied without a message that tells to.
bool Mailbox::take_in_descriptors() {
  if (--steps_until_look_ > 0) return false;
  const bool any = world_.socket().take_in();
  steps_until_look_ = any ? 1 : steps_between_looks;
  return any;
}

bool Mailbox::progress() {
  bool moved = take_in_descriptors();
  while (receive_one()) moved = true;
  moved |= complete_sent();
  moved |= send_held();  // the last: where it fails for one peer, the rest has been done
  return moved;
}

// Termination by counting (Mattern's four counters): when two sums over all ranks, one after the other, agree and as
// many messages were received as posted, none is under way and none can be caused any more.
void Mailbox::drain(double timeout_s, const std::function<void()>& once_all_are_here) {
  using Clock = std::chrono::steady_clock;
  struct Counts {
    std::int64_t mine[2];
    std::int64_t sums[2] = {-1, -1};
  };
  auto counts = std::make_unique<Counts>();
  auto& [mine, sums] = *counts;
  for (;;) {
    const std::int64_t before[2] = {sums[0], sums[1]};
    progress_.poll();
    {
      const auto no_handler_runs = progress_.exclusive();
      mine[0] = posted_.load();
      mine[1] = received_.load();
    }
    const auto begin = Clock::now();  // each round has shown that all are there: the limit begins anew
    MPI_Request sum = MPI_REQUEST_NULL;
    PARTITA_MPI(Iallreduce(mine, sums, 2, MPI_INT64_T, MPI_SUM, world_.control(), &sum));
    for (int done = 0; done == 0;) {
      progress_.poll();
      PARTITA_MPI(Test(&sum, &done, MPI_STATUS_IGNORE));
      const std::chrono::duration<double> waited = Clock::now() - begin;
      if (done == 0 && timeout_s > 0 && waited.count() > timeout_s) {
        leave_to_the_mpi(std::move(counts));
        world_.leave_communicators();
        throw Error(ErrorClass::other, "not every rank came to Finalize within {} s (PARTITA_TIMEOUT)", timeout_s);
      }
      if (done == 0) std::this_thread::yield();
    }
    const bool is_first = before[0] < 0;
    if (is_first) once_all_are_here();
    if (sums[0] == sums[1] && sums[0] == before[0] && sums[1] == before[1]) return;
  }
}

}  // namespace partita
