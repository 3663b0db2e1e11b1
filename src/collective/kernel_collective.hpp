// A collective whose epochs kernels open, move and complete by themselves.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "collective/collective_arguments.hpp"
#include "collective/kernel_algorithms.hpp"
#include "collective/memory.hpp"
#include "collective/peer_buffers.hpp"
#include "collective/pushed_epochs.hpp"
#include "memory/stream.hpp"
#include "partita/device/impl/areas.hpp"
#include "partita/device/impl/pushes.hpp"
#include "partitioned/gpu/device_request.hpp"
#include "partitioned/operation.hpp"
#include "partitioned/request_services.hpp"
#include "transfer/incoming.hpp"
#include "transfer/matcher.hpp"
#include "transfer/outgoing.hpp"

namespace partita::collective {

/// Each rank has an area in the GPU memory of each other one. The two ends of an area are the halves of a transfer,
/// which is matched like the leg of a schedule, and moves nothing: kernels use the route that its link shows them. The
/// kernels are the program's where it is partitioned, and the library's: a queue launches them, or, where it is not
/// partitioned, a start by the host does. Where marks push, the program's kernels mark, in epochs of theirs or of the
/// host's; such an area is an inbox.
class KernelCollective final : public Operation,
                               private Awaitable,
                               private StreamRunnable,
                               private DeviceRequest::Owner,
                               private Half::User {
 public:
  /// Throws Error where kernels cannot do it.
  KernelCollective(const RequestServices& services, CollectiveArguments arguments);

  bool is_host_driven() const override { return !arguments_.is_partitioned || pushes(); }
  std::string why_in_no_queue() const override;
  void seek_peers() override;
  bool matched() const override;
  void match_is_seen() override;
  void start() override;
  bool active() const override { return active_.load(std::memory_order_acquire); }
  /// The kernels of one that was given up say no more than that they were released.
  bool open() const override { return active() || (!given_up() && device_.has_news()); }
  bool done() override;
  bool prepared() override;
  void close() override;
  void fill_status(MPI_Status* status) const override;
  void fail(const Error& error) override;
  void abandon(const std::optional<Error>& cause) override;
  void withdraw() override;
  std::vector<Half*> halves() override;
  bool in_gpu_memory() const override { return true; }
  const char* kind() const override;
  bool has_partitions() const override { return arguments_.is_partitioned; }
  std::vector<InfoEntry> info() const override;
  std::string explain() const override;
  int waits_for() const override;
  std::uint64_t how_far() const override;

 private:
  /// What this rank has with another one.
  struct Neighbour {
    Neighbour(KernelCollective& owner, int its_rank)
        : rank(its_rank),
          out(owner.services_, owner, owner.half_terms(Side::send, its_rank)),
          in(owner.services_, owner, owner.half_terms(Side::recv, its_rank)) {}
    int rank;      ///< in the communicator
    Outgoing out;  ///< to this rank's area there
    Incoming in;   ///< to that rank's area here
  };

  /// Whether its marks push, ...
  bool pushes() const { return wished_.code == PARTITA_ALGORITHM_PUSH; }
  /// ... straight into the other ranks' buffers, ...
  bool pushes_straight() const { return pushes() && device::pushes_straight(collective_); }
  bool is_root() const { return arguments_.problem.rank == arguments_.problem.root; }
  /// ... and this rank has some.
  bool may_mark() const { return !pushes_straight() || is_root(); }

  bool arrived(std::int64_t partition) override;
  // What a stream does: a kernel of the library's is launched for each epoch, and a wait asks for nothing.
  std::string why_not_on(const memory::Stream& stream, bool captured) const override;
  void enqueue_start(memory::Stream& stream, bool captured, memory::MessageRun& together) override;
  bool ends_with_a_start() const override { return true; }
  void enqueue_wait(memory::Stream&, memory::MessageRun&) override {}
  void pass_wait() override;
  std::span<const std::byte> words_on_gpu() const override { return device_.words_on_gpu(); }
  std::optional<Held> held() const override { return device_.held(); }
  bool starts_wait() const override { return true; }

  partita_u32 sides() const override { return 0; }
  link::Driver driver() const override { return link::Driver::device; }
  memory::Place place() const override { return place_; }
  bool is_to_nobody() const override { return false; }
  bool knows_prequest_terms() const override { return matched(); }
  PrequestTerms prequest_terms() override;
  bool device_step() override { return pushed_ && pushed_->step(); }
  bool serves_epochs_of_kernels() const override { return pushes(); }
  bool kernels_can_wait() const override { return true; }
  std::optional<Error> why_peers_are_lost(KernelFindings& findings) override;
  Epoch epoch() const override { return epoch_; }
  std::string name() const override;
  bool failed() const override;
  bool given_up() const override { return given_up_.load(std::memory_order_acquire); }
  void throw_if_over() const override;
  void fail_for_kernels(const Error& error, Mail::Caller caller) override { fail_as("failed", error, caller); }
  void join_epoch() override;
  void take_over_epochs() override;
  void hear_last_epoch(const std::optional<DeviceSide::LastEpoch>& last) override;
  void set_up_reductions() override;
  void end_own_kernels() noexcept override;
  void fail_alone(const Error& error) override;
  bool failure_is_told() const override { return told_.load(std::memory_order_relaxed); }
  void opened_epoch() noexcept override {}

  HalfTerms half_terms(Side side, int rank);
  std::byte* area_of(int rank) const;
  partita_u64 cut_bytes() const;
  device::Cut cut() const;
  std::int64_t bytes_of_area() const;
  void prepare_areas();
  void write_to_area(int rank, const std::vector<partita_u32>& words);
  void name_buffers();
  const std::vector<Block>& blocks_sent() const {
    return arguments_.sent.empty() ? arguments_.received : arguments_.sent;
  }
  const std::vector<Block>& blocks_received() const {
    return arguments_.received.empty() ? arguments_.sent : arguments_.received;
  }
  std::string why_not_in_buffers() const;
  const KernelAlgorithm& algorithm() const;
  void map_buffers(CollectiveTerms& terms);
  void map_buffers_to_push_to(CollectiveTerms& terms);
  Partita_Peer peer_through(Neighbour& neighbour);
  PrequestTerms terms_for_kernels();
  const Neighbour* unmatched() const;
  memory::Stream& own_stream();
  void launch_on(memory::Stream& stream);
  void launch_if_matched();
  PushedEpochs::Shape pushed_shape() const;
  void open_pushed();
  void forget_credits();
  void make_request_if_nobody_marks();
  void throw_if_lost_without_kernels() const;
  Half* half_that_promises();
  bool pushed_is_done();
  void drain_own_stream() noexcept;
  Epoch note(const DeviceSide::LastEpoch& last);
  void throw_if_failed() const;
  void fail_as(const char* what, const Error& error, Mail::Caller caller);
  bool is_lost(const Half& half) const;
  template <class Body>
  void for_each_half(Body body) {
    for (Neighbour& neighbour : neighbours_) {
      body(static_cast<Half&>(neighbour.out));
      body(static_cast<Half&>(neighbour.in));
    }
  }
  template <class Body>
  void for_each_half(Body body) const {
    for (const Neighbour& neighbour : neighbours_) {
      body(static_cast<const Half&>(neighbour.out));
      body(static_cast<const Half&>(neighbour.in));
    }
  }

  const RequestServices& services_;
  const CollectiveArguments arguments_;
  const memory::Place place_;
  const std::int64_t block_bytes_;  ///< of all partitions
  const partita_u32 collective_;    ///< PARTITA_COLLECTIVE_*
  const partita_u32 reduction_;     ///< Partita_Prequest.reduction
  const KernelAlgorithm& wished_;
  const device::Cut cut_;  ///< of packets
  const std::int64_t area_bytes_;
  const std::string purpose_;
  DeviceRequest device_;
  std::optional<OwnBytes> areas_;         ///< where there is something to move
  std::unique_ptr<PeerBuffers> buffers_;  ///< where that shall move in them
  CollectivePlaces places_;
  std::deque<Neighbour> neighbours_;
  std::unique_ptr<memory::Stream> own_stream_;  ///< of epochs that the host starts
  std::atomic<bool> active_{false};             ///< one of those is open, ...
  bool is_launched_ = false;                    ///< ... and its kernel was asked for
  const link::Plan plan_;                       ///< as kernels see the partitions; they use it where marks push
  std::unique_ptr<PushedEpochs> pushed_;        ///< where marks push
  /// The newest that kernels have opened, or, where marks push, that is complete, as far as the host knows. The watch
  /// reads it, too.
  std::atomic<Epoch> epoch_;
  Epoch newest_flag_;  ///< likewise
  std::atomic<bool> given_up_{false};
  std::optional<Error> why_given_up_;  ///< until the others are told
  mutable std::mutex failure_mutex_;
  std::atomic<bool> failed_{false};
  mutable std::atomic<bool> told_{false};
  std::optional<Error> failure_;
};

}  // namespace partita::collective
