// The sending side: from Pready to the outgoing half.
#pragma once

#include <atomic>

#include "partitioned/gpu/hand_overs.hpp"
#include "partitioned/request.hpp"
#include "transfer/outgoing.hpp"

namespace partita {

/// A partition's way: mark → (pack) → complete in the outgoing half, which lets it leave. A GPU packs by itself: a step
/// of the progress engine finds the end, and completes.
class SendRequest final : public Request, public Markable {
 public:
  SendRequest(const RequestServices& services, RequestArguments arguments);

  void start() override;
  void close() override;
  bool done() override;
  bool prepared() override;
  void seek_peers() override;
  std::optional<link::StreamRoute> stream_route() override;

  void mark(std::int64_t partition) override;
  void mark(std::int64_t first, std::int64_t last) override;

  /// Whether nothing reads what it sends any more, in an epoch that has failed or was given up, too. Makes progress.
  bool has_left_buffer() noexcept;

 private:
  void before_match() override;
  void opened_epoch() noexcept override;
  link::DeviceRoute device_route() override;
  bool device_step() override;
  bool epoch_is_over() override;
  /// Marks never wait.
  bool kernels_can_wait() const override { return message_.is_device_driven(); }
  std::string describe_epoch() const override;
  std::uint64_t partitions_so_far() const override;

  bool all_left();
  bool device_done();
  bool waits_for_copies() const;
  std::optional<std::int32_t> take_handed_over(HandOvers::From from);
  std::int32_t transports_worth_a_transfer() const;
  void send_handed_over(link::Range run);
  [[gnu::noinline]] void go_on(std::int64_t partition, Gathering::Added added);
  void mark_for_packing(link::Range partitions);
  bool is_marked(std::int64_t partition) const;
  std::int64_t first_marked() const;
  void moved(link::Range partitions) override;
  void check_markable() const;
  void forget_hand_overs() noexcept;

  Outgoing out_;
  /// Partitions below it go the short way when they are marked: all of them in an open epoch after the match, if there
  /// is nothing to be done but to let them leave, and none otherwise.
  std::atomic<std::uint32_t> short_way_{0};
  std::uint32_t short_partitions_ = 0;  ///< what that is in an epoch in which kernels do not mark
  HandOvers hand_overs_;                ///< by kernels
  PartitionSet given_to_packing_;       ///< in this epoch, where a GPU packs
};

}  // namespace partita
