// The parts of a transfer, and the lists in which transfers wait.
#pragma once

#include <ucp/api/ucp.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "core/epoch.hpp"

namespace partita::link::ucx {

/// What the owner of some transfers asks about them.
struct Tally {
  std::atomic<std::int32_t> outstanding{0};  ///< released by the thread that sees a transfer end
  std::atomic<bool> lost{false};             ///< one of them failed
};

/// Remote memory that may be written.
struct Target {
  std::uint64_t address = 0;
  ucp_rkey_h key = nullptr;
};

/// Instead of a run's begin in a message from receiver to sender: the bytes are the key that all puts from this epoch
/// on, which is now open, need.
inline constexpr std::int32_t new_data_key = -1;

/// Travels in front of the bytes of an eager message.
struct EagerHeader {
  std::uint64_t sink = 0;  ///< who takes it at the other side
  std::int32_t begin = 0;  ///< the run of transport partitions
  std::int32_t end = 0;
  Epoch epoch = no_epoch;
};

/// A list through Item::next, first in, first out. Not thread-safe.
template <class Item>
class List {
 public:
  bool empty() const { return first_ == nullptr; }

  void push(Item& item) {
    item.next = nullptr;
    (first_ == nullptr ? first_ : last_->next) = &item;
    last_ = &item;
  }
  Item* pop() {
    Item* const item = first_;
    if (item != nullptr) first_ = std::exchange(item->next, nullptr);
    return item;
  }
  void append(List& other) {
    if (other.empty()) return;
    (first_ == nullptr ? first_ : last_->next) = other.first_;
    last_ = std::exchange(other.last_, nullptr);
    other.first_ = nullptr;
  }

 private:
  Item* first_ = nullptr;
  Item* last_ = nullptr;
};

/// Where threads leave items for whoever takes them. Any thread pushes; lock-free.
template <class Item>
class Inbox {
 public:
  bool empty() const { return newest_.load(std::memory_order_seq_cst) == nullptr; }

  void push(Item& item) {
    Item* seen = newest_.load(std::memory_order_relaxed);
    do {
      item.next = seen;
    } while (!newest_.compare_exchange_weak(seen, &item, std::memory_order_seq_cst, std::memory_order_relaxed));
  }

  /// All that was pushed, oldest first.
  List<Item> take() {
    Item* newest = newest_.exchange(nullptr, std::memory_order_seq_cst);
    Item* oldest_first = nullptr;
    while (newest != nullptr) {
      Item* const older = newest->next;
      newest->next = oldest_first;
      oldest_first = newest;
      newest = older;
    }
    List<Item> list;
    while (oldest_first != nullptr) {
      Item* const newer = oldest_first->next;
      list.push(*oldest_first);
      oldest_first = newer;
    }
    return list;
  }

 private:
  std::atomic<Item*> newest_{nullptr};
};

}  // namespace partita::link::ucx
