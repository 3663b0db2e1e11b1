// The sending side: from Pready to the outgoing half.
#pragma once

#include <vector>

#include "partitioned/marks.hpp"
#include "partitioned/request.hpp"
#include "transfer/outgoing.hpp"

namespace partita {

/// A partition's way: (pack) → mark → whoever completes its transport partition submits that to the outgoing half.
class SendRequest final : public Request, public Markable {
 public:
  SendRequest(const RequestServices& services, RequestArguments arguments);

  void start() override;
  bool done() override;
  bool prepared() override;
  void seek_peers() override;
  void withdraw() override;

  void mark(std::int64_t partition) override;
  void mark(std::int64_t first, std::int64_t last) override;

 private:
  void before_match() override;
  /// What is complete by the marks so far leaves.
  void after_match() override;
  DeviceRoute device_route() override;
  bool device_step() override;
  void give_up_epoch() override;
  bool epoch_is_over() override;
  /// Marks never wait.
  bool kernels_can_wait() const override { return message_.is_device_driven(); }
  std::string describe_epoch() const override;
  std::uint64_t partitions_so_far() const override;

  bool all_left();
  bool device_done();
  std::int32_t take_handed_over();
  std::int32_t known_handed_over() const;
  void forget_hand_overs();
  void check_markable() const;
  void check_range(std::int64_t first, std::int64_t last) const;
  std::int64_t mark_all(link::Range partitions);
  std::int64_t mark_to_keep(link::Range partitions);
  bool completes_transport(std::int32_t t);
  std::vector<link::Range> count_kept_marks();
  void trace_marked(link::Range partitions) const;
  void open_epoch();

  Outgoing out_;
  Marks marks_;                            ///< of the user partitions, in the epoch that was started last
  std::vector<std::uint64_t> part_masks_;  ///< per user partition: the bits in its word of its transport partition
  std::atomic<bool> marks_go_on_{false};   ///< matched, and nothing is to be done before a mark

  std::vector<std::atomic<std::int32_t>> missing_;  ///< per transport partition: words of marks_ still to be complete
  std::vector<std::atomic<Epoch>> taken_;  ///< per transport partition, with a device side: taken from the kernel
  /// With a device side: what known_handed_over() returns, and, in the high half, in which epoch. A store of an older
  /// count may come last; that costs another look.
  std::atomic<std::uint64_t> all_handed_over_{0};
  std::vector<link::Range> complete_at_match_;
};

}  // namespace partita
