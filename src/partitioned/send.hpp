// The sending side: from Pready to the link.
#pragma once

#include <vector>

#include "partitioned/marks.hpp"
#include "partitioned/request.hpp"
#include "transfer/deferred.hpp"

namespace partita {

/// A partition's way: (pack) → mark → whoever completes its transport partition decides: put, or, where the receiver is
/// not ready, defer → a later flush puts.
class SendRequest final : public Request, public Deferring {
 public:
  SendRequest(const RequestServices& services, RequestArguments arguments);

  void start() override;
  bool done() override;
  bool prepared() override;
  bool device_step() override;
  void release_memory() override;
  void seek_peer() override;
  void withdraw() override;

  /// Marks partitions [first, last], or one. Any thread, several at once. Never blocks.
  void ready(std::int64_t first, std::int64_t last);
  void ready(std::int64_t partition);

  /// The receiver has answered: what is complete by the marks so far leaves. Once, any thread.
  /// `form`: the kind of the endpoint that `link` was made for.
  void connect(const link::Plan& plan, std::unique_ptr<link::Sender> link, memory::Kind form, std::string link_name,
               std::string reason, std::span<const std::byte> answer);

  /// Puts what was deferred, if the receiver is ready by now; returns whether nothing is deferred any more. Several
  /// threads at once.
  bool flush();

  bool flush_or_fail() noexcept override;

 protected:
  Partita_Prequest device_view() override;
  void give_up_epoch() override;
  bool epoch_is_over() override;
  /// Marks never wait.
  bool kernels_can_wait() const override { return device_driven(); }
  std::string describe_epoch() const override;
  std::uint64_t partitions_so_far() const override;

 private:
  bool all_left();
  bool device_done();
  std::int32_t take_handed_over();
  std::int32_t known_handed_over() const;
  void forget_hand_overs();
  void check_markable() const;
  void check_range(std::int64_t first, std::int64_t last) const;
  void pack(link::Range partitions);
  std::int64_t mark(link::Range partitions);
  std::int64_t mark_to_keep(link::Range partitions);
  bool completes_transport(std::int32_t t);
  std::vector<link::Range> count_kept_marks();
  void trace_marked(link::Range partitions) const;
  void join(link::Range& run, std::int64_t t, void (SendRequest::*leave)(link::Range));
  void check_receiver() const;
  template <class Body>
  auto or_fail(Body body) -> decltype(body());
  void decide(link::Range run);
  bool flush_deferred();
  void put(link::Range run);
  void put_staged(std::int32_t t);
  void open_epoch();
  std::byte* packed_data(memory::Kind form);

  std::vector<std::byte> staging_memory_;
  Marks marks_;                            ///< of the user partitions, in the epoch that was started last
  std::vector<std::uint64_t> part_masks_;  ///< per user partition: the bits in its word of its transport partition
  std::atomic<bool> marks_go_on_{false};   ///< matched, and nothing is to be done before a mark

  std::unique_ptr<link::Sender> link_;
  std::vector<std::atomic<std::int32_t>> missing_;  ///< per transport partition: words of marks_ still to be complete
  std::vector<std::atomic<std::uint8_t>>
      deferred_;                           ///< per transport partition: complete, but the receiver was not ready
  std::vector<std::atomic<Epoch>> taken_;  ///< per transport partition, with a device side: taken from the kernel
  /// With a device side: what known_handed_over() returns, and, in the high half, in which epoch. A store of an older
  /// count may come last; that costs another look.
  std::atomic<std::uint64_t> all_handed_over_{0};
  std::atomic<std::int32_t> deferred_count_{0};
  std::atomic<std::int32_t> put_count_{0};
};

}  // namespace partita
