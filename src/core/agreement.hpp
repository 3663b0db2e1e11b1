// Work at the start that every rank does by itself and all must have done: what fails on one rank fails on all of them,
// so that none is left waiting in the next collective call.
#pragma once

#include <mpi.h>

#include <optional>

#include "core/current_error.hpp"

namespace partita {

/// One rank's failure, thrown on every rank with the same class and sentence.
class SharedError : public Error {
 public:
  SharedError(const Error& error, bool told_here) : Error(error), told_here_(told_here) {}

  /// Whether this is the rank that prints the sentence where nobody can ask for it afterwards. True on one rank.
  bool told_here() const { return told_here_; }

 private:
  bool told_here_;
};

/// Collective over `comm`. Throws SharedError on all ranks if one has a `failure`: that of the lowest such rank, with
/// "rank 3" in front, whose sentence therefore begins with a space or an apostrophe.
void fail_together(MPI_Comm comm, const std::optional<Error>& failure);

/// Collective over `comm`: runs `work` on each rank and throws SharedError on all where it throws on one. `what`
/// completes the sentence "rank 3 could not …".
template <class Work>
void do_together(MPI_Comm comm, const char* what, Work work) {
  std::optional<Error> failure;
  try {
    work();
  } catch (...) {
    const Error error = current_error();
    failure = Error(error.error_class(), " could not {}: {}", what, error.sentence());
  }
  fail_together(comm, failure);
}

}  // namespace partita
