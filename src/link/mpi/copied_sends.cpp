#include "link/mpi/copied_sends.hpp"

#include <algorithm>
#include <iterator>

#include "core/mpi_check.hpp"

namespace partita::link::mpi {

/// What the MPI has not taken by now belongs to epochs that nobody completes. It may still read the copies: better lost
/// than freed.
CopiedSends::~CopiedSends() {
  see_off();
  if (under_way_.empty()) return;
  for (Copy& copy : under_way_) native::Request_free(&copy.request);
  // NOLINTNEXTLINE(bugprone-unhandled-exception-at-new): without memory for an empty list the process may end here
  static Copies& lost = *new Copies;
  lost.splice(lost.end(), under_way_);
  context_.world.leave_communicators();
}

void CopiedSends::send(int peer, int tag, std::span<const std::byte> head, std::span<const std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  if (!under_way_.empty()) see_off();
  if (free_.empty()) free_.emplace_back();
  const auto copy = free_.begin();
  copy->bytes.assign(head.begin(), head.end());
  copy->bytes.insert(copy->bytes.end(), bytes.begin(), bytes.end());
  PARTITA_MPI(Isend(copy->bytes.data(), static_cast<int>(copy->bytes.size()), MPI_BYTE, peer, tag,
                    context_.world.data(), &copy->request));
  under_way_.splice(under_way_.end(), free_, copy);
  if (free_if_sent(copy) || waiting_.exchange(true, std::memory_order_relaxed)) return;
  context_.progress.want();
}

bool CopiedSends::progress() {
  if (!waiting_.load(std::memory_order_relaxed)) return false;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  return lock.owns_lock() && see_off();
}

bool CopiedSends::free_if_sent(Copies::iterator copy) {
  int done = 0;
  if (native::Test(&copy->request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done == 0) return false;
  free_.splice(free_.begin(), under_way_, copy);
  return true;
}

/// Looks at a few of them, in turn: one that is never taken holds up no other.
bool CopiedSends::see_off() {
  constexpr int at_once = 8;
  bool moved = false;
  for (auto looks = std::min<std::size_t>(at_once, under_way_.size()); looks > 0; --looks) {
    if (free_if_sent(under_way_.begin())) {
      moved = true;
    } else {
      under_way_.splice(under_way_.end(), under_way_, under_way_.begin());
    }
  }
  if (under_way_.empty() && waiting_.exchange(false, std::memory_order_relaxed)) context_.progress.unwant();
  return moved;
}

}  // namespace partita::link::mpi
