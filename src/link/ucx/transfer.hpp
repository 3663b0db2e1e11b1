// What a worker moves: a transport partition and its flag, or a word alone.
#pragma once

#include <ucp/api/ucp.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "core/epoch.hpp"

namespace partita::link::ucx {

class Peer;

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

/// Instead of a transport partition in a message from receiver to sender: the bytes are the key that all puts from this
/// epoch on, which is now open, need.
inline constexpr std::int32_t new_data_key = -1;

/// Travels in front of the bytes of an eager message.
struct EagerHeader {
  std::uint64_t sink = 0;  ///< who takes it at the other side
  std::int32_t transport_partition = 0;
  Epoch epoch = no_epoch;
};

/// One transfer; its owner keeps it in place until tally->outstanding is zero. `size_bytes` bytes are put and,
/// when they lie at the target, `epoch` is put into the flag; or all goes in one eager message.
struct Transfer {
  Transfer* next = nullptr;  ///< in the one list that holds it
  Peer* peer = nullptr;
  Tally* tally = nullptr;
  const std::byte* source = nullptr;
  ucp_mem_h source_handle = nullptr;  ///< of the source's registration where that is GPU memory; else null
  std::size_t size_bytes = 0;
  Target data;
  Target flag;
  Epoch epoch = no_epoch;  ///< the flag's new value
  bool eager = false;
  EagerHeader header;
};

/// A list through Transfer::next, first in, first out. Not thread-safe.
class TransferList {
 public:
  bool empty() const { return first_ == nullptr; }

  void push(Transfer& transfer) {
    transfer.next = nullptr;
    (first_ == nullptr ? first_ : last_->next) = &transfer;
    last_ = &transfer;
  }
  Transfer* pop() {
    Transfer* const transfer = first_;
    if (transfer != nullptr) first_ = std::exchange(transfer->next, nullptr);
    return transfer;
  }
  void append(TransferList& other) {
    if (other.empty()) return;
    (first_ == nullptr ? first_ : last_->next) = other.first_;
    last_ = std::exchange(other.last_, nullptr);
    other.first_ = nullptr;
  }

 private:
  Transfer* first_ = nullptr;
  Transfer* last_ = nullptr;
};

/// Where threads leave transfers for whoever holds the worker. Any thread pushes; lock-free.
class TransferInbox {
 public:
  bool empty() const { return newest_.load(std::memory_order_seq_cst) == nullptr; }

  void push(Transfer& transfer) {
    Transfer* seen = newest_.load(std::memory_order_relaxed);
    do {
      transfer.next = seen;
    } while (!newest_.compare_exchange_weak(seen, &transfer, std::memory_order_seq_cst, std::memory_order_relaxed));
  }

  /// All that was pushed, oldest first.
  TransferList take() {
    Transfer* newest = newest_.exchange(nullptr, std::memory_order_seq_cst);
    Transfer* oldest_first = nullptr;
    while (newest != nullptr) {
      Transfer* const older = newest->next;
      newest->next = oldest_first;
      oldest_first = newest;
      newest = older;
    }
    TransferList list;
    while (oldest_first != nullptr) {
      Transfer* const newer = oldest_first->next;
      list.push(*oldest_first);
      oldest_first = newer;
    }
    return list;
  }

 private:
  std::atomic<Transfer*> newest_{nullptr};
};

}  // namespace partita::link::ucx
