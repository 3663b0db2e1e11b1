#include "link/direct/direct.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>

#include <unistd.h>

#include "link/direct/device.hpp"
#include "link/direct/first_epoch.hpp"
#include "link/direct/messages.hpp"
#include "link/direct/remote_copy.hpp"
#include "link/direct/shared_copy.hpp"

namespace partita::link {
namespace {

using direct::Answer;
using direct::Offer;
using direct::Way;

using FlagWord = std::atomic_ref<Epoch>;

/// Up to here slots win even where the buffer can be reached: the second copy costs less than a system call, or than
/// waiting for a receiver that has not started.
constexpr std::int64_t prefer_slots_bytes = 4 * 1024;

/// What of the sender's memory the receiver writes.
struct SenderWords {
  Epoch credit;          ///< the newest epoch that the receiver has opened
  std::uint64_t pulled;  ///< chunks that it has ever claimed and let go of, where it shares the copy
};

/// How flags and slots lie in the receiver's block. A set has the arrival flags of an epoch, with slots also its data
/// behind them: small messages share a cache line with their flag. Slots come in two sets, for even and odd epochs, so
/// that the sender may be an epoch ahead. Where the copy is shared the block is a CopyBoard instead.
class BlockShape {
 public:
  BlockShape() = default;
  BlockShape(const Plan& plan, Way way)
      : sets_(way == Way::slots ? 2 : 1),
        flag_bytes_((static_cast<std::size_t>(plan.transport_partitions()) * sizeof(Epoch) + 15) / 16 * 16),
        set_bytes_(way == Way::slots ? (flag_bytes_ + static_cast<std::size_t>(plan.total_bytes()) + 63) / 64 * 64
                   : way == Way::shared_copy ? CopyBoard::size_bytes(plan)
                                             : flag_bytes_) {}

  std::size_t block_bytes() const { return sets_ * set_bytes_; }
  bool sender_may_be_ahead() const { return sets_ == 2; }
  Epoch* flags(std::byte* block, Epoch epoch) const { return reinterpret_cast<Epoch*>(set(block, epoch)); }
  std::byte* slots(std::byte* block, Epoch epoch) const { return set(block, epoch) + flag_bytes_; }

 private:
  std::byte* set(std::byte* block, Epoch epoch) const { return block + (epoch & (sets_ - 1)) * set_bytes_; }

  std::size_t sets_ = 1;
  std::size_t flag_bytes_ = 0;
  std::size_t set_bytes_ = 0;
};

class DirectSender final : public Sender {
 public:
  DirectSender(const Context& context, const Endpoint& endpoint)
      : context_(context), endpoint_(endpoint), words_block_(context.host_memory.allocate_block(sizeof(SenderWords))) {
    words().credit = context.settings.first_epoch;
  }
  ~DirectSender() override { context_.host_memory.free_block(words_block_, sizeof(SenderWords)); }

  wire::Bytes offer() override {
    const Offer offer{context_.host_memory.export_to(endpoint_.peer, words_block_), context_.settings.first_epoch,
                      own_probe()};
    return offer.pack();
  }

  void connect(const Plan& plan, std::byte* data, std::span<const std::byte> message) override {
    const auto answer = Answer::unpack(message);
    plan_ = plan;
    data_ = data;
    way_ = answer.way;
    shape_ = BlockShape(plan, way_);
    if (way_ == Way::remote_copy) receiver_ = remote_process(endpoint_.peer, answer.probe);
    block_ = context_.host_memory.import(endpoint_.peer, answer.flags, shape_.block_bytes());
    if (way_ == Way::shared_copy) {
      shared_.emplace(plan, CopyBoard(block_), data,
                      RemoteBytes{remote_process(endpoint_.peer, answer.probe), answer.plain_address}, words().pulled);
    } else if (way_ != Way::slots) {
      receive_buffer_ = receive_buffer(answer);
    }
  }

  void start(Epoch epoch) override {
    previous_ = current_;
    current_ = epoch;
  }

  bool ready(Epoch epoch) const override {
    // The slots of an epoch are free again once the receiver has opened the epoch after it. Pairs with the store in
    // DirectReceiver::open.
    return reached(FlagWord(words().credit).load(std::memory_order_acquire),
                   shape_.sender_may_be_ahead() ? previous_ : epoch);
  }

  bool prepared(Epoch epoch) const override {
    return reached(FlagWord(words().credit).load(std::memory_order_acquire), epoch);
  }

  void put(Range run, Epoch epoch) override {
    if (shared_) {
      for (std::int64_t t = run.begin; t < run.end; ++t) shared_->put(static_cast<std::int32_t>(t), epoch);
      return;
    }
    const Range bytes{plan_.bytes(run.begin).begin, plan_.bytes(run.end - 1).end};
    if (bytes.size() > 0) {
      std::byte* target = way_ == Way::slots ? shape_.slots(block_, epoch) : receive_buffer_;
      copy(target + bytes.begin, data_ + bytes.begin, static_cast<std::size_t>(bytes.size()));
    }
    Epoch* const flags = shape_.flags(block_, epoch);
    // Pair with the load in DirectReceiver::arrived.
    for (std::int64_t t = run.begin; t < run.end; ++t) FlagWord(flags[t]).store(epoch, std::memory_order_release);
  }

  bool finished() override { return !shared_ || shared_->finished(); }

  void give_up(Epoch epoch) override {
    if (shared_) shared_->give_up(epoch);
  }

 private:
  SenderWords& words() const { return *reinterpret_cast<SenderWords*>(words_block_); }

  void copy(std::byte* to, const std::byte* from, std::size_t size_bytes) const {
    if (way_ == Way::remote_copy) {
      receiver_->write(reinterpret_cast<std::uint64_t>(to), from, size_bytes);
    } else {
      std::memcpy(to, from, size_bytes);
    }
  }

  /// In this process where it is mapped, in the receiver's for a remote copy.
  std::byte* receive_buffer(const Answer& answer) const {
    if (way_ == Way::remote_copy || endpoint_.peer == context_.world.rank()) {
      return reinterpret_cast<std::byte*>(answer.plain_address);
    }
    return context_.host_memory.import(endpoint_.peer, answer.data, static_cast<std::size_t>(plan_.total_bytes()));
  }

  Context context_;
  Endpoint endpoint_;
  Plan plan_;
  std::byte* data_ = nullptr;
  std::byte* words_block_;
  Way way_ = Way::slots;
  BlockShape shape_;
  std::shared_ptr<const RemoteProcess> receiver_;  ///< of remote_copy
  std::byte* block_ = nullptr;                     ///< the receiver's, as mapped here
  std::byte* receive_buffer_ = nullptr;            ///< of the ways that write there alone
  std::optional<SharedPuts> shared_;               ///< of shared_copy
  Epoch current_ = context_.settings.first_epoch;
  Epoch previous_ = context_.settings.first_epoch;
};

class DirectReceiver final : public Receiver {
 public:
  DirectReceiver(const Context& context, const Endpoint& endpoint, const Plan& plan, const Offer& offer, Way way)
      : context_(context),
        endpoint_(endpoint),
        way_(way),
        shape_(plan, way),
        words_(*reinterpret_cast<SenderWords*>(
            context.host_memory.import(endpoint.peer, offer.words, sizeof(SenderWords)))),
        block_(context.host_memory.allocate_block(shape_.block_bytes())) {
    if (way == Way::shared_copy) {
      shared_.emplace(plan, CopyBoard(block_), endpoint.data,
                      RemoteBytes{remote_process(endpoint.peer, offer.probe), 0}, words_.pulled);
    }
  }
  ~DirectReceiver() override { context_.host_memory.free_block(block_, shape_.block_bytes()); }

  wire::Bytes answer() override {
    Answer answer{};
    answer.way = way_;
    answer.probe = own_probe();
    answer.plain_address = reinterpret_cast<std::uint64_t>(endpoint_.data);
    answer.flags = context_.host_memory.export_to(endpoint_.peer, block_);
    if (way_ == Way::mapped && endpoint_.peer != context_.world.rank()) {
      answer.data = context_.host_memory.export_to(endpoint_.peer, endpoint_.data);
    }
    return answer.pack();
  }

  // Pairs with the loads in DirectSender::ready and prepared.
  void open(Epoch epoch) override { FlagWord(words_.credit).store(epoch, std::memory_order_release); }

  bool arrived(std::int32_t t, Epoch epoch) override {
    if (shared_) return shared_->arrived(t, epoch);
    // Pairs with the store in DirectSender::put.
    return FlagWord(shape_.flags(block_, epoch)[t]).load(std::memory_order_acquire) == epoch;
  }

  Way way() const { return way_; }

  const std::byte* landing(Epoch epoch) const override {
    return way_ == Way::slots ? shape_.slots(block_, epoch) : endpoint_.data;
  }

 private:
  Context context_;
  Endpoint endpoint_;
  Way way_;
  BlockShape shape_;
  SenderWords& words_;
  std::byte* block_;
  std::optional<SharedPulls> shared_;  ///< of shared_copy
};

class Direct final : public Link {
 public:
  explicit Direct(const Context& context) : context_(context) {}

  std::string_view name() const override { return "direct"; }

  bool moves(memory::Kind from, memory::Kind to) const override {
    const bool between_gpus = from == memory::Kind::device && to == memory::Kind::device;
    return between_gpus || Link::moves(from, to);
  }

  std::int64_t transfer_bytes(const Endpoint& receiver, bool in_gpu_memory) const override {
    const std::int64_t total_bytes = receiver.size_bytes;
    // Every piece costs a copy engine its start and its flags, so that little is gained by more or smaller ones.
    if (receiver.kind == memory::Kind::device) return std::max<std::int64_t>(total_bytes / 4, 8 * 1024 * 1024);
    if (in_gpu_memory) return gpu_transfer_bytes(receiver);
    if (mappable(receiver))
      return total_bytes <= 64 * 1024 ? 4 * 1024 : total_bytes <= 1024 * 1024 ? 8 * 1024 : 32 * 1024;
    // A remote copy costs a system call, and one that both ranks make two.
    return total_bytes <= 1024 * 1024 ? std::max<std::int64_t>(total_bytes / 2, 64 * 1024) : 512 * 1024;
  }

  std::variant<std::unique_ptr<Sender>, Refusal> sender(const Endpoint& endpoint) override {
    if (!context_.world.on_my_node(endpoint.peer)) return Refusal{"the ranks are on different nodes"};
    if (endpoint.kind == memory::Kind::device) {
      const Probe& own = probe(endpoint);
      if (own.refusal) return *own.refusal;
      return make_device_sender(context_, endpoint, *own.block);
    }
    return std::make_unique<DirectSender>(context_, endpoint);
  }

  std::variant<std::unique_ptr<Receiver>, Refusal> receiver(const Endpoint& endpoint, const Plan& plan,
                                                            std::span<const std::byte> message) override {
    if (endpoint.kind == memory::Kind::device) {
      if (const auto& refusal = probe(endpoint).refusal) return *refusal;
      return make_device_receiver(context_, endpoint, plan, message);
    }
    const auto offer = Offer::unpack(message);
    check_first_epoch(context_, endpoint.peer, offer.first_epoch);
    const auto way = choose_way(endpoint, plan, offer);
    if (!way) {
      return Refusal{fmt::format(
          "the receive buffer is plain host memory, which other ranks cannot map, its {} bytes are more than "
          "the slots take ({}), and the kernel does not let the sender copy into this process; memory of "
          "Partita_Alloc or MPI_Alloc_mem can be mapped",
          plan.total_bytes(), context_.settings.slot_limit_bytes)};
    }
    return std::make_unique<DirectReceiver>(context_, endpoint, plan, offer, *way);
  }

  std::string describe(const Receiver& receiver) const override {
    if (dynamic_cast<const DirectReceiver*>(&receiver) == nullptr) {
      return "same node, the sender's GPU maps the receive buffer: no host takes part in what kernels put";
    }
    switch (static_cast<const DirectReceiver&>(receiver).way()) {
      case Way::slots:
        return "same node, small enough for slots: two copies";
      case Way::mapped:
        return "same node, the sender maps the receive buffer: one copy";
      case Way::remote_copy:
        return "same node, the sender's thread copies through the kernel: one copy";
      case Way::shared_copy:
        return "same node, the threads of both ranks copy through the kernel: one copy";
    }
    return {};
  }

 private:
  /// A word in the memory of a GPU, for peers to map.
  struct Probe {
    std::unique_ptr<memory::DeviceBlock> block;
    std::optional<Refusal> refusal;  ///< where they cannot: flags and counters would lie in such memory
  };

  /// Of the endpoint's GPU, towards its peer: this rank itself maps nothing.
  const Probe& probe(const Endpoint& endpoint) {
    const std::lock_guard lock(probes_mutex_);
    const bool own = endpoint.peer == context_.world.rank();
    Probe& probe = probes_[{endpoint.device, own}];
    if (probe.block) return probe;
    probe.block = std::make_unique<memory::DeviceBlock>(context_.device_memory, endpoint.device, sizeof(Epoch));
    const auto exported =
        context_.device_memory.export_to(endpoint.peer, probe.block->address(), probe.block->size_bytes());
    if (const auto* not_mappable = std::get_if<memory::NotMappable>(&exported)) {
      probe.refusal = Refusal{fmt::format(
          "GPU memory of Partita's own, for flags, cannot be mapped by other processes: {}", not_mappable->reason)};
    }
    return probe;
  }

  bool mappable(const Endpoint& receiver) const {
    return receiver.peer == context_.world.rank() || receiver.kind == memory::Kind::host_exported;
  }

  /// Where ranks have to share cores the receiver's help only takes the sender's core away.
  bool shares_copies(const Plan& plan) const { return worth_sharing(plan) && context_.world.spare_cores() >= 0; }

  std::optional<Way> choose_way(const Endpoint& endpoint, const Plan& plan, const Offer& offer) const {
    const std::int64_t slot_limit = context_.settings.slot_limit_bytes;
    if (plan.total_bytes() <= std::min(prefer_slots_bytes, slot_limit)) return Way::slots;
    if (mappable(endpoint)) return Way::mapped;
    if (can_reach(offer.probe)) return shares_copies(plan) ? Way::shared_copy : Way::remote_copy;
    if (plan.total_bytes() <= slot_limit) return Way::slots;
    return std::nullopt;
  }

  Context context_;
  std::mutex probes_mutex_;
  std::map<std::pair<int, bool>, Probe> probes_;  ///< by GPU, and whether the peer is this rank
};

}  // namespace

std::unique_ptr<Link> make_direct(const Context& context) {
  return std::make_unique<Direct>(context);
}

}  // namespace partita::link
