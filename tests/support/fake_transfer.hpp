// Ranks in one process, without an MPI: their mail waits until the test delivers it, and their links copy within
// the process, refuse or fail as the test says.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/current_error.hpp"
#include "transfer/incoming.hpp"
#include "transfer/matcher.hpp"
#include "transfer/outgoing.hpp"

namespace partita::test {

struct Letter {
  int from;
  int to;
  wire::Bytes bytes;
};

/// All letters that were posted and not delivered. Any thread.
class Post {
 public:
  void add(Letter letter) {
    const std::lock_guard lock(mutex_);
    letters_.push_back(std::move(letter));
  }
  std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return letters_.size();
  }
  bool empty() const { return size() == 0; }
  /// Takes out the letter before which there are `older` ones.
  Letter take(std::size_t older) {
    const std::lock_guard lock(mutex_);
    Letter letter = std::move(letters_.at(older));
    letters_.erase(letters_.begin() + static_cast<std::ptrdiff_t>(older));
    return letter;
  }
  /// The oldest one to `rank`, if there is one.
  std::optional<Letter> take_to(int rank) {
    const std::lock_guard lock(mutex_);
    const auto oldest = std::ranges::find(letters_, rank, &Letter::to);
    if (oldest == letters_.end()) return std::nullopt;
    std::optional letter(std::move(*oldest));
    letters_.erase(oldest);
    return letter;
  }

 private:
  mutable std::mutex mutex_;
  std::deque<Letter> letters_;
};

class FakeMail final : public Mail {
 public:
  FakeMail(Post& post, int rank) : post_(post), rank_(rank) {}
  void on(std::uint8_t kind, Handler handler) override { handlers_[kind] = std::move(handler); }
  void post(int peer, wire::Bytes message, Caller) override {
    if (is_full) throw std::bad_alloc();
    post_.add({rank_, peer, std::move(message)});
  }
  void take(const Letter& letter) {
    wire::Reader reader(letter.bytes);
    handlers_.at(static_cast<std::uint8_t>(letter.bytes.at(0)))(letter.from, (reader.get<std::uint8_t>(), reader));
  }
  bool is_full = false;  ///< takes no more letters

 private:
  Post& post_;
  int rank_;
  std::map<std::uint8_t, Handler> handlers_;
};

class FakeBlocks final : public memory::HostBlocks {
 public:
  std::byte* allocate_block(std::size_t size_bytes) override {
    ++live;
    return new std::byte[size_bytes]();
  }
  void leave_block(std::byte*) noexcept override {}
  void free_block(std::byte* block, std::size_t) override {
    --live;
    delete[] block;
  }
  memory::Kind kind_of(const void*, std::size_t) const override { return memory::Kind::host; }
  int live = 0;
};

/// There is no GPU.
class NoDeviceMemory : public memory::DeviceMemory {
 public:
  memory::Place place_of(const void*, std::size_t) override { return {}; }
  std::variant<memory::DeviceExport, memory::NotMappable> export_to(int, const void*, std::size_t) override { none(); }
  std::string why_not_exported(const void*, std::size_t) override { none(); }
  std::variant<std::shared_ptr<std::byte>, memory::NotMappable> import(int, const memory::DeviceExport&, int,
                                                                       memory::Closing) override {
    none();
  }
  std::shared_ptr<std::byte> find_mapping(int, const memory::DeviceExport&, int) override { none(); }
  void decline(int, const memory::DeviceExport&) override { none(); }
  std::uint64_t memory_bytes(int) override { return 0; }
  std::byte* allocate_block(int, std::size_t) override { none(); }
  void free_block(int, std::byte*, std::size_t) override { none(); }
  std::byte* device_pointer(int, std::byte*) override { none(); }
  std::unique_ptr<memory::Stream> make_stream(int) override { none(); }
  std::unique_ptr<memory::Stream> stream_of_program(void*) override { none(); }
  std::unique_ptr<memory::Event> make_event(int) override { none(); }
  void copy(void*, const void*, std::size_t) override { none(); }
  void check(int) override { none(); }
  std::uint64_t trim(std::size_t, memory::Closing) override { return 0; }
  void make_current(int) override { none(); }

 private:
  [[noreturn]] static void none() { throw std::logic_error("a transfer without a GPU asks for one"); }
};

/// What a fake link shall do, and what it has done.
struct Script {
  std::string refusal;           ///< of the sender's half, if not empty
  std::string receiver_refusal;  ///< of the receiver's
  link::Capabilities can;
  bool sender_throws = false;  ///< when it is made
  bool connect_lacks_memory = false;
  bool connect_throws = false;  ///< at the sender, once the receiver has answered
  bool is_obstructed = false;   ///< likewise: it cannot connect for now
  std::uint64_t place = 1;      ///< of what is in its way
  bool is_unused = false;       ///< nobody uses that
  int ways_made = 0;
  int connects = 0;             ///< tries
  bool is_routed = false;       ///< kernels know the way to the receiver's memory
  bool holds_peer = false;      ///< as long as it is, the sender does not let go of the receiver's memory
  bool start_throws = false;    ///< when an epoch starts at the sender
  bool open_throws = false;     ///< likewise at the receiver
  bool put_throws = false;      ///< from now on
  std::atomic<int> senders{0};  ///< so many were made
  std::atomic<int> puts{0};     ///< runs of transport partitions
  std::atomic<int> looks{0};    ///< whether a transport partition has arrived
  std::atomic<bool> sender_released{false};
  std::atomic<bool> receiver_released{false};
  std::atomic<bool> peer_released{false};  ///< by the sender, ...
  std::atomic<bool> peer_was_complete{false};
};

/// What the halves of one fake transfer share, as direct memory would.
struct FakeWire {
  std::byte* target = nullptr;
  std::atomic<Epoch> credit{no_epoch};
  std::vector<std::atomic<Epoch>> flags;
};

class FakeSender final : public link::Sender {
 public:
  explicit FakeSender(Script& script) : script_(script) {}
  wire::Bytes offer() override { return {}; }
  std::variant<link::SenderFacts, link::Obstacle> connect(const link::Plan& plan, std::byte* data,
                                                          std::span<const std::byte> answer) override {
    ++script_.connects;
    if (script_.connect_lacks_memory) throw std::bad_alloc();
    if (script_.connect_throws) throw Error(ErrorClass::other, "the fake link cannot connect");
    if (script_.is_obstructed) {
      return link::Obstacle{Error(ErrorClass::other, "memory of the fake link is in the way"), script_.place,
                            script_.is_unused};
    }
    wire::Reader reader(answer);
    wire_ = reinterpret_cast<FakeWire*>(reader.get<std::uint64_t>());
    plan_ = plan;
    data_ = data;
    return link::SenderFacts{};
  }
  void make_way() override {
    ++script_.ways_made;
    if (script_.is_unused) script_.is_obstructed = false;
  }
  void start(Epoch) override {
    if (script_.start_throws) throw Error(ErrorClass::other, "the fake link cannot start an epoch");
  }
  bool ready(Epoch epoch) const override { return reached(wire_->credit.load(std::memory_order_acquire), epoch); }
  bool prepared(Epoch epoch) const override { return ready(epoch); }
  void put(link::Range run, Epoch epoch) override {
    if (released_) throw std::logic_error("memory that the program has back is read");
    if (script_.put_throws) throw Error(ErrorClass::other, "the fake link cannot put");
    ++script_.puts;
    for (std::int64_t t = run.begin; t < run.end; ++t) {
      const link::Range bytes = plan_.bytes(t);
      std::copy(data_ + bytes.begin, data_ + bytes.end, wire_->target + bytes.begin);
      const Epoch before = wire_->flags[static_cast<std::size_t>(t)].exchange(epoch, std::memory_order_release);
      if (before == epoch) throw std::logic_error("a transport partition travels twice");
    }
  }
  bool finished() override { return true; }
  void release_memory() override {
    released_ = true;
    script_.sender_released = true;
  }
  bool release_peer(bool complete) override {
    if (script_.holds_peer || (script_.is_routed && !complete)) return false;
    script_.peer_released = true;
    script_.peer_was_complete = complete;
    return true;
  }

 private:
  Script& script_;
  FakeWire* wire_ = nullptr;
  link::Plan plan_;
  std::byte* data_ = nullptr;
  bool released_ = false;
};

class FakeReceiver final : public link::Receiver {
 public:
  FakeReceiver(Script& script, const link::Endpoint& endpoint, const link::Plan& plan) : script_(script) {
    wire_.target = endpoint.data;
    wire_.flags = std::vector<std::atomic<Epoch>>(static_cast<std::size_t>(plan.transport_partitions()));
  }
  link::ReceiverAnswer answer() override {
    wire::Writer writer;
    writer.put(reinterpret_cast<std::uint64_t>(&wire_));
    return {writer.take(), {.landings = {wire_.target, wire_.target}}, "a test's"};
  }
  void open(Epoch epoch) override {
    if (script_.open_throws) throw Error(ErrorClass::other, "the fake link cannot open");
    wire_.credit.store(epoch, std::memory_order_release);
  }
  bool arrived(std::int32_t t, Epoch epoch) override {
    ++script_.looks;
    return wire_.flags[static_cast<std::size_t>(t)].load(std::memory_order_acquire) == epoch;
  }
  void release_memory() override { script_.receiver_released = true; }

 private:
  Script& script_;
  FakeWire wire_;
};

class FakeLink final : public link::Link {
 public:
  FakeLink(std::string_view name, Script& script) : Link(script.can), script_(script) { script.can.name = name; }
  std::variant<std::unique_ptr<link::Sender>, link::Refusal> sender(const link::Endpoint&) override {
    if (!script_.refusal.empty()) return link::Refusal{script_.refusal};
    if (script_.sender_throws) throw Error(ErrorClass::other, "the fake link cannot start");
    ++script_.senders;
    return std::make_unique<FakeSender>(script_);
  }
  std::variant<std::unique_ptr<link::Receiver>, link::Refusal> receiver(const link::Endpoint& endpoint,
                                                                        const link::Plan& plan, std::int32_t,
                                                                        std::span<const std::byte>) override {
    if (!script_.receiver_refusal.empty()) return link::Refusal{script_.receiver_refusal};
    return std::make_unique<FakeReceiver>(script_, endpoint, plan);
  }

 private:
  Script& script_;
};

/// A rank with two links, "first" and "second".
struct FakeRank {
  /// `gpu`: for halves in its memory.
  FakeRank(Post& post, int which, int spare_cores = 0, memory::DeviceMemory* gpu = nullptr)
      : FakeRank(post, which, spare_cores, gpu, [] { return Holds::Clock::now(); }) {}
  /// `now`: the clock of its looks at what waits.
  FakeRank(Post& post, int which, int spare_cores, memory::DeviceMemory* gpu, Holds::Now now)
      : rank(which),
        progress(spare_cores),
        mail(post, which),
        device_memory(gpu != nullptr ? *gpu : static_cast<memory::DeviceMemory&>(no_gpu)),
        holds(progress, now) {
    links.push_back(std::make_unique<FakeLink>("first", first));
    links.push_back(std::make_unique<FakeLink>("second", second));
    communicator->id = 1;
  }

  int rank;
  Settings settings;
  Trace trace{false};
  Progress progress;
  FakeMail mail;
  FakeBlocks blocks;
  NoDeviceMemory no_gpu;
  memory::DeviceMemory& device_memory;
  Script first, second;
  std::vector<std::unique_ptr<link::Link>> links;
  Holds holds;
  LinkReport report{settings};
  Services services{settings, rank, trace, progress, mail, blocks, device_memory, links, holds};
  Matcher matcher{services, report};
  std::shared_ptr<Communicator> communicator = std::make_shared<Communicator>();
};

}  // namespace partita::test
