#include "two_sided/exchange.hpp"

#include <utility>

namespace partita {

Exchange::Exchange(std::unique_ptr<Operation> receive, std::unique_ptr<Operation> send,
                   std::unique_ptr<std::byte[]> sent, std::shared_ptr<Communicator> communicator)
    : Operation({}, std::move(communicator)),
      sent_(std::move(sent)),
      receive_(std::move(receive)),
      send_(std::move(send)) {}

/// The MPI may still send what it was given.
void Exchange::leave_to_the_mpi() noexcept {
  if (send_->active() && !is_sent_) static_cast<void>(sent_.release());
}

/// The send takes its bytes before the receive, which may find its message there, puts others in their place. Where the
/// receive is not made the send is given up.
void Exchange::seek_peers() {
  send_->seek_peers();
  try {
    receive_->seek_peers();
  } catch (...) {
    leave_to_the_mpi();
    send_->abandon({});
    throw;
  }
}

void Exchange::start() {
  throw Error(ErrorClass::request, "the request is that of MPI_Isendrecv; expected is a persistent one");
}

bool Exchange::prepared() {
  throw Error(ErrorClass::request, "the request is that of MPI_Isendrecv; expected is one with partitions");
}

/// Where a call asks for one half together with others, most often the other one has just been answered.
bool Exchange::done() {
  const bool asks_for_sent = !is_sent_ && send_->asked_in() != nullptr;
  const bool asks_for_received = !is_received_ && receive_->asked_in() != nullptr;
  const bool is_one_left = !is_sent_ && !is_received_ && asks_for_sent != asks_for_received;
  if (!is_sent_ && !(is_one_left && asks_for_sent)) is_sent_ = send_->done();
  if (!is_received_ && !(is_one_left && asks_for_received)) is_received_ = receive_->done();
  return is_sent_ && is_received_;
}

void Exchange::leave_asking_to(AskedTogether& together) {
  if (!is_received_) receive_->leave_asking_to(together);
  if (!is_sent_) send_->leave_asking_to(together);
}

const AskedTogether* Exchange::asked_in() const {
  const AskedTogether* const together = awaited().asked_in();
  return is_received_ || is_sent_ || together == send_->asked_in() ? together : nullptr;
}

void Exchange::close() {
  receive_->close();
  send_->close();
}

void Exchange::fail(const Error& error) {
  receive_->fail(error);
  send_->fail(error);
}

void Exchange::abandon(const std::optional<Error>& cause) {
  leave_to_the_mpi();
  receive_->abandon(cause);
  send_->abandon(cause);
}

void Exchange::withdraw() {
  receive_->withdraw();
  send_->withdraw();
}

bool Exchange::lingers() {
  try {
    return active() && !done();
  } catch (const std::exception&) {
    return false;
  }
}

void Exchange::stop_lingering() {
  leave_to_the_mpi();
  receive_->stop_lingering();
  send_->stop_lingering();
}

std::vector<InfoEntry> Exchange::info() const {
  return {{"partita_kind", kind()}, {"partita_active", active() ? "true" : "false"}};
}

}  // namespace partita
