#include "partitioned/gpu/prequest.hpp"

#include <atomic>

#include "partita/device/impl/words.hpp"

namespace partita {
namespace {

bool is_device_driven(const PrequestTerms& terms) {
  return terms.half.driver == link::Driver::device;
}

unsigned char* pointer(std::byte* address) {
  return reinterpret_cast<unsigned char*>(address);
}

partita_u32 flags_of(const PrequestTerms& terms, const std::optional<link::DeviceSendRoute>& route) {
  partita_u32 flags = PARTITA_PREQUEST_SEND;
  if (terms.half.in_place) flags |= PARTITA_PREQUEST_IN_PLACE;
  if (route && route->packets) flags |= PARTITA_PREQUEST_PACKETS;
  return flags;
}

partita_u32 flags_of(const PrequestTerms&, const std::optional<link::DeviceRecvRoute>& route) {
  partita_u32 flags = PARTITA_PREQUEST_RECV;
  if (route && route->slots != nullptr) flags |= PARTITA_PREQUEST_PACKETS;
  return flags;
}

void set_route(Partita_Prequest& request, const PrequestTerms&, const std::optional<link::DeviceSendRoute>& route,
               const PrequestWords& words) {
  request.promise = words.epochs;
  if (!route) return;
  request.remote = pointer(route->remote);
  request.arrival_device = route->arrival_device;
  request.arrival_host = route->arrival_host;
  request.promise = route->promise;
}

void set_route(Partita_Prequest& request, const PrequestTerms& terms, const std::optional<link::DeviceRecvRoute>& route,
               const PrequestWords& words) {
  if (!is_device_driven(terms)) request.promise = words.epochs;
  request.arrival_device = words.flags;
  if (!route) return;
  request.arrival_device = const_cast<Epoch*>(route->arrival_device);
  request.credit = route->credit;
  request.remote = pointer(route->slots);
}

}  // namespace

bool PrequestTerms::host_raises_flags() const {
  const auto* recv_route = std::get_if<std::optional<link::DeviceRecvRoute>>(&route);
  return recv_route != nullptr && !*recv_route;
}

partita_u32 prequest_flags(const PrequestTerms& terms) {
  const partita_u32 driver = is_device_driven(terms) ? PARTITA_PREQUEST_DEVICE_DRIVEN : 0;
  return driver | std::visit([&](const auto& route) { return flags_of(terms, route); }, terms.route);
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

  request.buffer = pointer(terms.half.data);
  request.total_bytes = plan.total_bytes();
  request.send_partition_bytes = plan.send().partition_bytes();
  request.recv_partition_bytes = plan.recv().partition_bytes();
  request.send_partitions = plan.send_partitions();
  request.recv_partitions = plan.recv_partitions();
  request.transport_partitions = plan.transport_partitions();

  std::visit([&](const auto& route) { set_route(request, terms, route, words); }, terms.route);
  request.unit_bytes = device::unit_bytes(request);  // these two go by what is set above
  request.marks_each = device::marks_each(request);
  return request;
}

Partita_Prequest make_prequest_to_nobody(const HalfTerms& half, partita_u32 life) {
  Partita_Prequest request{};
  request.flags = PARTITA_PREQUEST_NOBODY;
  request.flags |= half.side == Side::recv ? PARTITA_PREQUEST_RECV : PARTITA_PREQUEST_SEND;
  if (half.driver == link::Driver::device) request.flags |= PARTITA_PREQUEST_DEVICE_DRIVEN;
  request.life = life;
  return request;
}

partita_u32 new_prequest_life() {
  constexpr partita_u32 step = 2;  // they are even
  static std::atomic<partita_u32> newest{device::first_life};
  return device::first_life | newest.fetch_add(step, std::memory_order_relaxed);
}

std::optional<Partita_Peer> peer_of(const link::DeviceRoute& route) {
  const auto peer = [](const auto& known) { return known ? std::optional(known->peer) : std::nullopt; };
  return std::visit(peer, route);
}

}  // namespace partita
