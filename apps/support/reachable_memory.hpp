// Memory that the other ranks of the node can reach.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <new>

namespace partita::apps {

/// As MPI_Alloc_mem gives it, until this goes. Throws std::bad_alloc where the MPI gives none.
class ReachableMemory {
 public:
  explicit ReachableMemory(std::size_t bytes) {
    MPI_Alloc_mem(static_cast<MPI_Aint>(bytes), MPI_INFO_NULL, &memory_);
    if (memory_ == nullptr) throw std::bad_alloc();
  }
  ~ReachableMemory() { MPI_Free_mem(memory_); }
  ReachableMemory(const ReachableMemory&) = delete;
  ReachableMemory& operator=(const ReachableMemory&) = delete;

  void* get() const { return memory_; }

 private:
  void* memory_ = nullptr;
};

}  // namespace partita::apps
