// Ordinary persistent sends in buffered mode (MPI-4, section 3.6): complete as soon as the message is copied.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/active_steps.hpp"
#include "core/layout.hpp"
#include "partitioned/operation.hpp"
#include "partitioned/send.hpp"

namespace partita {

/// A message's way: start copies it → it waits behind those of earlier epochs → a step of the progress engine sends it,
/// when the one before has left. So the program may be any number of epochs ahead of the receiver. After a free it goes
/// on with what waits (Operation::lingers). The memory is Partita's, not what the program has attached to its MPI.
class BufferedSend final : public Operation, private ActiveStep {
 public:
  /// Throws Error where the buffer lies in GPU memory.
  BufferedSend(const RequestServices& services, const RequestArguments& arguments);
  ~BufferedSend() override;

  void seek_peers() override {}
  void begin_match() override;
  bool matched() const override { return seeks_ && carried_.matched(); }
  void start() override;
  bool active() const override { return active_.load(std::memory_order_acquire); }
  bool open() const override { return active(); }
  bool done() override;
  bool prepared() override;
  void close() override { active_.store(false, std::memory_order_release); }
  void fill_status(MPI_Status* status) const override { carried_.fill_status(status); }
  void fail(const Error& error) override { give_up(error); }
  void abandon(const std::optional<Error>& cause) override;
  void withdraw() override {}
  std::vector<Half*> halves() override { return {}; }
  bool lingers() override;
  std::vector<Half*> lingering_halves() override { return carried_.halves(); }
  void stop_lingering() override;
  bool in_gpu_memory() const override { return false; }
  const char* kind() const override { return "persistent_bsend"; }
  bool has_partitions() const override { return false; }
  std::vector<InfoEntry> info() const override;
  std::string explain() const override;
  int waits_for() const override { return carried_.waits_for(); }
  std::uint64_t how_far() const override { return carried_.how_far(); }

 private:
  using Bytes = std::vector<std::byte>;

  static RequestArguments of_packed(RequestArguments arguments, std::int64_t size_bytes, std::byte* packed);
  Outcome step() noexcept override;
  bool send_next();
  void give_up(const Error& error);
  void give_up_with_current() noexcept;
  void throw_if_failed() const;

  const RequestServices& services_;
  const std::byte* const buffer_;
  const std::int64_t count_;
  const Layout layout_;
  std::list<Bytes> leaving_;  ///< one, the message that carried_ sends
  SendRequest carried_;
  bool is_leaving_ = false;          ///< since its last start; the steps'
  std::atomic<bool> seeks_{false};   ///< Match was called; any thread may ask whether it is matched meanwhile
  std::atomic<bool> active_{false};  ///< for the program

  mutable std::mutex mutex_;      ///< of the next ones; taken behind the engine's lock, or alone
  std::deque<Bytes> waiting_;     ///< messages, the oldest first
  bool failed_ = false;           ///< nothing leaves any more
  std::optional<Error> failure_;  ///< why, unless there was no memory to keep it
};

}  // namespace partita
