// The receiving side: from the link's arrival flags to the user's buffer.
#pragma once

#include <vector>

#include "partitioned/request.hpp"
#include "transfer/incoming.hpp"
#include "transfer/partition_set.hpp"

namespace partita {

/// A partition's way: all transport partitions that overlap it have arrived → if they did not land in the user's
/// buffer, the pieces that hold it are delivered (copied or unpacked), each by the thread that first comes for it →
/// Parrived says true. A piece is a transport partition, or, where the buffer has gaps, a partition of the user. A GPU
/// unpacks by itself: a step of the progress engine finds the end.
class RecvRequest final : public Request, public Awaitable {
 public:
  RecvRequest(const RequestServices& services, RequestArguments arguments);

  void start() override;
  bool done() override;
  bool prepared() override;
  void seek_peers() override;
  std::optional<link::StreamRoute> stream_route() override;

  bool arrived(std::int64_t partition) override;

 private:
  void before_match() override;
  void opened_epoch() noexcept override;
  link::DeviceRoute device_route() override;
  std::string why_no_kernels() const override;
  bool device_step() override;
  bool kernels_can_wait() const override;
  const link::Plan& plan_for_kernels() const override;
  bool epoch_is_over() override;
  std::string describe_epoch() const override;
  std::uint64_t partitions_so_far() const override;

  void begin_delivery();
  link::Range pieces_of(std::int64_t partition) const;
  std::int64_t first_missing(link::Range pieces);
  template <class Body>
  auto or_fail(Body body) -> decltype(body());
  bool all_arrived();
  bool deliver_partition(std::int64_t partition);
  bool deliver(link::Range pieces);
  /// Whether they are all there are, and few: what one thread does with them it does in one step.
  bool are_whole(link::Range pieces) const { return pieces.size() == pieces_ && pieces_ <= PartitionSet::bits; }
  void move_out(link::Range pieces);
  bool tells_kernels() const { return device_.exists() && device_.side().raises_flags(); }
  void copy_out(link::Range pieces);
  void moved(link::Range pieces) override;
  void tell_unpacked();
  bool has_told_all();
  void forget_told();
  void trace_arrival(std::int64_t partition);
  bool lands_in_place() const { return !in_.terms().packed_apart && in_.landing() == message_.data(); }

  Incoming in_;
  std::int64_t pieces_ = 0;
  std::int64_t next_ = 0;   ///< done(): pieces below this one are delivered
  PartitionSet claimed_;    ///< pieces that a thread delivers or has delivered
  PartitionSet delivered_;  ///< pieces that lie in the user's buffer
  // Where a GPU unpacks, kernels wait for partitions of the receive, whichever transport partitions carry them.
  link::Plan unpacked_plan_;
  PartitionSet told_;                        ///< those of which they hear
  std::atomic<std::int64_t> told_count_{0};  ///< behind the words
  std::vector<std::atomic<Epoch>> traced_;   ///< per user partition, only with a trace: its arrival was recorded
};

}  // namespace partita
