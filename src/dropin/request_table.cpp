#include "dropin/request_table.hpp"

#include <sched.h>

#include <bit>
#include <memory>
#include <utility>

namespace partita::dropin {
namespace {

constexpr std::size_t first_capacity = 64;

}  // namespace

/// An array that readers may still be reading is never freed: `older` keeps it. All older ones together are smaller
/// than this one.
struct RequestTable::Slots {
  Slots(std::size_t slot_count, Slots* older_slots)
      : shift(64 - std::countr_zero(slot_count)),
        mask(slot_count - 1),
        slot(std::make_unique<Slot[]>(slot_count)),
        older(older_slots) {}

  std::size_t home(Key key) const { return (std::uint64_t{key} * 0x9E3779B97F4A7C15U) >> shift; }
  std::size_t after(std::size_t index) const { return (index + 1) & mask; }

  int shift;
  std::size_t mask;
  std::unique_ptr<Slot[]> slot;
  Slots* older;
};

RequestTable::~RequestTable() {
  for (Slots* slots = slots_.load(std::memory_order_relaxed); slots != nullptr;) {
    delete std::exchange(slots, slots->older);
  }
}

std::size_t RequestTable::position(const Slots& slots, Key key) {
  std::size_t index = slots.home(key);
  while (true) {
    const Key here = slots.slot[index].key.load(std::memory_order_acquire);
    if (here == key || here == 0) return index;
    index = slots.after(index);
  }
}

Partita_Request RequestTable::probe(const Slots& slots, Key key) {
  for (std::size_t index = slots.home(key);; index = slots.after(index)) {
    const Key here = slots.slot[index].key.load(std::memory_order_acquire);
    if (here == 0) return PARTITA_REQUEST_NULL;
    // Acquire, so that find() looks at the version after this load.
    if (here == key) return slots.slot[index].request.load(std::memory_order_acquire);
  }
}

Partita_Request RequestTable::find(Key key) const {
  while (true) {
    const std::uint64_t before = version_.load(std::memory_order_acquire);
    if (before % 2 == 0) {
      const Slots* slots = slots_.load(std::memory_order_acquire);
      const Partita_Request found = slots == nullptr ? PARTITA_REQUEST_NULL : probe(*slots, key);
      if (version_.load(std::memory_order_relaxed) == before) return found;
    }
    sched_yield();
  }
}

void RequestTable::place(Slots& slots, Key key, Partita_Request request) {
  Slot& slot = slots.slot[position(slots, key)];
  slot.request.store(request, std::memory_order_release);
  slot.key.store(key, std::memory_order_release);  // pairs with the load in position()
}

void RequestTable::insert(Key key, Partita_Request request) {
  const std::lock_guard lock(writers_);
  const std::size_t size = size_.load(std::memory_order_relaxed);
  const Slots* before = slots_.load(std::memory_order_relaxed);
  const bool is_new =
      before == nullptr || before->slot[position(*before, key)].key.load(std::memory_order_relaxed) == 0;
  if (is_new && (size + 1) * 2 > capacity()) grow();
  place(*slots_.load(std::memory_order_relaxed), key, request);
  if (is_new) size_.store(size + 1, std::memory_order_relaxed);
}

void RequestTable::grow() {
  Slots* old = slots_.load(std::memory_order_relaxed);
  auto grown = std::make_unique<Slots>(old == nullptr ? first_capacity : 2 * capacity(), old);
  for (std::size_t i = 0; old != nullptr && i <= old->mask; ++i) {
    const Key key = old->slot[i].key.load(std::memory_order_relaxed);
    if (key != 0) place(*grown, key, old->slot[i].request.load(std::memory_order_relaxed));
  }
  slots_.store(grown.release(), std::memory_order_release);
}

void RequestTable::erase(Key key) {
  const std::lock_guard lock(writers_);
  Slots* slots = slots_.load(std::memory_order_relaxed);
  if (slots == nullptr) return;
  std::size_t hole = position(*slots, key);
  if (slots->slot[hole].key.load(std::memory_order_relaxed) == 0) return;

  // The slot stores below are releases: a reader that sees one of them sees the odd version too, and reads again.
  const std::uint64_t version = version_.load(std::memory_order_relaxed);
  version_.store(version + 1, std::memory_order_relaxed);
  for (std::size_t next = slots->after(hole);; next = slots->after(next)) {
    const Key moving = slots->slot[next].key.load(std::memory_order_relaxed);
    if (moving == 0) break;
    const std::size_t from_home = (next - slots->home(moving)) & slots->mask;
    const std::size_t from_hole = (next - hole) & slots->mask;
    if (from_home < from_hole) continue;  // it would be moved before its home
    slots->slot[hole].request.store(slots->slot[next].request.load(std::memory_order_relaxed),
                                    std::memory_order_release);
    slots->slot[hole].key.store(moving, std::memory_order_release);
    hole = next;
  }
  slots->slot[hole].key.store(0, std::memory_order_release);
  version_.store(version + 2, std::memory_order_release);
  size_.store(size_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
}

RequestTable::Key RequestTable::any() const {
  const Slots* slots = slots_.load(std::memory_order_acquire);
  for (std::size_t i = 0; slots != nullptr && i <= slots->mask; ++i) {
    if (const Key key = slots->slot[i].key.load(std::memory_order_acquire); key != 0) return key;
  }
  return 0;
}

std::size_t RequestTable::capacity() const {
  const Slots* slots = slots_.load(std::memory_order_acquire);
  return slots == nullptr ? 0 : slots->mask + 1;
}

}  // namespace partita::dropin
