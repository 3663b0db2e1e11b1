// The request that MPIX_Imatch gives (cpu-free-stream-triggered-mpi, section III-C).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "partitioned/operation.hpp"

namespace partita {

/// `which`, "request 3" for instance, is the request of an Imatch where only a persistent one may stand.
Error not_persistent(const std::string& which);

/// Whether `operation` is matched. Where it never will be, throws Error, and those of its peers that have matched
/// theirs hear why: they may have started.
bool has_matched(Operation& operation);

/// Is complete once all of several operations are matched, which are not freed while it is active. It cannot start
/// again.
class Matching final : public Operation {
 public:
  /// `communicator`: whose error handler hears of errors.
  Matching(std::vector<Operation*> awaited, std::shared_ptr<Communicator> communicator);
  ~Matching() override { let_go(); }

  /// The match of all begins.
  void seek_peers() override;
  bool matched() const override { return !active_; }
  bool persistent() const override { return false; }
  void start() override;
  bool active() const override { return active_; }
  bool open() const override { return active(); }
  bool done() override;
  bool prepared() override;
  void close() override { let_go(); }
  void fill_status(MPI_Status* status) const override { set_status(status, MPI_ANY_SOURCE, MPI_ANY_TAG, 0); }
  void fail(const Error& error) override { failure_ = error; }
  void abandon(const std::optional<Error>&) override { let_go(); }
  void withdraw() override {}
  std::vector<Half*> halves() override { return {}; }
  bool in_gpu_memory() const override { return false; }
  const char* kind() const override { return "matching"; }
  bool has_partitions() const override { return false; }
  std::vector<InfoEntry> info() const override;
  std::string explain() const override;
  int waits_for() const override { return asked_ == nullptr ? -1 : asked_->waits_for(); }

 private:
  void let_go();

  bool active_ = true;
  std::vector<Operation*> awaited_;
  const Operation* asked_ = nullptr;  ///< the one that the last look found unmatched
  std::optional<Error> failure_;
};

}  // namespace partita
