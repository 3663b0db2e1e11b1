// The one interface of all links: how the bytes of a matched partitioned request get from one rank's memory to
// another's.
//
// Life of a request on a link (docs/design/link.md has the picture):
//   sender's init      Link::sender()        -> offer() travels to the receiver
//   receiver, matched  Link::receiver()      -> answer() travels back
//   sender             Sender::connect()     both sides now hold the same Plan
//   each epoch         Receiver::open, Sender::ready/put … arrived, finished
// What is so of a half all along is data that it gives once (link/facts.hpp); what it does is a call.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/epoch.hpp"
#include "core/error.hpp"
#include "core/wire.hpp"
#include "link/capabilities.hpp"
#include "link/device_route.hpp"
#include "link/facts.hpp"
#include "link/plan.hpp"
#include "memory/memory.hpp"

namespace partita::link {

/// Why a link cannot serve a request; one clause without a full stop, shown by `partita info`.
struct Refusal {
  std::string reason;
};

/// One side's contiguous memory of a request and the rank at the other end.
struct Endpoint {
  int peer = -1;                 ///< world rank of the other side
  std::byte* data = nullptr;     ///< receiving: packed bytes, the user's buffer or a staging buffer in host memory
  std::int64_t size_bytes = 0;   ///< all partitions together
  memory::Kind kind{};           ///< what memory `data` is
  int device = -1;               ///< the GPU of Kind::device
  Driver driver = Driver::host;  ///< who opens the epochs of this side
  bool in_place = false;         ///< sending: kernels compute in the receive buffer itself
  /// Sending: an epoch is over only once the receiver has started it. Where a link's prepared() cannot tell that, its
  /// finished() waits for it, too.
  bool synchronous = false;
  /// Sending: so many partitions may wait for their neighbours. A link that can lets the receiver fetch them then
  /// (SenderFacts::hold_board). 0: none does.
  std::int32_t held_partitions = 0;
};

/// Where the bytes of a request into `receiver` go, as far as the cost of transfers is concerned. `rank`: the
/// receiver's own. `in_gpu_memory`: one side's buffer at least.
inline Target target_of(const Endpoint& receiver, int rank, bool in_gpu_memory) {
  if (receiver.kind == memory::Kind::device) return Target::gpu;
  if (in_gpu_memory) return Target::staged;
  return receiver.peer == rank || receiver.kind == memory::Kind::host_exported ? Target::mapped : Target::plain;
}

/// What stands in the way of a connection, and may go: memory that the peer has no more is mapped at the place of what
/// it shows now.
struct Obstacle {
  Error error;          ///< with which a connection fails that waits no longer
  std::uint64_t place;  ///< the peer's name of that place: what waits for one and the same waits together
  /// Nobody here uses what is mapped there, which is not closed since kernels may be waiting for this process.
  bool is_unused = false;
};

/// The sending half of a matched request. `put` (with different transport partitions) and `ready` may be called by
/// several threads at once; everything else by one thread at a time. Nothing blocks.
class Sender {
 public:
  virtual ~Sender() = default;

  /// What the receiver must know about this side; called once, before connect.
  virtual wire::Bytes offer() = 0;
  /// The receiver chose this link: `answer` is what its Receiver::answer has for this side. The bytes are put from
  /// `data`, of the endpoint's kind and size. Gives what is so of this half from here on; or what stands in the way
  /// where that may go: then nothing is connected, and the same call may succeed later.
  [[nodiscard]] virtual std::variant<SenderFacts, Obstacle> connect(const Plan& plan, std::byte* data,
                                                                    std::span<const std::byte> answer) = 0;
  /// connect() has given an obstacle that nobody uses: it goes, behind all kernels that run if need be. Throws Error.
  virtual void make_way() {}

  /// Opens `epoch` on this side.
  virtual void start(Epoch epoch) = 0;
  /// How kernels put by themselves, where SenderFacts say that they can. Who has asked may have kernels that do.
  virtual DeviceSendRoute device_route() { return {}; }

  /// Whether the receiver can take data of `epoch` now. Acquires the receiver's promise.
  virtual bool ready(Epoch epoch) const = 0;
  /// Whether the receiver has started `epoch` itself (what Pbuf_prepare waits for); implies ready.
  virtual bool prepared(Epoch epoch) const = 0;
  /// Moves the transport partitions `run` of `epoch`, at least one, which became complete together; ready(epoch) was
  /// true. Any thread. A link moves them as one transfer where it can. The bytes become visible to the receiver before
  /// the arrival flag of each of them.
  virtual void put(Range run, Epoch epoch) = 0;
  /// Whether all puts issued so far have left the sender's memory, so that it may be written again. Makes progress.
  /// Called by one thread, while no other is inside put.
  virtual bool finished() = 0;
  /// Whether what is put now begins only once something that was put before has ended: then it may as well wait for
  /// more. Any thread. A link that is never so says no.
  virtual bool busy() { return false; }
  /// `epoch` ends with an error before it has finished: from here on the sender's memory may be written or go, and what
  /// the receiver would have read of it must not arrive. Links whose receivers do not read there leave it out.
  virtual void give_up(Epoch) {}
  /// The program has freed its request. This half may stay until the peer is done, too; the program's memory may be
  /// gone or be other memory from here on, so nothing of it stays registered, nor anything of the peer's. Called once,
  /// with no epoch open.
  virtual void release_memory() {}
  /// The peer has freed its request: this half lets go of what it has mapped of the peer's buffer, whose place other
  /// memory may take. Nothing can be put any more then. `complete`: whether no kernel that knows the way there takes it
  /// any more. Returns whether nothing of the buffer is held; where some is, since it may be used still, it is called
  /// again later. Once connected; any thread, beside puts. Does not block.
  virtual bool release_peer([[maybe_unused]] bool complete) { return true; }
};

/// The receiving half. `arrived` may be called by several threads at once, everything else by one at a time.
class Receiver {
 public:
  virtual ~Receiver() = default;

  /// What the sender must know to put, and what is so of this half; called once.
  virtual ReceiverAnswer answer() = 0;
  /// How kernels see arrivals by themselves, where ReceiverFacts say that they can. Who has asked may have kernels that
  /// do.
  virtual DeviceRecvRoute device_route() { return {}; }

  /// Opens `epoch`: promises the sender that the memory may be written.
  virtual void open(Epoch epoch) = 0;
  /// Whether transport partition `t` of `epoch` has arrived; its bytes are visible to the calling thread if so. Makes
  /// progress.
  virtual bool arrived(std::int32_t t, Epoch epoch) = 0;
  /// The first transport partition of `run` that has not arrived, or run.end: as arrived() of one after the other, but
  /// for who waits for all of an epoch: one that its sender lets wait for its neighbours may be seen a little later.
  virtual std::int64_t first_missing(Range run, Epoch epoch) {
    return first_not(run, [&](std::int64_t t) { return arrived(static_cast<std::int32_t>(t), epoch); });
  }
  /// As of a Sender.
  virtual void release_memory() {}
  /// Likewise.
  virtual bool release_peer([[maybe_unused]] bool complete) { return true; }
};

/// A way between ranks. One instance a process, owned by the registry.
class Link {
 public:
  /// `capabilities` outlive the link.
  explicit Link(const Capabilities& capabilities) : capabilities_(capabilities) {}
  virtual ~Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  const Capabilities& capabilities() const { return capabilities_; }
  std::string_view name() const { return capabilities_.name; }

  /// The sending half towards `endpoint.peer`, or why not. Local.
  virtual std::variant<std::unique_ptr<Sender>, Refusal> sender(const Endpoint& endpoint) = 0;
  /// The receiving half for a sender that made `offer`, or why not. Where all transport partitions of the plan become
  /// complete together they are put in so many `transfers`, runs of equal length as nearly as may be. Local.
  virtual std::variant<std::unique_ptr<Receiver>, Refusal> receiver(const Endpoint& endpoint, const Plan& plan,
                                                                    std::int32_t transfers,
                                                                    std::span<const std::byte> offer) = 0;

  /// Takes the host steps that wait; called by one thread at a time. True if something moved.
  virtual bool progress() { return false; }

 private:
  const Capabilities& capabilities_;
};

}  // namespace partita::link
