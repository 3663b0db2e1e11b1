// The sending half of a transfer.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transfer/gathering.hpp"
#include "transfer/half.hpp"
#include "transfer/holds.hpp"
#include "transfer/pace.hpp"

namespace partita {

/// A partition's way: complete → its transport partition leaves at once, or, in an epoch that holds, a moment later
/// with its neighbours → submitted → put, or, where the receiver is not ready, deferred → a later flush puts.
/// While something is deferred it has steps taken, so that the engine looks at no others.
class Outgoing final : public Half, private ActiveStep, private Holding, private StagedPuts::Owner {
 public:
  Outgoing(const Services& services, User& user, HalfTerms terms);
  ~Outgoing() override;

  /// The receiver has answered. Once, any thread; again where it gives what stands in the way, which may go: then it
  /// has had no effect, and `link` is the caller's still. `transfers`: in how many runs the receiver wants what leaves
  /// together. `form`: the kind of the endpoint that `link` was made for. `wire`: what the link moves `plan` in, where
  /// one side is staged.
  std::optional<link::Obstacle> connect(const link::Plan& plan, const link::Plan& wire, std::int32_t transfers,
                                        std::unique_ptr<link::Sender>& link, memory::Kind form, std::string link_name,
                                        std::string reason, std::span<const std::byte> answer);

  /// The bytes of send partition `partition` lie in packed(): it leaves. False, without effect, if it was complete
  /// already. Matched. Any thread. Never blocks.
  bool complete(std::int64_t partition) {
    const Gathering::Added added = add(partition);
    return !is_more_to_do(added) || go_on(partition, added);
  }
  /// The steps of complete(): add; then, where there is more to do, go_on. Most partitions wait for others, and go the
  /// first step only.
  Gathering::Added add(std::int64_t partition) { return gathering_.add(partition); }
  bool is_more_to_do(Gathering::Added added) const {
    if (added == Gathering::Added::held) return !is_looked_after();
    return added != Gathering::Added::waits;
  }
  bool go_on(std::int64_t partition, Gathering::Added added);
  /// Completes the partitions of `range` up to the first that was complete already, which it returns, or to the end;
  /// matched or not.
  std::int64_t complete(link::Range range);
  bool is_complete(std::int64_t partition) const { return gathering_.is_complete(partition); }
  /// The first partition of `range` that is complete, or range.end.
  std::int64_t first_complete(link::Range range) const { return gathering_.first_complete(range); }

  /// Lets transport partitions leave whose bytes are there: kernels say so themselves. Any thread, with different ones.
  /// Never blocks. None leaves in an epoch that was given up: its buffer may be written again once the calls that
  /// complete partitions have returned.
  void submit(link::Range run);
  /// Puts what was deferred, if the receiver is ready by now; returns whether nothing is deferred any more. Several
  /// threads at once.
  bool flush();
  /// So many transport partitions were put in this epoch, or fetched by the receiver.
  std::int32_t put_count() const { return put_count_.load(std::memory_order_acquire) + gathering_.fetched(); }
  std::int32_t deferred_count() const { return deferred_count_.load(std::memory_order_relaxed); }
  /// Whether the bytes of all puts have left the buffer. Makes progress.
  bool finished() const { return link_->finished(); }
  /// As link::Sender::busy.
  bool busy() const { return link_->busy(); }
  bool all_finished() const { return put_count() == plan().transport_partitions() && finished(); }
  bool receiver_is_ready() const { return receiver_is_ready(epoch()); }
  /// As above, for an epoch that a user opens whose kernels put.
  bool receiver_is_ready(Epoch epoch) const { return link_->ready(epoch); }
  bool receiver_has_started() const { return link_->prepared(epoch()); }
  bool needs_progress() const { return facts_.needs_progress; }
  /// How kernels put by themselves; none where they cannot.
  std::optional<link::DeviceSendRoute> device_route() {
    if (!facts_.has_device_route) return std::nullopt;
    return link_->device_route();
  }

  void start() override;
  void give_up_epoch() override;
  void withdraw() override;
  void release_memory() override;
  bool release_peer(bool complete) override { return link_ == nullptr || link_->release_peer(complete); }

 private:
  void begin();
  void open() override { link_->start(epoch()); }
  std::int32_t held_partitions() const override;
  std::uint64_t held() override;
  void end_hold(std::uint64_t seen) noexcept override;
  std::uint32_t epochs_opened() const override { return epochs_opened_.load(std::memory_order_relaxed); }

  std::uint64_t held_in_this_epoch() const;
  bool holds_next_epoch();
  void stop_holding();
  /// What is complete leaves; where it is measured, how far apart that is. Inlined in whatever company it is compiled:
  /// each mark that completes something goes this way.
  [[gnu::always_inline]] void leave(link::Range run) {
    if (measures_) return leave_measured(run);
    if (gathering_.is_shown()) pace_.group_is_complete();
    submit(run);
  }
  void leave_measured(link::Range run);
  /// Whether somebody ends the wait of what is held: the receiver, which is told where it begins, or a look that
  /// follows soon.
  bool is_looked_after() const {
    if (gathering_.is_shown()) return !pace_.is_timed() || pace_.waits();
    return services_.holds.awake();
  }
  void look_after_held();
  void leave_held();
  Outcome step() noexcept override;
  bool flush_deferred();
  void check_receiver() const;
  template <class Body>
  auto or_fail(Body body) -> decltype(body());
  void put(link::Range run);
  void put_pieces(link::Range pieces, Epoch epoch) override;
  void count_put(std::int32_t transports) override { put_count_.fetch_add(transports, std::memory_order_release); }
  void could_not_put() noexcept override;
  std::byte* packed_data(memory::Kind form);

  std::vector<std::byte> packed_memory_;
  std::unique_ptr<link::Sender> link_;
  std::unique_ptr<StagedPuts> staged_;  ///< where one side is staged
  Gathering gathering_;
  Pace pace_;
  bool is_listed_ = false;  ///< by services_.holds
  bool measures_ = false;   ///< an epoch that does not hold, though the half may
  /// Keeps a look at what is held within one epoch.
  std::atomic<bool> looking_{false};
  std::atomic<std::uint32_t> epochs_opened_{0};
  PartitionSet deferred_;  ///< transport partitions that are complete, but the receiver was not ready
  std::atomic<std::int32_t> deferred_count_{0};
  std::atomic<std::int32_t> put_count_{0};
  link::SenderFacts facts_;  ///< once matched
};

}  // namespace partita
