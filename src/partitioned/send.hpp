// The sending side: from Pready to the outgoing half.
#pragma once

#include <vector>

#include "partitioned/request.hpp"
#include "transfer/outgoing.hpp"

namespace partita {

/// A partition's way: mark → (pack) → complete in the outgoing half, which lets it leave.
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
  void open_epoch();

  Outgoing out_;
  std::atomic<bool> marks_go_on_{false};  ///< matched, and nothing is to be done before a mark

  std::vector<std::atomic<Epoch>> taken_;  ///< per transport partition, with a device side: taken from the kernel
  /// With a device side: what known_handed_over() returns, and, in the high half, in which epoch. A store of an older
  /// count may come last; that costs another look.
  std::atomic<std::uint64_t> all_handed_over_{0};
};

}  // namespace partita
