// Which MPI_Request values stand for Partita requests.
#pragma once

#include <partita/partita.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace partita::dropin {

/// Handle value → request, an open-addressing table with linear probing. Any thread may call anything at any time.
/// `find` takes no lock and writes nothing; `insert` and `erase` take a mutex. Memory grows with the largest number of
/// entries alive at one time, never with the number of entries made.
class RequestTable {
 public:
  /// The bits of an MPI_Request; 0 stands for no handle in any MPI.
  using Key = std::uintptr_t;

  constexpr RequestTable() = default;
  ~RequestTable();
  RequestTable(const RequestTable&) = delete;
  RequestTable& operator=(const RequestTable&) = delete;

  /// Whether there is no entry at all: the one check that a foreign request costs. An entry made by another thread is
  /// seen by whoever learned of its handle from that thread.
  bool empty() const { return size_.load(std::memory_order_relaxed) == 0; }

  /// The request behind `key`, or PARTITA_REQUEST_NULL.
  Partita_Request find(Key key) const;

  /// Adds an entry; throws std::bad_alloc. An entry of the same key is replaced, which needs no memory.
  void insert(Key key, Partita_Request request);
  /// Removes an entry if there is one.
  void erase(Key key);

  /// The key of some entry, or 0 where there is none.
  Key any() const;
  std::size_t capacity() const;

 private:
  struct Slot {
    std::atomic<Key> key{0};
    std::atomic<Partita_Request> request{PARTITA_REQUEST_NULL};
  };
  struct Slots;

  static std::size_t position(const Slots& slots, Key key);
  static Partita_Request probe(const Slots& slots, Key key);
  static void place(Slots& slots, Key key, Partita_Request request);
  void grow();

  std::atomic<std::size_t> size_{0};
  std::atomic<Slots*> slots_{nullptr};
  std::atomic<std::uint64_t> version_{0};  ///< odd while an erase moves entries
  mutable std::mutex writers_;
};

}  // namespace partita::dropin
