// Link `direct`: the thread that marks a partition stores its bytes into the receiver's memory itself. Between ranks of
// one node, and of a rank with itself.
#include <algorithm>
#include <map>
#include <mutex>
#include <optional>

#include "link/direct/device.hpp"
#include "link/direct/first_epoch.hpp"
#include "link/direct/host.hpp"
#include "link/direct/shared_copy.hpp"
#include "link/registry.hpp"

namespace partita::link {
namespace {

using direct::HostReceiver;
using direct::HostSender;
using direct::Offer;
using direct::Way;

/// Up to here slots win even where the buffer can be reached: the second copy costs less than a system call, or than
/// waiting for a receiver that has not started. Above, they win on some machines, and lose on those where a line of
/// another core is slow to get.
constexpr std::int64_t prefer_slots_bytes = 4 * kib;

constexpr Kinds gpu_memory{memory::Kind::device};
constexpr Movement movements[] = {{host_memory, host_memory}, {gpu_memory, gpu_memory}};
constexpr Movement between_gpus[] = {{gpu_memory, gpu_memory}};
constexpr SmallestTransfer into_mapped[] = {{64 * kib, 4 * kib}, {1 * mib, 8 * kib}, {any_size, 32 * kib}};
/// A remote copy costs a system call, and one that both ranks make two.
constexpr SmallestTransfer into_plain[] = {{1 * mib, 64 * kib, 2}, {any_size, 512 * kib}};
/// Every piece costs a copy engine its start and its flags, so that little is gained by more or smaller ones.
constexpr SmallestTransfer into_gpu[] = {{any_size, 8 * mib, 4}};

class Direct final : public Link {
 public:
  explicit Direct(const Context& context) : Link(can), context_(context) {}

  std::variant<std::unique_ptr<Sender>, Refusal> sender(const Endpoint& endpoint) override {
    if (!context_.world.on_my_node(endpoint.peer)) return Refusal{"the ranks are on different nodes"};
    if (endpoint.kind == memory::Kind::device) {
      const Probe& own = probe(endpoint);
      if (own.refusal) return *own.refusal;
      return make_device_sender(context_, endpoint, *own.block);
    }
    return std::make_unique<HostSender>(context_, endpoint);
  }

  std::variant<std::unique_ptr<Receiver>, Refusal> receiver(const Endpoint& endpoint, const Plan& plan,
                                                            std::int32_t transfers,
                                                            std::span<const std::byte> message) override {
    if (endpoint.kind == memory::Kind::device) {
      if (const auto& refusal = probe(endpoint).refusal) return *refusal;
      return make_device_receiver(context_, endpoint, plan, message);
    }
    const auto offer = Offer::unpack(message);
    check_first_epoch(context_, endpoint.peer, offer.first_epoch);
    const auto way = choose_way(endpoint, plan, transfers, offer);
    if (!way) {
      return Refusal{fmt::format(
          "the receive buffer is plain host memory, which other ranks cannot map, its {} bytes are more than "
          "the slots take ({}), and the kernel does not let the sender copy into this process; memory of "
          "Partita_Alloc or MPI_Alloc_mem can be mapped",
          plan.total_bytes(), context_.settings.slot_limit_bytes)};
    }
    return std::make_unique<HostReceiver>(context_, endpoint, plan, transfers, offer, *way);
  }

 private:
  static constexpr Capabilities can{.name = "direct",
                                    .movements = movements,
                                    .kernel_movements = between_gpus,
                                    .host_flags = true,
                                    .into_mapped = into_mapped,
                                    .into_plain = into_plain,
                                    .into_gpu = into_gpu};

  /// A word in the memory of a GPU, for peers to map.
  struct Probe {
    std::unique_ptr<memory::DeviceBlock> block;
    std::optional<Refusal> refusal;  ///< where they cannot: flags and counters would lie in such memory
  };

  /// The probe in the endpoint's GPU, for its peer to map: this rank itself maps nothing.
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

  std::optional<Way> choose_way(const Endpoint& endpoint, const Plan& plan, std::int32_t transfers,
                                const Offer& offer) const {
    const std::int64_t slot_limit = context_.settings.slot_limit_bytes;
    if (plan.total_bytes() <= std::min(prefer_slots_bytes, slot_limit)) return Way::slots;
    if (target_of(endpoint, context_.world.rank(), false) == Target::mapped) return Way::mapped;
    if (direct::can_reach(offer.probe)) {
      // Where ranks have to share cores the receiver's help only takes the sender's core away.
      const bool shared = direct::worth_sharing(plan.total_bytes() / transfers) && context_.world.spare_cores() >= 0;
      return shared ? Way::shared_copy : Way::remote_copy;
    }
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
