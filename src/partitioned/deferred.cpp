#include "partitioned/deferred.hpp"

#include "core/current_error.hpp"
#include "core/progress.hpp"
#include "partitioned/send.hpp"

namespace partita {

void DeferredList::push(SendRequest& request) {
  if (request.queued.exchange(true, std::memory_order_acq_rel)) return;
  SendRequest* head = head_.load(std::memory_order_relaxed);
  do {
    request.next_queued = head;
  } while (!head_.compare_exchange_weak(head, &request, std::memory_order_release, std::memory_order_relaxed));
  progress_.want();
}

SendRequest* DeferredList::take_all() {
  return head_.exchange(nullptr, std::memory_order_acquire);
}

bool DeferredList::flush() {
  if (head_.load(std::memory_order_relaxed) == nullptr) return false;
  bool moved = false;
  for (SendRequest* request = take_all(); request != nullptr;) {
    SendRequest& current = *request;
    request = current.next_queued;
    // Out of the list before it is looked at: a partition that is deferred meanwhile puts it back.
    // Reads what the last push wrote, so that the partition behind that push is seen below.
    current.queued.exchange(false, std::memory_order_acq_rel);
    progress_.unwant();
    bool settled = true;
    try {
      settled = current.flush();
    } catch (const std::exception&) {
      current.fail_on_both_sides("could not send", current_error());
    }
    if (!settled) push(current);
    moved |= settled;
  }
  return moved;
}

void DeferredList::remove(SendRequest& request) {
  const auto lock = progress_.exclusive();
  if (!request.queued.load(std::memory_order_acquire)) return;
  for (SendRequest* other = take_all(); other != nullptr;) {
    SendRequest& current = *other;
    other = current.next_queued;
    current.queued.store(false, std::memory_order_release);
    progress_.unwant();
    if (&current != &request) push(current);
  }
}

}  // namespace partita
