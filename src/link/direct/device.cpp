#include "link/direct/device.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <optional>
#include <vector>

#include "link/direct/copy_lane.hpp"
#include "link/direct/device_messages.hpp"
#include "link/direct/first_epoch.hpp"
#include "link/direct/flag_source.hpp"
#include "memory/blocks.hpp"
#include "memory/window.hpp"
#include "partita/device/impl/words.hpp"

namespace partita::link {
namespace {

using Answer = direct::DeviceAnswer;
using direct::CopyLane;
using direct::DeviceOffer;
using direct::FlagSource;
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

/// The flags of a receiver, in its host memory and in its GPU: one a transport partition and, where a host may put
/// several together, a common one behind them, which stands for all.
struct ArrivalFlags {
  ArrivalFlags() = default;
  /// `sender`: who opens the epochs there. Kernels put all of a device-driven send.
  ArrivalFlags(Driver sender, const Plan& plan)
      : common(sender != Driver::device && plan.transport_partitions() > 1), count(plan.transport_partitions()) {}

  std::int64_t words() const { return count + (common ? 1 : 0); }
  /// They fill whole lines.
  std::size_t bytes() const {
    return (static_cast<std::size_t>(words()) * sizeof(Epoch) + bytes_of_line - 1) / bytes_of_line * bytes_of_line;
  }

  bool common = false;
  std::int64_t count = 0;  ///< of transport partitions
};

/// Where the words of streams lie in the receiver's device words: such a side has no packets.
memory::ReceiverWords* stream_words(std::byte* device_words, const ArrivalFlags& flags) {
  return reinterpret_cast<memory::ReceiverWords*>(device_words + flags.bytes());
}

Error peer_is_gone(const Endpoint& endpoint) {
  return Error(ErrorClass::request, "the receiver has freed its request (rank {}), and nothing reaches its buffer",
               endpoint.peer);
}

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

  std::optional<Obstacle> connect(const Plan& plan, std::byte* data, std::span<const std::byte> message) override {
    const auto answer = Answer::unpack(message);
    plan_ = plan;
    flags_ = ArrivalFlags(endpoint_.driver, plan);
    data_ = data;
    receiver_driver_ = answer.driver;
    packets_ = answer.packets;
    keep_words_mapped(answer.window);
    auto mapped = map(answer.window, memory::Clearing::if_quiet);
    if (const auto* not_mappable = std::get_if<NotMappable>(&mapped)) {
      const auto error = [&] {
        return Error(ErrorClass::other, "GPU memory of rank {} cannot be mapped into GPU {} of this rank: {}",
                     endpoint_.peer, endpoint_.device, not_mappable->reason);
      };
      if (!not_mappable->is_occupied) throw error();
      obstructed_ = answer.window;
      return Obstacle{error(), obstructed_place(), not_mappable->is_unused};
    }
    obstructed_ = {};
    theirs_ = std::get<PeerWindow>(mapped);
    routed_ = goes_by_streams();
    // The segments with the words become the GPU's here: that takes longer than a mark may.
    on_gpu(done_.address());
    host_flags_ = reinterpret_cast<Epoch*>(theirs_.host_words_on_gpu());
    // Kernels put all of a device-driven send.
    if (endpoint_.driver != Driver::device && plan.transport_partitions() > most_written_flags) {
      for (auto& source : flag_sources_) {
        source = std::make_unique<FlagSource>(context_, endpoint_.device, plan.transport_partitions());
      }
    }
    return {};
  }

  /// What it maps stays so for connect().
  void make_way() override {
    auto mapped = map(obstructed_, memory::Clearing::always);
    keep_words_mapped(obstructed_);
    if (auto* const window = std::get_if<PeerWindow>(&mapped)) theirs_ = std::move(*window);
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
    if (peer_released_) throw peer_is_gone(endpoint_);
    if (epoch != put_epoch_) {
      put_epoch_ = epoch;
      put_count_ = 0;
      turn_ = 0;
    }
    while (run.size() > 0) {
      const Range now = first_copy_of(run);
      const std::size_t lane = next_lane();
      lanes_[lane]->copy(theirs_.buffer(), data_, bytes_of(plan_, now));
      put_count_ += now.size();
      announce(now, epoch, lane);
      run.begin = now.end;
    }
    if (put_all()) bring_flags_ahead(epoch);
  }

  bool finished() override {
    if (all_copied()) return true;
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

  /// Nothing is put any more, so that the peer's buffer is not needed either.
  void release_memory() override { release_peer(true); }
  bool release_peer(bool complete) override {
    const std::unique_lock lock(put_mutex_, std::try_to_lock);
    if (!lock.owns_lock() || (routed_ && !complete) || !all_copied()) return false;
    peer_released_ = true;
    theirs_.let_go_of_buffer();
    return true;
  }

  std::optional<DeviceSendRoute> device_route() override {
    const std::lock_guard lock(put_mutex_);
    routed_ = true;
    const bool both_device = endpoint_.driver == Driver::device && receiver_driver_ == Driver::device;
    DeviceSendRoute route;
    route.packets = packets_;
    route.remote = packets_ ? theirs_.device_words() + flags_.bytes() : theirs_.buffer();
    route.arrival_device = device_flags();
    route.arrival_host = host_flags_;
    route.promise =
        reinterpret_cast<const std::uint64_t*>(both_device ? own_.device_words() : own_.host_words_on_gpu());
    route.peer = theirs_.peer();
    if (goes_by_streams() && !peer_released_) {
      route.stream = {reinterpret_cast<memory::SenderWords*>(own_.device_words()),
                      stream_words(theirs_.device_words(), flags_), theirs_.buffer(), data_};
    }
    return route;
  }

 private:
  static constexpr unsigned looks_each_failure_ = 4096;

  /// Descriptors are passed once: what they map has to stay where the rest is mapped later.
  void keep_words_mapped(const memory::WindowName& window) {
    if (!window.device_words || words_ != nullptr) return;
    auto mapped = context_.device_memory.import(endpoint_.peer, *window.device_words, endpoint_.device);
    if (auto* const words = std::get_if<std::shared_ptr<std::byte>>(&mapped)) words_ = std::move(*words);
  }
  std::variant<PeerWindow, NotMappable> map(const memory::WindowName& window, memory::Clearing clearing) {
    return PeerWindow::map(context_.host_memory, context_.device_memory, endpoint_.peer, window, endpoint_.device,
                           flags_.bytes(), clearing);
  }
  /// The words come first.
  std::uint64_t obstructed_place() const {
    const auto& name = words_ == nullptr && obstructed_.device_words ? obstructed_.device_words : obstructed_.buffer;
    if (!name) return 0;  // nothing of a GPU's is named
    return name->front().allocation_address();
  }

  bool goes_by_streams() const { return shows_buffer_ && receiver_driver_ == Driver::stream; }
  bool all_copied() const {
    return std::all_of(lanes_.begin(), lanes_.end(), [](const auto& lane) { return !lane || lane->finished(); });
  }

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

  std::size_t next_lane() {
    const std::size_t turn = plan_.transport_partitions() == 1 ? 0 : turn_ % copy_lanes;
    if (!lanes_[turn]) {
      std::byte* const done = done_.address() + 2 * turn * sizeof(Epoch);
      lanes_[turn] = std::make_unique<CopyLane>(context_.device_memory, endpoint_.device,
                                                reinterpret_cast<Epoch*>(done), reinterpret_cast<Epoch*>(on_gpu(done)));
    }
    ++turn_;
    return turn;
  }

  /// Whether all of the epoch has been put, here. What kernels have put is not counted.
  bool put_all() const { return put_count_ == plan_.transport_partitions(); }

  /// Whether what is written on lane `lane` comes behind all copies that were put so far: lanes do not wait for one
  /// another.
  bool comes_behind_all(std::size_t lane) const {
    for (std::size_t other = 0; other < copy_lanes; ++other) {
      if (other != lane && lanes_[other] && !lanes_[other]->finished()) return false;
    }
    return true;
  }

  /// The flags of `transports`, behind their bytes on lane `lane`, or the common one. They pair with
  /// DeviceReceiver::arrived and with MPIX_Parrived. Those in the receiver's GPU come first: what its host's Wait has
  /// seen, a kernel after it sees.
  void announce(Range transports, Epoch epoch, std::size_t lane) {
    writes_.clear();
    if (flags_.common && transports.size() > 1 && put_all() && comes_behind_all(lane)) {
      write_flag(flags_.count, epoch);
    } else if (transports.size() > most_written_flags) {
      copy_flags(transports, epoch, *flag_sources_[lane], *lanes_[lane]);
    } else {
      for (std::int64_t t = transports.begin; t < transports.end; ++t) write_flag(t, epoch);
    }
    lanes_[lane]->announce(writes_);
  }
  void write_flag(std::int64_t which, Epoch epoch) {
    writes_.push_back({device_flags() + which, epoch});
    if (host_flags_ != nullptr) writes_.push_back({host_flags_ + which, epoch});
  }
  void copy_flags(Range transports, Epoch epoch, FlagSource& source, CopyLane& lane) {
    source.bring(transports, epoch, lane);
    lane.fence();
    source.raise(transports, device_flags(), lane);
    if (host_flags_ == nullptr) return;
    lane.fence();
    source.raise(transports, host_flags_, lane);
  }

  /// While the last bytes are on their way: nobody waits for this.
  void bring_flags_ahead(Epoch epoch) {
    for (std::size_t lane = 0; lane < copy_lanes; ++lane) {
      if (flag_sources_[lane] && lanes_[lane]) flag_sources_[lane]->bring_ahead(epoch, *lanes_[lane]);
    }
  }

  Promise* promise() const { return reinterpret_cast<Promise*>(own_.host_words()); }
  Epoch* device_flags() const { return reinterpret_cast<Epoch*>(theirs_.device_words()); }
  std::byte* on_gpu(std::byte* host) const { return context_.device_memory.device_pointer(endpoint_.device, host); }

  Context context_;
  Endpoint endpoint_;
  Plan plan_;
  ArrivalFlags flags_;
  std::byte* data_ = nullptr;
  Driver receiver_driver_ = Driver::host;
  bool packets_ = false;
  bool shows_buffer_ = false;
  const DeviceBlock& probe_;
  Window own_;  ///< the promise, in GPU memory too of a device-driven side; used there where both are
  std::shared_ptr<std::byte> words_;  ///< the receiver's in its GPU, from the first try to connect on
  memory::WindowName obstructed_;     ///< the receiver's window, where something is in the way of that
  PeerWindow theirs_;                 ///< once connected: DeviceAnswer::window
  Epoch* host_flags_ = nullptr;       ///< as the GPU addresses them
  HostBlock done_;                    ///< two words a lane
  std::array<std::unique_ptr<FlagSource>, copy_lanes> flag_sources_;  ///< of each lane, where runs may be long
  std::mutex put_mutex_;                                              ///< of the next seven, while several threads put
  bool routed_ = false;         ///< kernels know where the peer's buffer lies, or will
  bool peer_released_ = false;  ///< and nothing of that is mapped here
  Epoch put_epoch_ = no_epoch;  ///< the newest one of which something was put, ...
  std::int64_t put_count_ = 0;  ///< ... and how many transport partitions
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
      : device_memory_(context.device_memory),
        endpoint_(endpoint),
        plan_(plan),
        flags_(offer.driver, plan),
        newest_(context.settings.first_epoch),
        sender_driver_(offer.driver),
        packets_(travels_in_packets(endpoint, plan, offer)),
        buffer_(std::move(buffer)),
        sender_(std::move(sender)),
        own_(context.host_memory, context.device_memory, endpoint.device, flags_.bytes(),
             flags_.bytes() + slots_bytes() + (endpoint.driver == Driver::stream ? bytes_of_line : 0)) {
    routed_ = sender_.buffer() != nullptr;
  }

  wire::Bytes answer() override {
    Answer answer{endpoint_.driver, packets_, own_.name_for(endpoint_.peer)};
    if (endpoint_.driver == Driver::device) answer.window.host_words.reset();
    answer.window.buffer = buffer_;
    return answer.pack();
  }

  // Pairs with the loads in DeviceSender::ready and with the kernel's of the promise.
  void open(Epoch epoch) override {
    if (flags_.common && device::forgets_arrivals(newest_, epoch)) forget_arrivals();
    newest_ = epoch;
    FlagWord(*reinterpret_cast<Epoch*>(sender_.host_words())).store(epoch, std::memory_order_release);
  }

  bool arrived(std::int32_t t, Epoch epoch) override { return reads(t, epoch) || all_arrived(epoch); }
  std::int64_t first_missing(Range run, Epoch epoch) override {
    if (all_arrived(epoch)) return run.end;
    return first_not(run, [&](std::int64_t t) { return reads(t, epoch); });
  }

  const std::byte* landing(Epoch) const override { return endpoint_.data; }

  void release_memory() override { release_peer(true); }
  bool release_peer(bool complete) override {
    const std::unique_lock lock(route_mutex_, std::try_to_lock);
    if (!lock.owns_lock() || (routed_ && !complete)) return false;
    sender_.let_go_of_buffer();
    return true;
  }

  std::optional<DeviceRecvRoute> device_route() override {
    const std::lock_guard lock(route_mutex_);
    routed_ = true;
    const bool both_device = endpoint_.driver == Driver::device && sender_driver_ == Driver::device;
    DeviceRecvRoute route;
    route.arrival_device = reinterpret_cast<const Epoch*>(own_.device_words());
    route.common_flag = flags_.common;
    if (packets_) route.slots = own_.device_words() + flags_.bytes();
    route.credit = reinterpret_cast<Epoch*>(both_device ? sender_.device_words() : sender_.host_words_on_gpu());
    route.peer = sender_.peer();
    if (endpoint_.driver == Driver::stream && sender_.buffer() != nullptr) {
      route.stream = {reinterpret_cast<memory::SenderWords*>(sender_.device_words()),
                      stream_words(own_.device_words(), flags_), endpoint_.data, sender_.buffer()};
    }
    return route;
  }

 private:
  // Pairs with the flag stores of DeviceSender::put and of MPIX_Pready.
  bool reads(std::int64_t flag, Epoch epoch) const {
    return FlagWord(reinterpret_cast<Epoch*>(own_.host_words())[flag]).load(std::memory_order_acquire) == epoch;
  }
  bool all_arrived(Epoch epoch) const { return flags_.common && reads(flags_.count, epoch); }

  /// No epoch is open, so nobody raises any; all of the one before have been raised in both memories.
  void forget_arrivals() {
    const std::vector<Epoch> none(static_cast<std::size_t>(flags_.words()), no_epoch);
    for (std::size_t flag = 0; flag < none.size(); ++flag) {
      FlagWord(reinterpret_cast<Epoch*>(own_.host_words())[flag]).store(no_epoch, std::memory_order_relaxed);
    }
    device_memory_.copy(own_.device_words(), none.data(), none.size() * sizeof(Epoch));
  }

  std::size_t slots_bytes() const { return packets_ ? static_cast<std::size_t>(plan_.total_bytes()) * 2 : 0; }

  memory::DeviceMemory& device_memory_;
  Endpoint endpoint_;
  Plan plan_;
  ArrivalFlags flags_;
  Epoch newest_;  ///< that was opened
  Driver sender_driver_;
  bool packets_;
  std::optional<DeviceExport> buffer_;
  std::mutex route_mutex_;  ///< of the next two
  bool routed_ = false;     ///< streams know where the sender's buffer lies, or will
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
  // Where this GPU reaches the sender's, the sender's reaches this one. The answer does not wait for a better time to
  // close what is in the way.
  const auto map = [&] {
    return PeerWindow::map(context.host_memory, memory, endpoint.peer, offer.window, endpoint.device, sizeof(Promise),
                           memory::Clearing::always);
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
