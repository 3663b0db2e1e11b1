#include "core/first_meeting.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <system_error>
#include <thread>

#include "core/launch.hpp"
#include "core/log.hpp"
#include "core/mpi_check.hpp"
#include "core/roll_call.hpp"

namespace partita {
namespace {

using Seconds = std::chrono::duration<double>;

/// Whether the launcher tells that it has started more than one program.
bool several_programs_are_known() {
  if (several_programs_of_open_mpi()) return true;
  int* number = nullptr;
  int found = 0;
  return native::Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &number, &found) == MPI_SUCCESS && found != 0 && *number > 0;
}

/// A thread that speaks when this rank has waited for too long in a call of the MPI that cannot be polled. It calls
/// nothing of the MPI's.
class Watchman {
 public:
  Watchman(Seconds patience, Seconds limit) {
    try {
      thread_ = std::thread([this, patience, limit] { watch(patience, limit); });
    } catch (const std::system_error&) {
      // Without a thread the wait is as long, and silent.
    }
  }
  ~Watchman() {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }
  Watchman(const Watchman&) = delete;
  Watchman& operator=(const Watchman&) = delete;

 private:
  /// `limit` is no less than `patience`, or 0.
  void watch(Seconds patience, Seconds limit) {
    std::unique_lock lock(mutex_);
    const auto is_done = [this] { return done_; };
    if (changed_.wait_for(lock, patience, is_done)) return;
    log("Partita starts and has waited {:g} s for other ranks of its communicator. Does every program of this job "
        "link or preload libpartita_mpi, or call Partita_Init? Where one shall use Partita and another not, the one "
        "calls Partita_Init with a communicator of its own ranks",
        patience.count());
    const bool limited = limit.count() > 0;
    if (!limited) changed_.wait(lock, is_done);
    if (!limited || changed_.wait_for(lock, limit - patience, is_done)) return;
    log("Partita starts and has waited for other ranks longer than {:g} s (PARTITA_TIMEOUT): this process ends",
        limit.count());
    constexpr std::chrono::milliseconds for_the_launcher(100);  // which ends a job without reading all
    if (changed_.wait_for(lock, for_the_launcher, is_done)) return;
    std::_Exit(EXIT_FAILURE);  // The MPI is busy in another thread; its launcher ends the other ranks.
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace

MPI_Comm private_duplicate_of(MPI_Comm comm, double timeout_s) {
  constexpr int tag = 20564;  // of any value: only a rank that starts Partita makes a communicator of this group now
  MPI_Group group = MPI_GROUP_NULL;
  MPI_Comm duplicate = MPI_COMM_NULL;
  PARTITA_MPI(Comm_group(comm, &group));
  {
    const Seconds patience(several_programs_are_known() ? 2 : 10);
    // The ranks of a job leave MPI_Init far apart: a limit for waits is none for that.
    const Seconds limit = timeout_s > 0 ? std::max(patience, Seconds(timeout_s)) : Seconds(0);
    const Watchman watchman(patience, limit);
    const RollCall everybody(comm);
    PARTITA_MPI(Comm_create_group(comm, group, tag, &duplicate));
  }
  native::Group_free(&group);
  PARTITA_MPI(Comm_set_errhandler(duplicate, MPI_ERRORS_RETURN));
  return duplicate;
}

}  // namespace partita
