#include "core/mailbox.hpp"

#include <chrono>

#include "core/log.hpp"
#include "core/mpi_check.hpp"

namespace partita {
namespace {
constexpr int mailbox_tag = 1;
}

Mailbox::~Mailbox() {
  for (auto& message : flying_) {  // only after a failed drain
    PMPI_Cancel(&message.request);
    PMPI_Request_free(&message.request);
  }
}

void Mailbox::post(int peer, wire::Bytes message) {
  {
    const std::lock_guard lock(mutex_);
    held_.push_back({peer, std::move(message)});
  }
  progress_.want();  // until it has been handed to the MPI
  send_held();
}

void Mailbox::send(Outgoing& message) {
  flying_.push_back(std::move(message));
  Outgoing& sent = flying_.back();
  PARTITA_MPI(Issend(sent.bytes.data(), static_cast<int>(sent.bytes.size()), MPI_BYTE, sent.peer, mailbox_tag,
                     world_.control(), &sent.request));
}

bool Mailbox::send_held() {
  const std::lock_guard lock(mutex_);
  bool moved = false;
  while (!held_.empty() && world_.socket().flush(held_.front().peer)) {
    send(held_.front());
    held_.pop_front();
    progress_.unwant();
    moved = true;
  }
  return moved;
}

bool Mailbox::receive_one() {
  int found = 0;
  MPI_Message handle = MPI_MESSAGE_NULL;
  MPI_Status status;
  PARTITA_MPI(Improbe(MPI_ANY_SOURCE, mailbox_tag, world_.control(), &found, &handle, &status));
  if (found == 0) return false;
  int size = 0;
  PARTITA_MPI(Get_count(&status, MPI_BYTE, &size));
  wire::Bytes bytes(static_cast<std::size_t>(size));
  PARTITA_MPI(Mrecv(bytes.data(), size, MPI_BYTE, &handle, MPI_STATUS_IGNORE));

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
    message = done != 0 ? flying_.erase(message) : std::next(message);
    moved |= done != 0;
  }
  return moved;
}

bool Mailbox::progress() {
  bool moved = send_held();
  while (receive_one()) moved = true;
  moved |= complete_sent();
  return moved;
}

bool Mailbox::idle() {
  const std::lock_guard lock(mutex_);
  return held_.empty() && flying_.empty();
}

// Nonblocking consensus: a barrier entered when all own messages were received (they are synchronous) ends only
// when that holds for every rank.
void Mailbox::drain(double timeout_s) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  MPI_Request barrier = MPI_REQUEST_NULL;
  int done = 0;
  while (done == 0) {
    progress_.poll();
    if (barrier == MPI_REQUEST_NULL && idle()) PARTITA_MPI(Ibarrier(world_.control(), &barrier));
    if (barrier != MPI_REQUEST_NULL) PARTITA_MPI(Test(&barrier, &done, MPI_STATUS_IGNORE));
    const std::chrono::duration<double> waited = Clock::now() - begin;
    if (timeout_s > 0 && waited.count() > timeout_s) {
      throw Error(ErrorClass::other, "Finalize: not every rank came to Finalize within {} s (PARTITA_TIMEOUT)",
                  timeout_s);
    }
    if (done == 0) std::this_thread::yield();
  }
}

}  // namespace partita
