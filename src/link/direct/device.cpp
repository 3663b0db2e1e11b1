#include "link/direct/device.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <optional>
#include <vector>

#include "link/direct/device_messages.hpp"
#include "link/direct/first_epoch.hpp"
#include "memory/blocks.hpp"
#include "memory/window.hpp"

namespace partita::link {
namespace {

using Answer = direct::DeviceAnswer;
using direct::DeviceOffer;
using memory::DeviceBlock;
using memory::DeviceExport;
using memory::HostBlock;
using memory::NotMappable;
using memory::PeerWindow;
using memory::Window;
using FlagWord = std::atomic_ref<Epoch>;

/// What a kernel compares with: the receiver's newest epoch, and behind it the sender's.
struct Promise {
  Epoch credit;
  Epoch started;
};
static_assert(sizeof(Promise) == sizeof(std::uint64_t));

/// Up to here a request between two device-driven sides travels as packets. Measured: docs/measurements/.
constexpr std::int64_t packet_limit_bytes = 8 * 1024;
/// A larger one does, up to this, which bounds its slots and what one block that waits for all of it unpacks, ...
constexpr std::int64_t most_packets_bytes = 32 * 1024;
/// ... if no partition is larger than this: so small ones are awaited one by one. There are at most so many of them: a
/// wait for all looks at each one.
constexpr std::int64_t packet_partition_limit_bytes = 1024;
constexpr std::int64_t most_packet_partitions = 64;
/// Where much is put at once, a copy announces itself at least so often.
constexpr std::int64_t longest_copy_bytes = 64 * 1024 * 1024;
/// Copies with their flags that are under way at once: beside one's bytes, another one begins or ends. Measured:
/// docs/measurements/.
constexpr std::size_t copy_lanes = 2;
/// Up to so many flags are written one by one behind a copy. Each such write is a fence of its own, about a
/// microsecond.
constexpr std::int64_t most_written_flags = 4;
/// A packet carries 8 of its 16 bytes.
constexpr std::int64_t packet_payload_bytes = 8;

/// How much of the sender's GPU memory the promise takes. Where the library's kernels open the epochs, its place is
/// taken by words that begin as it does.
std::size_t promise_bytes_on_gpu(Driver driver) {
  static_assert(offsetof(memory::SenderWords, pulled) + sizeof(Epoch) == sizeof(Promise));
  if (driver == Driver::host) return 0;
  return driver == Driver::stream ? sizeof(memory::SenderWords) : sizeof(Promise);
}

bool aligned_for_packets(const Endpoint& endpoint) {
  return reinterpret_cast<std::uintptr_t>(endpoint.data) % packet_payload_bytes == 0;
}

bool small_enough_for_packets(const Plan& plan) {
  if (plan.total_bytes() <= packet_limit_bytes) return true;
  return plan.total_bytes() <= most_packets_bytes && plan.send().partition_bytes() <= packet_partition_limit_bytes &&
         plan.recv().partition_bytes() <= packet_partition_limit_bytes &&
         plan.recv_partitions() <= most_packet_partitions;
}

bool travels_in_packets(const Endpoint& receiver, const Plan& plan, const DeviceOffer& offer) {
  return receiver.driver == Driver::device && offer.driver == Driver::device && offer.packets &&
         aligned_for_packets(receiver) && plan.total_bytes() > 0 && plan.send().even() &&
         plan.send().partition_bytes() % packet_payload_bytes == 0 && plan.recv().even() &&
         plan.recv().partition_bytes() % packet_payload_bytes == 0 && small_enough_for_packets(plan);
}

constexpr std::size_t bytes_of_line = 128;

std::size_t flags_bytes(const Plan& plan) {
  return (static_cast<std::size_t>(plan.transport_partitions()) * sizeof(Epoch) + bytes_of_line - 1) / bytes_of_line *
         bytes_of_line;
}

/// Where the words of streams lie in the receiver's device words: such a side has no packets.
memory::ReceiverWords* stream_words(std::byte* device_words, const Plan& plan) {
  return reinterpret_cast<memory::ReceiverWords*>(device_words + flags_bytes(plan));
}

/// One after the other, the copies of a lane and the words that announce them. One thread at a time.
class CopyLane {
 public:
  /// `done`: a word of host memory, no_epoch; `done_on_gpu`: as the GPU addresses it. The word behind it is the lane's,
  /// too.
  CopyLane(memory::DeviceMemory& memory, int device, Epoch* done, Epoch* done_on_gpu)
      : queue_(memory.make_copy_queue(device)), done_(*done), done_on_gpu_(done_on_gpu) {}

  void copy(std::byte* to, const std::byte* from, const Range& bytes) {
    if (bytes.size() > 0) queue_->copy(to + bytes.begin, from + bytes.begin, static_cast<std::size_t>(bytes.size()));
  }
  /// Who sees at system scope what is copied behind it sees what was copied before.
  void fence() { queue_->write(done_on_gpu_ + 1, issued_); }
  /// Behind the copies so far; adds the lane's own word to `writes`.
  void announce(std::vector<memory::WordWrite>& writes) {
    const Epoch announced = next(issued_);
    writes.push_back({done_on_gpu_, announced});  // pairs with finished()
    queue_->write(writes);
    issued_ = announced;
  }
  bool finished() const { return done_.load(std::memory_order_acquire) == issued_; }
  /// Throws Error where a copy has failed.
  void check() { queue_->idle(); }
  void drain() { queue_->drain(); }

 private:
  std::unique_ptr<memory::CopyQueue> queue_;
  FlagWord done_;
  Epoch* done_on_gpu_;
  Epoch issued_ = no_epoch;  ///< the newest announcement
};

/// Where the flags of a long run come from: the number of the epoch, as often as there are transport partitions. Copies
/// bring it from the host to this GPU, and from there, behind the run's bytes, to the flags: a copy from host memory to
/// the receiver's would keep the calling thread until it is made.
class FlagSource {
 public:
  FlagSource(const Context& context, int device, std::int32_t transport_partitions)
      : on_host_(context.host_memory, static_cast<std::size_t>(transport_partitions) * sizeof(Epoch)),
        on_gpu_(context.device_memory, device, static_cast<std::size_t>(transport_partitions) * sizeof(Epoch)) {
    // The segment becomes the GPU's here: that takes longer than a mark may.
    context.device_memory.device_pointer(device, on_host_.address());
  }

  /// Those of `run` read `epoch` behind what `lane` copies so far. No copy of an earlier epoch is under way.
  void set(Range run, Epoch epoch, CopyLane& lane) {
    std::fill(words(on_host_.address()) + run.begin, words(on_host_.address()) + run.end, epoch);
    lane.copy(on_gpu_.address(), on_host_.address(), bytes_of_words(run));
  }
  /// Copies those of `run` to the same place behind `flags`.
  void raise(Range run, Epoch* flags, CopyLane& lane) const {
    lane.copy(reinterpret_cast<std::byte*>(flags), on_gpu_.address(), bytes_of_words(run));
  }

 private:
  static Epoch* words(std::byte* first) { return reinterpret_cast<Epoch*>(first); }
  static Range bytes_of_words(Range run) {
    return {run.begin * static_cast<std::int64_t>(sizeof(Epoch)), run.end * static_cast<std::int64_t>(sizeof(Epoch))};
  }

  HostBlock on_host_;
  DeviceBlock on_gpu_;
};

class DeviceSender final : public Sender {
 public:
  DeviceSender(const Context& context, const Endpoint& endpoint, const DeviceBlock& probe)
      : context_(context),
        endpoint_(endpoint),
        probe_(probe),
        own_(context.host_memory, context.device_memory, endpoint.device, sizeof(Promise),
             promise_bytes_on_gpu(endpoint.driver)),
        done_(context.host_memory, 2 * copy_lanes * sizeof(Epoch)) {
    *promise() = {context.settings.first_epoch, context.settings.first_epoch};
    if (endpoint.driver == Driver::host) return;
    context.device_memory.copy(own_.device_words(), own_.host_words(), sizeof(Promise));
  }
  ~DeviceSender() override { drain(); }

  wire::Bytes offer() override {
    DeviceOffer offer{endpoint_.driver, aligned_for_packets(endpoint_) && !endpoint_.in_place,
                      context_.settings.first_epoch, own_.name_for(endpoint_.peer)};
    if (!offer.window.device_words) {
      offer.window.device_words = memory::name_block(context_.device_memory, endpoint_.peer, probe_);
    }
    if (endpoint_.driver == Driver::stream) {
      auto exported = context_.device_memory.export_to(endpoint_.peer, endpoint_.data,
                                                       static_cast<std::size_t>(endpoint_.size_bytes));
      if (auto* name = std::get_if<DeviceExport>(&exported)) offer.window.buffer = std::move(*name);
    }
    shows_buffer_ = offer.window.buffer.has_value();
    return offer.pack();
  }

  void connect(const Plan& plan, std::byte* data, std::span<const std::byte> message) override {
    const auto answer = Answer::unpack(message);
    plan_ = plan;
    data_ = data;
    receiver_driver_ = answer.driver;
    packets_ = answer.packets;
    auto mapped = PeerWindow::map(context_.host_memory, context_.device_memory, endpoint_.peer, answer.window,
                                  endpoint_.device, flags_bytes(plan));
    if (const auto* not_mappable = std::get_if<NotMappable>(&mapped)) {
      throw Error(ErrorClass::other, "GPU memory of rank {} cannot be mapped into GPU {} of this rank: {}",
                  endpoint_.peer, endpoint_.device, not_mappable->reason);
    }
    theirs_ = std::get<PeerWindow>(mapped);
    // The segments with the words become the GPU's here: that takes longer than a mark may.
    on_gpu(done_.address());
    host_flags_ = reinterpret_cast<Epoch*>(theirs_.host_words_on_gpu());
    // Kernels put all of a device-driven send.
    if (endpoint_.driver != Driver::device && plan.transport_partitions() > most_written_flags) {
      flag_source_ = std::make_unique<FlagSource>(context_, endpoint_.device, plan.transport_partitions());
    }
  }

  // Pairs with the kernel's load of the promise: MPIX_Pready knows by it that the host has started the epoch.
  void start(Epoch epoch) override { FlagWord(promise()->started).store(epoch, std::memory_order_release); }

  // Pairs with the store in DeviceReceiver::open, or in the receiver's MPIX_Pstart.
  bool ready(Epoch epoch) const override {
    return reached(FlagWord(promise()->credit).load(std::memory_order_acquire), epoch);
  }
  bool prepared(Epoch epoch) const override { return ready(epoch); }

  void put(Range run, Epoch epoch) override {
    const std::lock_guard lock(put_mutex_);
    while (run.size() > 0) {
      const Range now = first_copy_of(run);
      CopyLane& lane = next_lane();
      lane.copy(theirs_.buffer(), data_, bytes_of(plan_, now));
      announce(now, epoch, lane);
      run.begin = now.end;
    }
  }

  bool finished() override {
    if (std::all_of(lanes_.begin(), lanes_.end(), [](const auto& lane) { return !lane || lane->finished(); }))
      return true;
    // A copy that failed never says that it is done; the queue does, but takes a microsecond to ask.
    if (++looks_ % looks_each_failure_ == 0) {
      for (const auto& lane : lanes_) {
        if (lane) lane->check();
      }
    }
    return false;
  }

  bool busy() override {
    const std::lock_guard lock(put_mutex_);
    return std::all_of(lanes_.begin(), lanes_.end(), [](const auto& lane) { return lane && !lane->finished(); });
  }

  void give_up(Epoch) override { drain(); }

  std::optional<DeviceSendRoute> device_route() override {
    const bool both_device = endpoint_.driver == Driver::device && receiver_driver_ == Driver::device;
    DeviceSendRoute route;
    route.packets = packets_;
    route.remote = packets_ ? theirs_.device_words() + flags_bytes(plan_) : theirs_.buffer();
    route.arrival_device = device_flags();
    route.arrival_host = host_flags_;
    route.promise =
        reinterpret_cast<const std::uint64_t*>(both_device ? own_.device_words() : own_.host_words_on_gpu());
    route.peer = theirs_.peer();
    if (shows_buffer_ && receiver_driver_ == Driver::stream) {
      route.stream = {reinterpret_cast<memory::SenderWords*>(own_.device_words()),
                      stream_words(theirs_.device_words(), plan_), theirs_.buffer(), data_};
    }
    return route;
  }

 private:
  static constexpr unsigned looks_each_failure_ = 4096;

  /// Until nothing reads the program's memory any more.
  void drain() noexcept {
    try {
      for (const auto& lane : lanes_) {
        if (lane) lane->drain();
      }
    } catch (const Error&) {
      // The GPU no longer works: nothing is under way.
    }
  }

  /// As many of `transports` as one copy should take: a receiver may use what came before the rest has.
  Range first_copy_of(Range transports) const {
    Range now{transports.begin, transports.begin + 1};
    const std::int64_t begin = plan_.bytes(now.begin).begin;
    while (now.end < transports.end && plan_.bytes(now.end).end - begin <= longest_copy_bytes) ++now.end;
    return now;
  }

  CopyLane& next_lane() {
    const std::size_t turn = plan_.transport_partitions() == 1 ? 0 : turn_ % copy_lanes;
    if (!lanes_[turn]) {
      std::byte* const done = done_.address() + 2 * turn * sizeof(Epoch);
      lanes_[turn] = std::make_unique<CopyLane>(context_.device_memory, endpoint_.device,
                                                reinterpret_cast<Epoch*>(done), reinterpret_cast<Epoch*>(on_gpu(done)));
    }
    ++turn_;
    return *lanes_[turn];
  }

  /// The flags of `transports` behind their bytes. They pair with DeviceReceiver::arrived and with MPIX_Parrived. Those
  /// in the receiver's GPU come first: what its host's Wait has seen, a kernel after it sees.
  void announce(Range transports, Epoch epoch, CopyLane& lane) {
    writes_.clear();
    if (transports.size() > most_written_flags) {
      flag_source_->set(transports, epoch, lane);
      lane.fence();
      flag_source_->raise(transports, device_flags(), lane);
      if (host_flags_ != nullptr) {
        lane.fence();
        flag_source_->raise(transports, host_flags_, lane);
      }
    } else {
      for (std::int64_t t = transports.begin; t < transports.end; ++t) {
        writes_.push_back({device_flags() + t, epoch});
        if (host_flags_ != nullptr) writes_.push_back({host_flags_ + t, epoch});
      }
    }
    lane.announce(writes_);
  }

  Promise* promise() const { return reinterpret_cast<Promise*>(own_.host_words()); }
  Epoch* device_flags() const { return reinterpret_cast<Epoch*>(theirs_.device_words()); }
  std::byte* on_gpu(std::byte* host) const { return context_.device_memory.device_pointer(endpoint_.device, host); }

  Context context_;
  Endpoint endpoint_;
  Plan plan_;
  std::byte* data_ = nullptr;
  Driver receiver_driver_ = Driver::host;
  bool packets_ = false;
  bool shows_buffer_ = false;
  const DeviceBlock& probe_;
  Window own_;                   ///< the promise, in GPU memory too of a device-driven side; used there where both are
  PeerWindow theirs_;            ///< once connected: DeviceAnswer::window
  Epoch* host_flags_ = nullptr;  ///< as the GPU addresses them
  HostBlock done_;               ///< two words a lane
  std::unique_ptr<FlagSource> flag_source_;  ///< where runs may be long
  std::mutex put_mutex_;                     ///< of the next three, while several threads put
  std::size_t turn_ = 0;
  std::vector<memory::WordWrite> writes_;                    ///< kept for its memory
  std::array<std::unique_ptr<CopyLane>, copy_lanes> lanes_;  ///< made when they are first needed
  unsigned looks_ = 0;
};

class DeviceReceiver final : public Receiver {
 public:
  /// `buffer`: the endpoint's memory, exported, or nothing where packets are unpacked from slots of Partita's own.
  /// `sender`: DeviceOffer::window.
  DeviceReceiver(const Context& context, const Endpoint& endpoint, const Plan& plan, const DeviceOffer& offer,
                 std::optional<DeviceExport> buffer, PeerWindow sender)
      : endpoint_(endpoint),
        plan_(plan),
        sender_driver_(offer.driver),
        packets_(travels_in_packets(endpoint, plan, offer)),
        buffer_(std::move(buffer)),
        sender_(std::move(sender)),
        own_(context.host_memory, context.device_memory, endpoint.device, flags_bytes(plan),
             flags_bytes(plan) + slots_bytes() + (endpoint.driver == Driver::stream ? bytes_of_line : 0)) {}

  wire::Bytes answer() override {
    Answer answer{endpoint_.driver, packets_, own_.name_for(endpoint_.peer)};
    if (endpoint_.driver == Driver::device) answer.window.host_words.reset();
    answer.window.buffer = buffer_;
    return answer.pack();
  }

  // Pairs with the loads in DeviceSender::ready and with the kernel's of the promise.
  void open(Epoch epoch) override {
    FlagWord(*reinterpret_cast<Epoch*>(sender_.host_words())).store(epoch, std::memory_order_release);
  }

  bool arrived(std::int32_t t, Epoch epoch) override {
    // Pairs with the flag stores of DeviceSender::put and of MPIX_Pready.
    return FlagWord(reinterpret_cast<Epoch*>(own_.host_words())[t]).load(std::memory_order_acquire) == epoch;
  }

  const std::byte* landing(Epoch) const override { return endpoint_.data; }

  std::optional<DeviceRecvRoute> device_route() override {
    const bool both_device = endpoint_.driver == Driver::device && sender_driver_ == Driver::device;
    DeviceRecvRoute route;
    route.arrival_device = reinterpret_cast<const Epoch*>(own_.device_words());
    if (packets_) route.slots = own_.device_words() + flags_bytes(plan_);
    route.credit = reinterpret_cast<Epoch*>(both_device ? sender_.device_words() : sender_.host_words_on_gpu());
    route.peer = sender_.peer();
    if (endpoint_.driver == Driver::stream && sender_.buffer() != nullptr) {
      route.stream = {reinterpret_cast<memory::SenderWords*>(sender_.device_words()),
                      stream_words(own_.device_words(), plan_), endpoint_.data, sender_.buffer()};
    }
    return route;
  }

 private:
  std::size_t slots_bytes() const { return packets_ ? static_cast<std::size_t>(plan_.total_bytes()) * 2 : 0; }

  Endpoint endpoint_;
  Plan plan_;
  Driver sender_driver_;
  bool packets_;
  std::optional<DeviceExport> buffer_;
  PeerWindow sender_;
  Window own_;  ///< the flags, in GPU memory followed by the slots
};

}  // namespace

std::variant<std::unique_ptr<Sender>, Refusal> make_device_sender(const Context& context, const Endpoint& endpoint,
                                                                  const DeviceBlock& probe) {
  return std::make_unique<DeviceSender>(context, endpoint, probe);
}

std::variant<std::unique_ptr<Receiver>, Refusal> make_device_receiver(const Context& context, const Endpoint& endpoint,
                                                                      const Plan& plan,
                                                                      std::span<const std::byte> message) {
  auto offer = DeviceOffer::unpack(message);
  check_first_epoch(context, endpoint.peer, offer.first_epoch);
  auto& memory = context.device_memory;
  // Only where the peer has a use for it: a descriptor that was passed there keeps the program's memory alive.
  std::optional<DeviceExport> buffer;
  if (!travels_in_packets(endpoint, plan, offer)) {
    auto exported = memory.export_to(endpoint.peer, endpoint.data, static_cast<std::size_t>(endpoint.size_bytes));
    if (const auto* not_mappable = std::get_if<NotMappable>(&exported)) {
      return Refusal{fmt::format("the receive buffer cannot be mapped by other processes: {}", not_mappable->reason)};
    }
    buffer = std::move(std::get<DeviceExport>(exported));
  }
  // Where this GPU reaches the sender's, the sender's reaches this one.
  const auto map = [&] {
    return PeerWindow::map(context.host_memory, memory, endpoint.peer, offer.window, endpoint.device, sizeof(Promise));
  };
  Endpoint own = endpoint;
  if (own.driver != Driver::stream) offer.window.buffer.reset();
  auto sender = map();
  if (std::holds_alternative<NotMappable>(sender) && offer.window.buffer) {
    // Streams cannot pull: the hosts move it.
    offer.window.buffer.reset();
    own.driver = Driver::host;
    sender = map();
  }
  if (const auto* not_mappable = std::get_if<NotMappable>(&sender)) {
    return Refusal{fmt::format("the two GPUs do not reach each other's memory: {}", not_mappable->reason)};
  }
  return std::make_unique<DeviceReceiver>(context, own, plan, offer, std::move(buffer),
                                          std::move(std::get<PeerWindow>(sender)));
}

}  // namespace partita::link
