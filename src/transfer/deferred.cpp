#include "transfer/deferred.hpp"

#include "core/progress.hpp"

namespace partita {

void DeferredList::push(Deferring& sender) {
  if (sender.queued_.exchange(true, std::memory_order_acq_rel)) return;
  Deferring* head = head_.load(std::memory_order_relaxed);
  do {
    sender.next_queued_ = head;
  } while (!head_.compare_exchange_weak(head, &sender, std::memory_order_release, std::memory_order_relaxed));
  progress_.want();
}

Deferring* DeferredList::take_all() {
  return head_.exchange(nullptr, std::memory_order_acquire);
}

bool DeferredList::flush() {
  if (head_.load(std::memory_order_relaxed) == nullptr) return false;
  bool moved = false;
  for (Deferring* sender = take_all(); sender != nullptr;) {
    Deferring& current = *sender;
    sender = current.next_queued_;
    // The sender leaves the list before it is looked at: a partition that is deferred meanwhile puts it back. The
    // exchange reads what the last push wrote, so that the partition behind that push is seen below.
    current.queued_.exchange(false, std::memory_order_acq_rel);
    progress_.unwant();
    const bool settled = current.flush_or_fail();
    if (!settled) push(current);
    moved |= settled;
  }
  return moved;
}

void DeferredList::remove(Deferring& sender) {
  const auto lock = progress_.exclusive();
  if (!sender.queued_.load(std::memory_order_acquire)) return;
  for (Deferring* other = take_all(); other != nullptr;) {
    Deferring& current = *other;
    other = current.next_queued_;
    current.queued_.store(false, std::memory_order_release);
    progress_.unwant();
    if (&current != &sender) push(current);
  }
}

}  // namespace partita
