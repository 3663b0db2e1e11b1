// The sender of link `direct` between GPUs.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <optional>
#include <vector>

#include "link/direct/copy_lane.hpp"
#include "link/direct/device.hpp"
#include "link/direct/device_messages.hpp"
#include "link/direct/device_words.hpp"
#include "link/direct/flag_source.hpp"
#include "link/direct/put_transports.hpp"
#include "memory/window.hpp"

namespace partita::link {
namespace {

using direct::ArrivalFlags;
using direct::CopyLane;
using direct::DeviceAnswer;
using direct::DeviceOffer;
using direct::FlagSource;
using direct::FlagWord;
using direct::Promise;
using direct::PutTransports;
using memory::DeviceBlock;
using memory::DeviceExport;
using memory::HostBlock;
using memory::NotMappable;
using memory::PeerWindow;
using memory::Window;

/// Where much is put at once, a copy announces itself at least so often.
constexpr std::int64_t longest_copy_bytes = 64 * 1024 * 1024;
/// Copies with their flags that are under way at once: beside one's bytes, another one begins or ends. Measured:
/// docs/measurements/.
constexpr std::size_t copy_lanes = 2;
/// Up to so many flags are written one by one behind a copy. Each such write is a fence of its own, about a
/// microsecond.
constexpr std::int64_t most_written_flags = 4;

/// How much of the sender's GPU memory the promise takes. Where the library's kernels open the epochs, its place is
/// taken by words that begin as it does.
std::size_t promise_bytes_on_gpu(Driver driver) {
  static_assert(offsetof(memory::SenderWords, pulled) + sizeof(Epoch) == sizeof(Promise));
  if (driver == Driver::host) return 0;
  return driver == Driver::stream ? sizeof(memory::SenderWords) : sizeof(Promise);
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
    DeviceOffer offer{endpoint_.driver, direct::aligned_for_packets(endpoint_) && !endpoint_.in_place,
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

  std::variant<SenderFacts, Obstacle> connect(const Plan& plan, std::byte* data,
                                              std::span<const std::byte> message) override {
    const auto answer = DeviceAnswer::unpack(message);
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
    return SenderFacts{.has_device_route = true};
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
      put_.clear();
      turn_ = 0;
    }
    while (run.size() > 0) {
      const Range now = first_copy_of(run);
      const std::size_t lane = next_lane();
      lanes_[lane]->copy(theirs_.buffer(), data_, bytes_of(plan_, now));
      announce(now, epoch, lane);
      put_.add(now);  // what was not announced is a gap for those behind it
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

  DeviceSendRoute device_route() override {
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
    route.host_promise = reinterpret_cast<const std::uint64_t*>(own_.host_words_on_gpu());
    route.peer = theirs_.peer();
    if (goes_by_streams() && !peer_released_) {
      route.stream = {reinterpret_cast<memory::SenderWords*>(own_.device_words()),
                      direct::stream_words(theirs_.device_words(), flags_), theirs_.buffer(), data_};
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
    const std::int64_t most = plan_.bytes(transports.begin).begin + longest_copy_bytes;
    Range ends{transports.begin + 1, transports.end + 1};  // of which the last that fits is sought
    while (ends.size() > 1) {
      const std::int64_t middle = ends.begin + ends.size() / 2;
      (plan_.bytes(middle - 1).end <= most ? ends.begin : ends.end) = middle;
    }
    return {transports.begin, ends.begin};
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
  bool put_all() const { return put_.before_gap() == plan_.transport_partitions(); }

  /// Whether what is written on lane `lane` comes behind all copies that were put so far: lanes do not wait for one
  /// another, unless one is told to follow.
  bool comes_behind_all(std::size_t lane) const {
    for (std::size_t other = 0; other < copy_lanes; ++other) {
      if (other != lane && lanes_[other] && !lanes_[other]->finished()) return false;
    }
    return true;
  }
  void follow_all(std::size_t lane) {
    for (std::size_t other = 0; other < copy_lanes; ++other) {
      if (other != lane && lanes_[other] && !lanes_[other]->finished()) lanes_[lane]->follow(*lanes_[other]);
    }
  }

  /// Whether the front tells of `transports`, the next that are put: it may where no gap lies before them. Its word
  /// tells of what lies before them, too, and waits for those bytes; so a few have their own flags instead, unless
  /// nothing is waited for.
  bool in_front(Range transports, std::size_t lane) const {
    if (!flags_.has_front || transports.begin != put_.before_gap()) return false;
    if (transports.size() > most_written_flags) return true;
    return transports.size() > 1 && (transports.begin == 0 || comes_behind_all(lane));
  }

  /// What tells of `transports`, behind their bytes on lane `lane`. Pairs with DeviceReceiver::arrived and with
  /// MPIX_Parrived. Words in the receiver's GPU come first: what its host's Wait has seen, a kernel after it sees.
  void announce(Range transports, Epoch epoch, std::size_t lane) {
    writes_.clear();
    if (in_front(transports, lane)) {
      if (transports.begin > 0) follow_all(lane);  // else nothing lies before, and no word of the epoch is older
      write_front(transports.end, epoch);
    } else if (transports.size() > most_written_flags) {
      copy_flags(transports, epoch, *flag_sources_[lane], *lanes_[lane]);
    } else {
      for (std::int64_t t = transports.begin; t < transports.end; ++t) write_flag(t, epoch);
    }
    lanes_[lane]->announce(writes_);
  }
  void write_flag(std::int64_t t, Epoch epoch) {
    writes_.push_back({device_flags() + t, epoch});
    if (host_flags_ != nullptr) writes_.push_back({host_flags_ + t, epoch});
  }
  /// Words of one epoch only grow: all that lies before `end` has been put, and each is written behind those before.
  void write_front(std::int64_t end, Epoch epoch) {
    const std::uint64_t front = device::front_of(static_cast<std::uint32_t>(end), epoch);
    writes_.push_back({flags_.front(device_flags()), front});
    if (host_flags_ != nullptr) writes_.push_back({flags_.front(host_flags_), front});
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
  PutTransports put_;           ///< ... and what of it
  std::size_t turn_ = 0;
  std::vector<memory::WordWrite> writes_;                    ///< kept for its memory
  std::array<std::unique_ptr<CopyLane>, copy_lanes> lanes_;  ///< made when they are first needed
  unsigned looks_ = 0;
};
}  // namespace

std::variant<std::unique_ptr<Sender>, Refusal> make_device_sender(const Context& context, const Endpoint& endpoint,
                                                                  const DeviceBlock& probe) {
  return std::make_unique<DeviceSender>(context, endpoint, probe);
}
}  // namespace partita::link
