// One side of a persistent message that streams move by themselves, between two GPU memories. docs/design/queues.md,
// "Without the CPU".
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "core/epoch.hpp"
#include "core/error.hpp"
#include "link/device_route.hpp"
#include "memory/blocks.hpp"
#include "memory/gpu_layout.hpp"
#include "memory/message_run.hpp"
#include "memory/stream.hpp"
#include "partita/device/completion.h"
#include "partitioned/facets.hpp"
#include "partitioned/gpu/served_request.hpp"
#include "partitioned/message.hpp"
#include "partitioned/request_services.hpp"
#include "transfer/half.hpp"

namespace partita {

/// All epochs of the message go this way, those too that the host starts and awaits: then the streams are its own. Its
/// half is matched, and opens no epoch on the link. Unless said otherwise a member is called by one thread at a time.
/// Members throw Error.
class StreamSide final : private ServedRequest, private Half::Streams {
 public:
  /// `half` is that of `message_of_program`. `ready`: the receive is started before each start of the send.
  StreamSide(const RequestServices& services, Half& half, const Message& message_of_program,
             const link::StreamRoute& route, bool ready);
  /// No stream uses it any more, and no graph is launched again.
  ~StreamSide();

  int device() const { return message_block_.device(); }

  /// Adds the start of the next epoch to `starts`, which are launched next in a stream of this GPU, or `captured` into
  /// a graph; and the wait for the one that was started last.
  void add_start(bool captured, memory::MessageRun& starts);
  void add_wait(memory::MessageRun& waits);
  /// The stream has passed a wait of those that were not captured. Throws what went wrong in it.
  void pass_wait();
  /// As StreamRunnable::words_on_gpu().
  std::span<const std::byte> words_on_gpu() const { return std::as_bytes(std::span(&message()->state, 1)); }
  /// What kernels of the program ask by, as long as this lives.
  Partita_Completion completion() const;

  /// These three are the host's Start, test and close. start() opens the next epoch; ...
  void start();
  /// ... whether it is complete; makes progress; ...
  bool done();
  /// ... and closes it.
  void close();
  /// Whether the peer has started the host's open epoch. Asks the GPU.
  bool prepared() const;
  /// Whether one of the host's is open. Any thread.
  bool active() const { return active_.load(std::memory_order_acquire); }

  /// What Operation::open() promises: a step may have gone wrong in a graph, and nobody was told. Any thread.
  bool open() const { return active() || has_news(); }

  /// Whatever waits in a stream ends, and nothing begins any more; the peer hears of `cause`.
  void give_up(const std::optional<Error>& cause);
  /// Streams have done all that they shall do: the half goes on behind the epochs that they have run. The peer hears of
  /// one that was not over.
  void take_over_epochs() noexcept;
  /// How far it has come; a sentence. Asks the GPU.
  std::string explain() const;
  /// As StreamRunnable::held().
  std::optional<StreamRunnable::Held> held() const;

 private:
  struct Words {
    memory::MessageState state;
    Epoch peer_started;  ///< the receiver; of a send
    Epoch peer_moved;    ///< pulled, of a send; pushed
    Epoch offered;       ///< of a receive

    /// Whether the epoch that was started last is over. The end is seen by this side's steps or, by a look of the
    /// program's kernels, by nobody who notes it.
    bool is_over() const { return state.over == state.epoch || peer_moved == state.epoch; }
  };

  /// The host does not see how far streams have come: whether there may be something to see.
  bool device_driven() const override { return is_captured_.load() || under_way_.load() > 0; }
  void watch_kernels(KernelFindings& findings) override;
  std::optional<Error> why_in_vain(KernelFindings& findings);
  bool may_use_peer() const override;

  memory::MessageReport& report() const { return *reinterpret_cast<memory::MessageReport*>(host_block_.address()); }
  memory::StreamMessage* message() const { return reinterpret_cast<memory::StreamMessage*>(message_block_.address()); }
  bool sends() const { return half_.side() == Side::send; }
  std::optional<memory::PackElements> unpacking() const;
  void run_step(memory::MessageStep step, const memory::PackElements* before = nullptr);
  memory::Stream& own_stream();
  Epoch newest_epoch() const;
  Epoch epoch_on_gpu() const noexcept;
  memory::MessageFault fault() const;
  bool has_news() const;
  void throw_if_faulty() const;
  void release() noexcept;
  void drain_own_stream() noexcept;
  Words read() const;
  std::string sentence(const std::string& how_far) const;
  std::string explain_open(const Words& now) const;

  const RequestServices& services_;
  Half& half_;
  const Message& message_of_program_;
  const bool ready_;
  const std::int64_t bytes_;
  const memory::MessageGrids grids_;
  std::optional<memory::GpuLayout> layout_;  ///< where it has gaps: peers see the half's packed bytes
  const memory::HostBlock host_block_;
  const memory::DeviceBlock message_block_;
  const link::StreamRoute route_;
  std::unique_ptr<memory::Stream> own_stream_;  ///< of epochs of the host's
  std::atomic<bool> active_{false};
  partita_u32 report_ = 0;    ///< the number of the last one that was asked for
  bool is_unpacked_ = false;  ///< the host's epoch, before that report
  bool is_watched_ = false;
  /// Starts that were not captured and whose waits are not known to be over.
  std::atomic<int> under_way_{0};
  std::atomic<bool> is_captured_{false};      ///< graphs have epochs of it, too
  std::atomic<Epoch> newest_;                 ///< epoch that was asked for otherwise
  mutable std::atomic<bool> is_told_{false};  ///< of the fault
  std::mutex release_mutex_;
  std::unique_ptr<memory::CopyQueue> release_queue_;  ///< which writes that once
  int looks_in_vain_ = 0;                             ///< by the watch
};

}  // namespace partita
