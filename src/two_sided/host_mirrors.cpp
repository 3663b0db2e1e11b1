#include "two_sided/host_mirrors.hpp"

#include <algorithm>

namespace partita {

void* HostMirrors::add(GpuLanes& lanes, int device, std::byte* user, std::span<const ElementBlock> blocks,
                       BufferUse use) {
  return mirrors_.emplace_back(std::make_unique<HostMirror>(lanes, device, user, blocks, use))->buffer();
}

void HostMirrors::fetch() {
  for (const auto& each : mirrors_) each->fetch();
}

void HostMirrors::begin_delivery() {
  for (const auto& each : mirrors_) each->begin_delivery();
}

bool HostMirrors::settled() {
  return std::ranges::all_of(mirrors_, [](const auto& each) { return each->settled(); });
}

void HostMirrors::await_delivery() {
  for (const auto& each : mirrors_) each->await_delivery();
}

void HostMirrors::leave_to_the_mpi() noexcept {
  for (const auto& each : mirrors_) each->leave_to_the_mpi();
}

}  // namespace partita
