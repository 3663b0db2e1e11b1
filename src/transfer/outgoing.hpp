// The sending half of a transfer.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transfer/deferred.hpp"
#include "transfer/half.hpp"

namespace partita {

/// A transport partition's way: submitted when all of it is there → put, or, where the receiver is not ready, deferred
/// → a later flush puts.
class Outgoing final : public Half, private Deferring {
 public:
  Outgoing(const Services& services, User& user, HalfTerms terms);

  /// The receiver has answered. Once, any thread. `form`: the kind of the endpoint that `link` was made for.
  void connect(const link::Plan& plan, std::unique_ptr<link::Sender> link, memory::Kind form, std::string link_name,
               std::string reason, std::span<const std::byte> answer);
  /// Opens the epoch on the link. Matched, or in User::before_match.
  void open() { link_->start(epoch()); }
  /// Before an epoch opens, matched or not.
  void clear() { put_count_.store(0, std::memory_order_relaxed); }

  /// The one place that decides how transport partitions leave: `run` is complete. Any thread, with different ones.
  /// Never blocks. Of an epoch that was given up none leaves: its buffer may be written again once the calls that mark
  /// have returned.
  void submit(link::Range run);
  /// Puts what was deferred, if the receiver is ready by now; returns whether nothing is deferred any more. Several
  /// threads at once.
  bool flush();
  /// So many transport partitions were put in this epoch.
  std::int32_t put_count() const { return put_count_.load(std::memory_order_acquire); }
  std::int32_t deferred_count() const { return deferred_count_.load(std::memory_order_relaxed); }
  /// Whether the bytes of all puts have left the buffer. Makes progress.
  bool finished() const { return link_->finished(); }
  bool all_finished() const { return put_count() == plan().transport_partitions() && finished(); }
  bool receiver_is_ready() const { return link_->ready(epoch()); }
  bool receiver_has_started() const { return link_->prepared(epoch()); }
  bool needs_progress() const { return link_->needs_progress(); }
  std::optional<link::DeviceSendRoute> device_route() { return link_->device_route(); }

  /// The open epoch ends with an error. It was given up, and no step of the progress engine runs meanwhile.
  void give_up_epoch();
  /// No step of the progress engine finds it any more.
  void withdraw() { services_.deferred.remove(*this); }
  void release_memory() override;

  /// Neighbours that are complete together leave together: adds `t` to `run`, or lets the run leave by `leave` and
  /// begins another.
  template <class Leave>
  static void join(link::Range& run, std::int64_t t, Leave leave) {
    if (run.end != t) {
      leave(run);
      run.begin = t;
    }
    run.end = t + 1;
  }

 private:
  bool flush_or_fail() noexcept override;
  bool flush_deferred();
  void check_receiver() const;
  template <class Body>
  auto or_fail(Body body) -> decltype(body());
  void put(link::Range run);
  void put_staged(std::int32_t t);
  std::byte* packed_data(memory::Kind form);

  std::vector<std::byte> packed_memory_;
  std::unique_ptr<link::Sender> link_;
  /// Per transport partition: complete, but the receiver was not ready.
  std::vector<std::atomic<std::uint8_t>> deferred_;
  std::atomic<std::int32_t> deferred_count_{0};
  std::atomic<std::int32_t> put_count_{0};
};

}  // namespace partita
