// Constructors of communicators that threads of this process have under way in the MPI.
#pragma once

#include <condition_variable>
#include <mutex>

namespace partita {

/// MPIs hold up one constructor while another is under way in the same process: where one process makes two of them at
/// once, and another one behind the other, they may wait for each other. The program knows nothing of Partita's. So
/// Partita's makes way: it is not begun while one of the program's is under way, and one of the program's begins behind
/// it. Any thread. docs/design/gpu-aware.md, "Nonblocking calls".
class Constructors {
 public:
  /// The program begins one. Blocks while one of Partita's is under way.
  void begin() {
    std::unique_lock lock(mutex_);
    own_have_ended_.wait(lock, [this] { return own_ == 0; });
    ++programs_;
  }
  void end() {
    const std::lock_guard lock(mutex_);
    --programs_;
  }

  /// Partita begins one, and ends it whatever becomes of it; or false: one of the program's is under way.
  bool begin_own() {
    const std::lock_guard lock(mutex_);
    if (programs_ > 0) return false;
    ++own_;
    return true;
  }
  void end_own() {
    const std::lock_guard lock(mutex_);
    if (--own_ == 0) own_have_ended_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable own_have_ended_;
  int programs_ = 0;
  int own_ = 0;
};

}  // namespace partita
