// Ordinary messages that are sent or received again and again (MPI-4, section 3.9), once the program has them matched.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "partitioned/operation.hpp"
#include "partitioned/request.hpp"
#include "queue/stream_side.hpp"

namespace partita {

/// When a send is complete (MPI-4, section 3.4).
enum class SendMode : std::uint8_t {
  standard,     ///< its buffer may be written again
  ready,        ///< likewise; the program has started the receive before
  synchronous,  ///< and the receive was started
};

/// A message of one partition in the matching space of queues, which is marked when it starts. It begins to look for
/// its peer when the program wants the match, and only then has a place in the order; it starts once it is matched.
/// Between two GPU memories that map each other streams move it, whoever starts it.
class PersistentRequest final : public Operation, private StreamRunnable, private KernelPollable {
 public:
  static std::unique_ptr<PersistentRequest> send(const RequestServices& services, RequestArguments arguments,
                                                 SendMode mode);
  static std::unique_ptr<PersistentRequest> receive(const RequestServices& services, RequestArguments arguments);

  void seek_peers() override {}
  void begin_match() override;
  void match_is_seen() override;
  bool matched() const override { return seeks_ && carried_->matched(); }
  void start() override;
  bool active() const override { return by_stream() != nullptr ? by_stream()->active() : carried_->active(); }
  bool open() const override { return by_stream() != nullptr ? by_stream()->open() : carried_->open(); }
  bool done() override;
  bool prepared() override;
  void close() override { by_stream() != nullptr ? by_stream()->close() : carried_->close(); }
  void fill_status(MPI_Status* status) const override { carried_->fill_status(status); }
  void fail(const Error& error) override { carried_->fail(error); }
  void abandon(const std::optional<Error>& cause) override;
  void withdraw() override;
  std::vector<Half*> halves() override { return carried_->halves(); }
  bool in_gpu_memory() const override { return carried_->in_gpu_memory(); }
  const char* kind() const override { return kind_; }
  bool has_partitions() const override { return false; }
  std::vector<InfoEntry> info() const override;
  std::string explain() const override;
  int waits_for() const override { return carried_->waits_for(); }
  std::uint64_t how_far() const override { return carried_->how_far(); }

 private:
  PersistentRequest(const RequestServices& services, const char* kind, std::unique_ptr<Request> carried, SendMode mode);

  /// Null unless streams move it.
  StreamSide* by_stream() const { return by_stream_.load(std::memory_order_acquire); }

  std::string why_not_on(const memory::Stream& stream, bool captured) const override;
  bool runs_on(const memory::Stream& stream, bool) const override {
    const StreamSide* const side = by_stream();
    return side != nullptr ? stream.device() == side->device() : carried_->message().null_peer();
  }
  void enqueue_start(memory::Stream&, bool captured, memory::MessageRun& together) override {
    if (by_stream() != nullptr) by_stream()->add_start(captured, together);
  }
  bool ends_with_a_start() const override { return false; }
  void enqueue_wait(memory::Stream&, memory::MessageRun& together) override {
    if (by_stream() != nullptr) by_stream()->add_wait(together);
  }
  void pass_wait() override {
    if (by_stream() != nullptr) by_stream()->pass_wait();
  }
  std::span<const std::byte> words_on_gpu() const override {
    static_assert(sizeof(memory::MessageState) <= most_words_bytes);
    return by_stream() != nullptr ? by_stream()->words_on_gpu() : std::span<const std::byte>();
  }

  std::optional<Held> held() const override { return by_stream() != nullptr ? by_stream()->held() : std::nullopt; }

  Partita_Completion completion() const override;

  const RequestServices& services_;
  const char* const kind_;
  const std::unique_ptr<Request> carried_;
  const SendMode mode_;  ///< standard, of a receive
  std::mutex stream_side_mutex_;
  std::unique_ptr<StreamSide> stream_side_;      ///< from the match on, where streams move it
  std::atomic<StreamSide*> by_stream_{nullptr};  ///< the same, for any thread
  std::atomic<bool> seeks_{false};  ///< Match was called; any thread may ask whether it is matched meanwhile
};

}  // namespace partita
