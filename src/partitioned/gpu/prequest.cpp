#include "partitioned/gpu/prequest.hpp"

#include <atomic>

#include "core/error.hpp"
#include "partita/device/impl/pushes.hpp"
#include "partita/device/impl/words.hpp"

namespace partita {
namespace {

bool is_device_driven(const PrequestTerms& terms) {
  return terms.driver == link::Driver::device;
}

unsigned char* pointer(std::byte* address) {
  return reinterpret_cast<unsigned char*>(address);
}

bool has_packets(const link::DeviceSendRoute& route) {
  return route.packets;
}

bool has_packets(const link::DeviceRecvRoute& route) {
  return route.slots != nullptr;
}

/// In so many transport partitions the fences and flags of each for itself take longer than what a lone mark loses.
constexpr std::int32_t fewest_that_kernels_announce_together = 512;

/// Whether marks of neighbours that come together are announced together. In packets there is nothing to announce, and
/// where the receiver's kernels alone hear of it, one fence and one flag are cheap.
bool announces_together(const PrequestTerms& terms, bool packets) {
  if ((terms.sides & PARTITA_PREQUEST_SEND) == 0 || packets || is_device_driven(terms)) return false;
  const auto* const route = std::get_if<std::optional<link::DeviceSendRoute>>(&terms.route);
  const bool kernels_announce = route != nullptr && route->has_value();
  const link::Plan& plan = terms.plan;
  if (kernels_announce && plan.transport_partitions() < fewest_that_kernels_announce_together) return false;
  const bool kernels_copy = kernels_announce && !terms.in_place;
  const std::int64_t copied_bytes = kernels_copy && plan.send().even() ? plan.send().partition_bytes() : 0;
  return device::announces_together(plan.send_partitions(), plan.transport_partitions(), copied_bytes);
}

void set_route(Partita_Prequest& request, const std::optional<link::DeviceSendRoute>& route) {
  if (!route) return;
  request.remote = pointer(route->remote);
  request.arrival_device = route->arrival_device;
  request.arrival_host = route->arrival_host;
  request.promise = route->promise;
}

void set_route(Partita_Prequest& request, const std::optional<link::DeviceRecvRoute>& route) {
  if (!route) return;
  request.arrival_device = const_cast<Epoch*>(route->arrival_device);
  request.credit = route->credit;
  request.remote = pointer(route->slots);
}

void set_collective(Partita_Prequest& request, const CollectiveTerms& terms) {
  request.buffer = pointer(terms.received);
  request.sent = reinterpret_cast<const unsigned char*>(terms.sent);
  request.remote = pointer(terms.areas);
  request.total_bytes = terms.block_bytes;
  request.collective = terms.collective;
  request.reduction = terms.reduction;
  request.rank = terms.rank;
  request.ranks = terms.ranks;
  request.root = terms.root;
  request.algorithm = terms.algorithm;
  request.unit_bytes = terms.unit_bytes;
  request.strips = terms.cut.strips;
  request.rounds = terms.cut.rounds;
  request.share_units = terms.cut.share_units;
  request.longer_shares = terms.cut.longer_shares;
}

/// What a collective whose marks push has besides.
void set_pushes(Partita_Prequest& request, const link::Plan& plan, const partita_u64* epochs) {
  request.send_partitions = request.recv_partitions = request.transport_partitions = plan.send_partitions();
  request.send_partition_bytes = request.recv_partition_bytes = plan.send().partition_bytes();
  request.promise = epochs;
  const auto partition_bytes = static_cast<partita_u64>(plan.send().partition_bytes());
  const device::Pieces pieces =
      device::pieces_of(plan.send_partitions(), device::bytes_by_inbox(request.collective, partition_bytes));
  request.rounds = pieces.count;
  request.share_units = pieces.units;
}

}  // namespace

bool PrequestTerms::host_raises_flags() const {
  const bool link_does = std::visit([](const auto& known) { return known.has_value(); }, route);
  return (sides & PARTITA_PREQUEST_RECV) != 0 && !link_does;
}

partita_u32 prequest_flags(const PrequestTerms& terms) {
  if (terms.pushes()) return PARTITA_PREQUEST_PUSHED;
  if (terms.collective) return PARTITA_PREQUEST_COLLECTIVE;
  partita_u32 flags = terms.sides;
  if (is_device_driven(terms)) flags |= PARTITA_PREQUEST_DEVICE_DRIVEN;
  if (terms.in_place) flags |= PARTITA_PREQUEST_IN_PLACE;
  const bool packets = std::visit([](const auto& route) { return route && has_packets(*route); }, terms.route);
  if (packets) flags |= PARTITA_PREQUEST_PACKETS;
  if (announces_together(terms, packets)) flags |= PARTITA_PREQUEST_TOGETHER;
  const auto* const recv = std::get_if<std::optional<link::DeviceRecvRoute>>(&terms.route);
  if (recv != nullptr && *recv && (*recv)->has_front) flags |= PARTITA_PREQUEST_FRONT;
  return flags;
}

Partita_Prequest make_prequest(const PrequestTerms& terms, const PrequestWords& words) {
  const link::Plan& plan = terms.plan;
  if (!plan.send().even() || !plan.recv().even()) {
    throw Error(ErrorClass::other, "the partitions differ in size, and kernels can use only such of one size");
  }
  Partita_Prequest request{};
  request.flags = PARTITA_PREQUEST_MADE | prequest_flags(terms);
  request.state = words.state;
  request.host = words.host;
  request.peers = words.peers;
  request.life = words.life;
  request.limit_ns = static_cast<partita_u64>(terms.timeout_s * 1e9);
  if (terms.collective) {
    set_collective(request, *terms.collective);
    if (terms.pushes()) set_pushes(request, plan, words.epochs);
    return request;
  }

  request.buffer = pointer(terms.data);
  request.total_bytes = plan.total_bytes();
  request.send_partition_bytes = plan.send().partition_bytes();
  request.recv_partition_bytes = plan.recv().partition_bytes();
  request.send_partitions = plan.send_partitions();
  request.recv_partitions = plan.recv_partitions();
  request.transport_partitions = plan.transport_partitions();

  if (!is_device_driven(terms)) request.promise = words.epochs;
  request.arrival_device = words.flags;
  std::visit([&](const auto& route) { set_route(request, route); }, terms.route);
  request.unit_bytes = device::unit_bytes(request);  // these two go by what is set above
  request.marks_each = device::marks_each(request);
  return request;
}

Partita_Prequest make_prequest_to_nobody(partita_u32 side, link::Driver driver, partita_u32 life) {
  Partita_Prequest request{};
  request.flags = PARTITA_PREQUEST_NOBODY | side;
  if (driver == link::Driver::device) request.flags |= PARTITA_PREQUEST_DEVICE_DRIVEN;
  request.life = life;
  return request;
}

partita_u32 new_prequest_life() {
  constexpr partita_u32 step = 2;  // they are even
  static std::atomic<partita_u32> newest{device::first_life};
  return device::first_life | newest.fetch_add(step, std::memory_order_relaxed);
}

std::vector<Partita_Peer> peers_of(const PrequestTerms& terms) {
  if (terms.collective) return terms.collective->peers;
  const auto peers = [](const auto& known) { return known ? std::vector{known->peer} : std::vector<Partita_Peer>(); };
  return std::visit(peers, terms.route);
}

}  // namespace partita
