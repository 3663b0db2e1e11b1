#include "two_sided/host_mirrors.hpp"

#include <algorithm>

#include "two_sided/stream_place.hpp"

namespace partita {

void* HostMirrors::add(GpuLanes& lanes, int device, std::byte* user, std::span<const ElementBlock> blocks,
                       BufferUse use) {
  lanes_ = &lanes;
  return mirrors_.emplace_back(std::make_unique<HostMirror>(lanes, device, user, blocks, use))->buffer();
}

/// Buffers in two GPUs may have two default streams.
void HostMirrors::await_stream(const Communicator* communicator) {
  std::vector<std::unique_ptr<StreamPlace>> places;
  for (auto each = mirrors_.begin(); each != mirrors_.end(); ++each) {
    const auto is_of_its_gpu = [&](const auto& other) { return other->device() == (*each)->device(); };
    if (std::find_if(mirrors_.begin(), each, is_of_its_gpu) != each) continue;
    if (auto place = StreamPlace::mark(*lanes_, communicator, (*each)->device())) places.push_back(std::move(place));
  }
  for (const auto& place : places) place->await();
}

void HostMirrors::fetch() {
  for (const auto& each : mirrors_) each->fetch();
}

void HostMirrors::begin_fetch() {
  for (const auto& each : mirrors_) each->begin_fetch();
}

bool HostMirrors::fetched() {
  return std::ranges::all_of(mirrors_, [](const auto& each) { return each->fetched(); });
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
