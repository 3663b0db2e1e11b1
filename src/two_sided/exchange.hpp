// A send and a receive behind one request (MPI-4, section 3.10: MPI_Isendrecv).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "partitioned/operation.hpp"

namespace partita {

/// Complete once both are; the status is the receive's.
class Exchange final : public Operation {
 public:
  /// Neither has looked for its peer. `sent`: what the send has in place of the program's buffer; may be null.
  Exchange(std::unique_ptr<Operation> receive, std::unique_ptr<Operation> send, std::unique_ptr<std::byte[]> sent,
           std::shared_ptr<Communicator> communicator);

  void seek_peers() override;
  bool matched() const override { return true; }
  bool persistent() const override { return false; }
  bool goes_on_when_freed() const override { return true; }
  void start() override;
  bool active() const override { return receive_->active() || send_->active(); }
  bool open() const override { return active(); }
  bool done() override;
  void leave_asking_to(AskedTogether& together) override;
  const AskedTogether* asked_in() const override;
  bool prepared() override;
  void close() override;
  void fill_status(MPI_Status* status) const override { receive_->fill_status(status); }
  /// MPI forbids it.
  void cancel() override {}
  void fail(const Error& error) override;
  void abandon(const std::optional<Error>& cause) override;
  void withdraw() override;
  std::vector<Half*> halves() override { return {}; }
  bool lingers() override;
  void stop_lingering() override;
  bool in_gpu_memory() const override { return false; }
  const char* kind() const override { return "sendrecv"; }
  bool has_partitions() const override { return false; }
  std::vector<InfoEntry> info() const override;
  std::string explain() const override { return awaited().explain(); }
  int waits_for() const override { return awaited().waits_for(); }

 private:
  void leave_to_the_mpi() noexcept;
  const Operation& awaited() const { return is_received_ ? *send_ : *receive_; }

  std::unique_ptr<std::byte[]> sent_;
  std::unique_ptr<Operation> receive_;
  std::unique_ptr<Operation> send_;
  bool is_received_ = false;
  bool is_sent_ = false;
};

}  // namespace partita
