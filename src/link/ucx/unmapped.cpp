#include "link/ucx/unmapped.hpp"

namespace partita::link::ucx {
namespace {

/// The first tells of host memory, the second of GPUs, where UCX has its hooks into their runtime. One of them may be
/// had without the other.
constexpr ucm_event_type_t watched_events[] = {UCM_EVENT_VM_UNMAPPED, UCM_EVENT_MEM_TYPE_FREE};
constexpr int priority = 1000;  // as UCX's own caches

}  // namespace

Watched::Watched(UnmapWatch& watch, std::span<const std::byte> memory)
    : watch_(watch), begin_(reinterpret_cast<std::uintptr_t>(memory.data())), end_(begin_ + memory.size()) {
  const std::lock_guard lock(watch_.mutex_);
  next_ = watch_.first_;
  if (next_ != nullptr) next_->previous_ = this;
  watch_.first_ = this;
}

Watched::~Watched() {
  const std::lock_guard lock(watch_.mutex_);
  (previous_ == nullptr ? watch_.first_ : previous_->next_) = next_;
  if (next_ != nullptr) next_->previous_ = previous_;
}

UnmapWatch::UnmapWatch() {
  for (const ucm_event_type_t event : watched_events) ucm_set_event_handler(event, priority, &on_event, this);
}

/// Waits for handlers that run.
UnmapWatch::~UnmapWatch() {
  for (const ucm_event_type_t event : watched_events) ucm_unset_event_handler(event, &on_event, this);
}

void UnmapWatch::on_event(ucm_event_type_t type, ucm_event_t* event, void* argument) {
  auto& watch = *static_cast<UnmapWatch*>(argument);
  if (type == UCM_EVENT_VM_UNMAPPED) watch.note_unmapped(event->vm_unmapped.address, event->vm_unmapped.size);
  if (type == UCM_EVENT_MEM_TYPE_FREE) watch.note_unmapped(event->mem_type.address, event->mem_type.size);
}

void UnmapWatch::note_unmapped(const void* address, std::size_t size_bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  const std::lock_guard lock(mutex_);
  for (Watched* watched = first_; watched != nullptr; watched = watched->next_) {
    if (begin < watched->end_ && watched->begin_ < begin + size_bytes) {
      watched->unmapped_.store(true, std::memory_order_release);
    }
  }
}

}  // namespace partita::link::ucx
