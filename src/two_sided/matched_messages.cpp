#include "two_sided/matched_messages.hpp"

#include <cstring>

namespace partita {

MatchedMessages::Key MatchedMessages::key_of(MPI_Message handle) {
  Key key = 0;
  static_assert(sizeof handle <= sizeof key);
  std::memcpy(&key, &handle, sizeof handle);
  return key;
}

void MatchedMessages::note(const MPI_Message& handle, const std::shared_ptr<Communicator>& communicator) {
  const bool is_to_know =
      communicator != nullptr && communicator->stream.load(std::memory_order_relaxed) != CallStream::of_job;
  const std::lock_guard lock(mutex_);
  if (is_to_know) {
    known_[key_of(handle)] = communicator;
  } else {
    known_.erase(key_of(handle));
  }
}

std::shared_ptr<Communicator> MatchedMessages::take(const MPI_Message* handle) {
  if (handle == nullptr || !on()) return {};
  const std::lock_guard lock(mutex_);
  const auto found = known_.extract(key_of(*handle));
  return found.empty() ? nullptr : found.mapped().lock();
}

}  // namespace partita
