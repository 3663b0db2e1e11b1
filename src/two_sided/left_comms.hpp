// Communicators of Partita's whose own communicator the program has freed.
#pragma once

#include <mpi.h>

#include <mutex>
#include <vector>

#include "core/native.hpp"

namespace partita {

/// They are freed later: the program's go within callbacks of the MPI's, where it may hold locks. Any thread.
class LeftComms {
 public:
  LeftComms() = default;
  ~LeftComms() { sweep(); }
  LeftComms(const LeftComms&) = delete;
  LeftComms& operator=(const LeftComms&) = delete;

  void add(MPI_Comm comm) {
    const std::lock_guard lock(mutex_);
    left_.push_back(comm);
  }
  /// Frees them; from within no callback.
  void sweep() {
    const std::lock_guard lock(mutex_);
    for (MPI_Comm& comm : left_) native::Comm_free(&comm);
    left_.clear();
  }

 private:
  std::mutex mutex_;
  std::vector<MPI_Comm> left_;
};

}  // namespace partita
