// The receiving side: from the link's arrival flags to the user's buffer.
#pragma once

#include <vector>

#include "partitioned/request.hpp"
#include "transfer/incoming.hpp"

namespace partita {

/// A partition's way: all transport partitions that overlap it have arrived → if they did not land in the user's
/// buffer, the pieces that hold it are delivered (copied or unpacked), each by the thread that first comes for it →
/// Parrived says true. A piece is a transport partition, or, where the buffer has gaps, a partition of the user.
class RecvRequest final : public Request, public Awaitable {
 public:
  RecvRequest(const RequestServices& services, RequestArguments arguments);

  void start() override;
  bool done() override;
  bool prepared() override;
  void seek_peers() override;

  bool arrived(std::int64_t partition) override;

 private:
  /// Opens the epoch that is active by now.
  void before_match() override;
  link::DeviceRoute device_route() override;
  bool device_step() override;
  bool kernels_can_wait() const override;
  bool epoch_is_over() override { return in_.all_arrived(); }
  std::string describe_epoch() const override;
  std::uint64_t partitions_so_far() const override;

  void check_partition(std::int64_t partition) const;
  void open_epoch();
  link::Range pieces_of(std::int64_t partition) const;
  bool piece_arrived(std::int64_t piece);
  template <class Body>
  auto or_fail(Body body) -> decltype(body());
  bool all_arrived();
  bool deliver_partition(std::int64_t partition);
  bool deliver(std::int64_t piece);
  bool tells_kernels() const { return device_.exists() && device_.side().raises_flags(); }
  void copy_out(std::int64_t piece);
  void trace_arrival(std::int64_t partition);
  bool lands_in_place() const { return !in_.terms().packed_apart && in_.landing() == message_.data(); }

  Incoming in_;
  std::int64_t next_ = 0;                      ///< done(): pieces below this one are delivered
  std::vector<std::atomic<Epoch>> claimed_;    ///< per piece: a thread delivers or has delivered it
  std::vector<std::atomic<Epoch>> delivered_;  ///< per piece: it lies in the user's buffer
  std::vector<std::atomic<Epoch>> traced_;     ///< per user partition, only with a trace: its arrival was recorded
};

}  // namespace partita
