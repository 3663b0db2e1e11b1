// The receiver of link `direct` between GPUs.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <optional>
#include <vector>

#include "link/direct/device.hpp"
#include "link/direct/device_messages.hpp"
#include "link/direct/device_words.hpp"
#include "link/direct/first_epoch.hpp"
#include "memory/window.hpp"

namespace partita::link {
namespace {

using direct::ArrivalFlags;
using direct::bytes_of_line;
using direct::DeviceAnswer;
using direct::DeviceOffer;
using direct::FlagWord;
using direct::packet_payload_bytes;
using direct::Promise;
using memory::DeviceExport;
using memory::NotMappable;
using memory::PeerWindow;
using memory::Window;

/// Up to here a request between two device-driven sides travels as packets, which take less time than plain stores to
/// here: docs/measurements/h200-2-gpus/latency.csv.
constexpr std::int64_t packet_limit_bytes = 8 * 1024;
/// A larger one does, up to this, which bounds its slots and what one block that waits for all of it unpacks, ...
constexpr std::int64_t most_packets_bytes = 32 * 1024;
/// ... if no partition is larger than this: so small ones are awaited one by one. There are at most so many of them: a
/// wait for all looks at each one.
constexpr std::int64_t packet_partition_limit_bytes = 1024;
constexpr std::int64_t most_packet_partitions = 64;

bool small_enough_for_packets(const Plan& plan) {
  if (plan.total_bytes() <= packet_limit_bytes) return true;
  return plan.total_bytes() <= most_packets_bytes && plan.send().partition_bytes() <= packet_partition_limit_bytes &&
         plan.recv().partition_bytes() <= packet_partition_limit_bytes &&
         plan.recv_partitions() <= most_packet_partitions;
}

bool travels_in_packets(const Endpoint& receiver, const Plan& plan, const DeviceOffer& offer) {
  return receiver.driver == Driver::device && offer.driver == Driver::device && offer.packets &&
         direct::aligned_for_packets(receiver) && plan.total_bytes() > 0 && plan.send().even() &&
         plan.send().partition_bytes() % packet_payload_bytes == 0 && plan.recv().even() &&
         plan.recv().partition_bytes() % packet_payload_bytes == 0 && small_enough_for_packets(plan);
}

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

  ReceiverAnswer answer() override {
    DeviceAnswer answer{endpoint_.driver, packets_, own_.name_for(endpoint_.peer)};
    if (endpoint_.driver == Driver::device) answer.window.host_words.reset();
    answer.window.buffer = buffer_;
    return {answer.pack(),
            {.has_device_route = true, .landings = {endpoint_.data, endpoint_.data}},
            "same node, the sender's GPU maps the receive buffer: no host takes part in what kernels put"};
  }

  // Pairs with the loads in DeviceSender::ready and with the kernel's of the promise.
  void open(Epoch epoch) override {
    if (flags_.has_front && device::forgets_arrivals(newest_, epoch)) forget_arrivals();
    newest_ = epoch;
    FlagWord(*reinterpret_cast<Epoch*>(sender_.host_words())).store(epoch, std::memory_order_release);
  }

  bool arrived(std::int32_t t, Epoch epoch) override { return reads(t, epoch) || t < arrived_in_front(epoch); }
  std::int64_t first_missing(Range run, Epoch epoch) override {
    run.begin = std::clamp(arrived_in_front(epoch), run.begin, run.end);
    return first_not(run, [&](std::int64_t t) { return reads(t, epoch); });
  }

  void release_memory() override { release_peer(true); }
  bool release_peer(bool complete) override {
    const std::unique_lock lock(route_mutex_, std::try_to_lock);
    if (!lock.owns_lock() || (routed_ && !complete)) return false;
    sender_.let_go_of_buffer();
    return true;
  }

  DeviceRecvRoute device_route() override {
    const std::lock_guard lock(route_mutex_);
    routed_ = true;
    const bool both_device = endpoint_.driver == Driver::device && sender_driver_ == Driver::device;
    DeviceRecvRoute route;
    route.arrival_device = reinterpret_cast<const Epoch*>(own_.device_words());
    route.has_front = flags_.has_front;
    if (packets_) route.slots = own_.device_words() + flags_.bytes();
    route.credit = reinterpret_cast<Epoch*>(both_device ? sender_.device_words() : sender_.host_words_on_gpu());
    route.peer = sender_.peer();
    if (endpoint_.driver == Driver::stream && sender_.buffer() != nullptr) {
      route.stream = {reinterpret_cast<memory::SenderWords*>(sender_.device_words()),
                      direct::stream_words(own_.device_words(), flags_), endpoint_.data, sender_.buffer()};
    }
    return route;
  }

 private:
  Epoch* host_flags() const { return reinterpret_cast<Epoch*>(own_.host_words()); }
  // This and the next one pair with the stores of DeviceSender::put; this one with those of MPIX_Pready, too.
  bool reads(std::int64_t flag, Epoch epoch) const {
    return FlagWord(host_flags()[flag]).load(std::memory_order_acquire) == epoch;
  }
  std::int64_t arrived_in_front(Epoch epoch) const {
    if (!flags_.has_front) return 0;
    const auto front = std::atomic_ref(*flags_.front(host_flags())).load(std::memory_order_acquire);
    return device::arrived_in_front(front, epoch);
  }

  /// No epoch is open, so nobody raises any; all of the one before have been raised in both memories.
  void forget_arrivals() {
    static_assert(device::front_of(0, no_epoch) == 0 && no_epoch == 0);
    for (std::int64_t t = 0; t < flags_.count; ++t) FlagWord(host_flags()[t]).store(0, std::memory_order_relaxed);
    std::atomic_ref(*flags_.front(host_flags())).store(0, std::memory_order_relaxed);
    const std::vector<Epoch> none(static_cast<std::size_t>(flags_.words()), 0);
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
