#include "two_sided/probed_messages.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/mpi_check.hpp"
#include "two_sided/offer_promises.hpp"

namespace partita {
namespace {

bool is_as_long_as_an_offer(const MPI_Status& status) {
  MPI_Count size_bytes = 0;
  return native::Get_elements_x(&status, MPI_BYTE, &size_bytes) == MPI_SUCCESS &&
         size_bytes == static_cast<MPI_Count>(OfferRecord::bytes);
}

void tell(const MPI_Status& from, MPI_Status* status) {
  if (status == MPI_STATUS_IGNORE) return;
  const int error = status->MPI_ERROR;
  *status = from;
  status->MPI_ERROR = error;
}

}  // namespace

ProbedMessages::~ProbedMessages() {
  if (self_ != MPI_COMM_NULL) native::Comm_free(&self_);
}

void ProbedMessages::open() {
  if (self_ == MPI_COMM_NULL) PARTITA_MPI(Comm_dup(MPI_COMM_SELF, &self_));
}

ProbedMessages::Key ProbedMessages::key_of(MPI_Message handle) {
  Key key = 0;
  static_assert(sizeof handle <= sizeof key);
  std::memcpy(&key, &handle, sizeof handle);
  return key;
}

ProbedMessages::Kept::iterator ProbedMessages::find(int source, int tag, MPI_Comm comm) {
  return std::ranges::find_if(kept_, [=](const Message& message) {
    // The program may have freed it, and the MPI given its handle to another one.
    return message.comm == comm && message.communicator->alive &&
           (source == MPI_ANY_SOURCE || source == message.status.MPI_SOURCE) &&
           (tag == MPI_ANY_TAG || tag == message.status.MPI_TAG);
  });
}

int ProbedMessages::probe(int source, int tag, MPI_Comm comm, int* found, MPI_Status* status, const Find& find_comm) {
  const auto locked = lock();
  auto kept = find(source, tag, comm);
  if (kept == kept_.end()) {
    MPI_Status seen{};
    const int code = native::Iprobe(source, tag, comm, found, &seen);
    if (code != MPI_SUCCESS || *found == 0) return code;
    auto communicator = is_as_long_as_an_offer(seen) ? find_comm() : nullptr;
    if (communicator == nullptr || !takes_offers_on(comm)) {
      tell(seen, status);
      return MPI_SUCCESS;
    }
    if (const int taken = keep_up_to(seen, comm, communicator); taken != MPI_SUCCESS) return taken;
    kept = find(source, tag, comm);
  }
  *found = kept == kept_.end() ? 0 : 1;
  if (*found != 0) tell(kept->status, status);
  return MPI_SUCCESS;
}

/// Takes all that came from that rank up to the first with that tag.
int ProbedMessages::keep_up_to(const MPI_Status& last, MPI_Comm comm,
                               const std::shared_ptr<Communicator>& communicator) {
  // What the program has left on communicators that it has freed nobody can receive.
  std::erase_if(kept_, [](const Message& message) { return message.content && !message.communicator->alive; });
  for (bool is_last = false; !is_last;) {
    Message taken{comm};
    taken.communicator = communicator;
    int found = 0;
    int code = native::Improbe(last.MPI_SOURCE, MPI_ANY_TAG, comm, &found, &taken.handle, &taken.status);
    if (code != MPI_SUCCESS || found == 0) return code;
    is_last = taken.status.MPI_TAG == last.MPI_TAG;
    kept_.push_back(std::move(taken));
    if (is_as_long_as_an_offer(kept_.back().status)) code = receive(kept_.back());
    if (code != MPI_SUCCESS) return code;
  }
  return MPI_SUCCESS;
}

/// Its content, and where that is an offer the length of what is offered.
int ProbedMessages::receive(Message& message) {
  OfferRecord::Bytes content{};
  const int code =
      native::Mrecv(content.data(), static_cast<int>(content.size()), MPI_PACKED, &message.handle, MPI_STATUS_IGNORE);
  if (code != MPI_SUCCESS) return code;
  message.content = content;
  if (!OfferRecord::is_one(content, mark_)) return MPI_SUCCESS;
  return native::Status_set_elements_x(&message.status, MPI_BYTE, OfferRecord::read(content).size_bytes);
}

int ProbedMessages::match(int source, int tag, MPI_Comm comm, int* found, MPI_Message* message, MPI_Status* status,
                          const Find& find_comm) {
  const auto locked = lock();
  Message matched{comm};
  if (const auto kept = find(source, tag, comm); kept != kept_.end()) {
    *found = 1;
    matched = std::move(*kept);
    kept_.erase(kept);
  } else {
    int code = native::Improbe(source, tag, comm, found, &matched.handle, &matched.status);
    if (code != MPI_SUCCESS || *found == 0) return code;
    if (is_as_long_as_an_offer(matched.status)) matched.communicator = find_comm();
    if (matched.communicator != nullptr && takes_offers_on(comm)) code = receive(matched);
    if (code != MPI_SUCCESS) return code;
  }
  tell(matched.status, status);
  return hand_out(std::move(matched), message);
}

/// An empty message to this rank itself has a handle as genuine as any.
int ProbedMessages::hand_out(Message message, MPI_Message* handle) {
  if (!message.content) {
    *handle = message.handle;
    return MPI_SUCCESS;
  }
  MPI_Request sent = MPI_REQUEST_NULL;
  MPI_Message made = MPI_MESSAGE_NULL;
  if (const int code = native::Isend(nullptr, 0, MPI_BYTE, 0, 0, self_, &sent); code != MPI_SUCCESS) return code;
  for (int found = 0; found == 0;) {
    const int code = native::Improbe(0, 0, self_, &found, &made, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS) return code;
  }
  handed_out_.insert_or_assign(key_of(made), std::move(message));
  handed_out_count_.store(handed_out_.size(), std::memory_order_relaxed);
  *handle = made;
  return native::Request_free(&sent);
}

std::optional<ProbedMessages::Message> ProbedMessages::take(int source, int tag, MPI_Comm comm) {
  const auto found = find(source, tag, comm);
  if (found == kept_.end()) return {};
  Message message = std::move(*found);
  kept_.erase(found);
  return message;
}

std::optional<ProbedMessages::Message> ProbedMessages::take(const MPI_Message* handle) {
  if (handle == nullptr || handed_out_count_.load(std::memory_order_relaxed) == 0) return {};
  const auto locked = lock();
  const auto found = handed_out_.find(key_of(*handle));
  if (found == handed_out_.end()) return {};
  Message message = std::move(found->second);
  handed_out_.erase(found);
  handed_out_count_.store(handed_out_.size(), std::memory_order_relaxed);
  MPI_Message empty = *handle;
  PARTITA_MPI(Mrecv(nullptr, 0, MPI_BYTE, &empty, MPI_STATUS_IGNORE));
  return message;
}

std::shared_ptr<Communicator> ProbedMessages::communicator_of(const MPI_Message* handle) {
  if (handle == nullptr || handed_out_count_.load(std::memory_order_relaxed) == 0) return {};
  const auto locked = lock();
  const auto found = handed_out_.find(key_of(*handle));
  return found == handed_out_.end() ? nullptr : found->second.communicator;
}

}  // namespace partita
