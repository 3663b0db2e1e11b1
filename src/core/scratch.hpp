// Short-lived arrays for calls that must not allocate.
#pragma once

#include <algorithm>
#include <cstddef>
#include <new>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace partita {

/// Arrays that live as long as one call: on the stack while they are small together, else in a block that the thread
/// keeps for its next large call. Calls may nest (an error handler that calls MPI); an inner large one has a block of
/// its own.
class Scratch {
 public:
  explicit Scratch(std::size_t size_bytes) : large_(size_bytes > sizeof small_) {
    if (!large_) return;
    block_ = std::exchange(kept_, {});
    if (block_.size() < size_bytes) block_.resize(std::max(size_bytes, 2 * block_.size()));
  }
  ~Scratch() {
    if (large_ && block_.size() > kept_.size()) kept_ = std::move(block_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  /// What take<T>(count) uses up at most.
  template <class T>
  static constexpr std::size_t need(std::size_t count) {
    return count * sizeof(T) + alignof(T);
  }

  /// An array of `count` zeroed elements.
  template <class T>
    requires std::is_trivially_copyable_v<T>
  T* take(std::size_t count) {
    used_ = (used_ + alignof(T) - 1) / alignof(T) * alignof(T);
    std::byte* place = (large_ ? block_.data() : small_) + used_;
    used_ += count * sizeof(T);
    T* array = std::launder(reinterpret_cast<T*>(place));
    std::uninitialized_value_construct_n(array, count);
    return array;
  }

 private:
  static inline thread_local std::vector<std::byte> kept_;

  alignas(std::max_align_t) std::byte small_[4096];
  bool large_;
  std::size_t used_ = 0;
  std::vector<std::byte> block_;
};

}  // namespace partita
