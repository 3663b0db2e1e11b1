// The C++ API: start and end of the runtime. <partita/partita.hpp> includes this.
#ifndef PARTITA_RUNTIME_HPP
#define PARTITA_RUNTIME_HPP

#include <mpi.h>
#include <partita/partita.h>
#include <partita/error.hpp>

#include <utility>

namespace partita {

/// Partita_Init, and Partita_Finalize at its end: make it after MPI_Init and before any request or queue, so that these
/// are gone before. Both are collective, so the end of this blocks until all ranks have come to theirs. An exception
/// that one rank has alone is therefore caught before it leaves this object's block, and the job ended there
/// (MPI_Abort). Where the runtime runs already, by the drop-in or by an outer object, this neither starts nor ends it.
class runtime final {
 public:
  explicit runtime(MPI_Comm world = MPI_COMM_WORLD) : owns_(!is_running()) { check(Partita_Init(world)); }
  runtime(const runtime&) = delete;
  runtime& operator=(const runtime&) = delete;
  /// Only the error handler hears of an error: call finalize() to have it thrown.
  ~runtime() {
    if (owns_ && is_running()) Partita_Finalize();
  }

  /// Ends the runtime now, if this has started it.
  void finalize() {
    if (std::exchange(owns_, false)) check(Partita_Finalize());
  }

 private:
  bool owns_;
};

}  // namespace partita
#endif
