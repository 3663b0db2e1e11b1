// Ordinary messages that are sent or received again and again (MPI-4, section 3.9), once the program has them matched.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "partitioned/operation.hpp"
#include "partitioned/request.hpp"

namespace partita {

/// When a send is complete (MPI-4, section 3.4).
enum class SendMode : std::uint8_t {
  standard,     ///< its buffer may be written again
  ready,        ///< likewise; the program has started the receive before
  synchronous,  ///< and the receive was started
};

/// A message of one partition in the matching space of queues, which is marked when it starts. It begins to look for
/// its peer when the program wants the match, and only then has a place in the order; it starts once it is matched.
class PersistentRequest final : public Operation {
 public:
  static std::unique_ptr<PersistentRequest> send(const RequestServices& services, RequestArguments arguments,
                                                 SendMode mode);
  static std::unique_ptr<PersistentRequest> receive(const RequestServices& services, RequestArguments arguments);

  void seek_peers() override {}
  void begin_match() override;
  bool matched() const override { return seeks_ && carried_->matched(); }
  void start() override;
  bool active() const override { return carried_->active(); }
  bool open() const override { return carried_->open(); }
  bool done() override;
  bool prepared() override;
  void close() override { carried_->close(); }
  void fill_status(MPI_Status* status) const override { carried_->fill_status(status); }
  void fail(const Error& error) override { carried_->fail(error); }
  void abandon(const std::optional<Error>& cause) override { carried_->abandon(cause); }
  void withdraw() override { carried_->withdraw(); }
  std::vector<Half*> halves() override { return carried_->halves(); }
  bool in_gpu_memory() const override { return carried_->in_gpu_memory(); }
  const char* kind() const override { return kind_; }
  bool has_partitions() const override { return false; }
  std::vector<InfoEntry> info() const override;
  std::string explain() const override;
  int waits_for() const override { return carried_->waits_for(); }
  std::uint64_t how_far() const override { return carried_->how_far(); }

 private:
  PersistentRequest(const char* kind, std::unique_ptr<Request> carried, bool synchronous);

  const char* const kind_;
  const std::unique_ptr<Request> carried_;
  const bool synchronous_;
  std::atomic<bool> seeks_{false};  ///< Match was called; any thread may ask whether it is matched meanwhile
};

}  // namespace partita
