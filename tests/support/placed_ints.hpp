// Integers for tests of messages, in host memory or in this rank's GPU.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

#include "support/gpu_memory.hpp"
#include "support/job.hpp"

namespace partita::test {

using Ints = std::vector<int>;

/// `from`, `from` + 1, …: `count` of them.
inline Ints counting(int count, int from) {
  Ints values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), from);
  return values;
}

/// The neighbours in a ring of all ranks.
inline int right() {
  return (rank() + 1) % ranks();
}
inline int left() {
  return (rank() + ranks() - 1) % ranks();
}

enum class Memory { host, gpu };

/// A buffer of integers, which stays where it is. get() gives what lies there now.
class PlacedInts {
 public:
  PlacedInts(Memory memory, const Ints& values) : on_host_(values) {
    if (memory == Memory::host) return;
    on_gpu_ = reinterpret_cast<int*>(gpu_allocate(bytes()));
    set(values);
  }
  ~PlacedInts() { gpu_free(on_gpu_); }
  PlacedInts(const PlacedInts&) = delete;
  PlacedInts& operator=(const PlacedInts&) = delete;

  int* data() { return on_gpu_ == nullptr ? on_host_.data() : on_gpu_; }
  /// As many as there are.
  void set(const Ints& values) {
    std::ranges::copy(values, on_host_.begin());
    if (on_gpu_ != nullptr) gpu_copy(on_gpu_, values.data(), bytes());
  }
  Ints get() {
    if (on_gpu_ != nullptr) gpu_copy(on_host_.data(), on_gpu_, bytes());
    return on_host_;
  }

 private:
  std::size_t bytes() const { return on_host_.size() * sizeof(int); }

  Ints on_host_;
  int* on_gpu_ = nullptr;
};

/// An operation of the program's: the larger of two ints.
inline void keep_larger(void* in, void* in_and_out, int* count, MPI_Datatype*) {
  for (int i = 0; i < *count; ++i) {
    auto& kept = static_cast<int*>(in_and_out)[i];
    kept = std::max(kept, static_cast<int*>(in)[i]);
  }
}

}  // namespace partita::test
