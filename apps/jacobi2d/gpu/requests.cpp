#include "apps/jacobi2d/gpu/requests.hpp"

#include <fmt/format.h>

#include "apps/support/time_limit.hpp"

namespace jacobi2d::gpu {
namespace {

/// A message carries the side at which it arrives and the set that it fills.
int tag_of(Side arrives_at, int set) {
  return set * side_count + jacobi2d::tag_of(arrives_at);
}

MPIX_Prequest make_device_request(MPI_Request request) {
  MPIX_Prequest device{};
  MPIX_Prequest_create(&device, request);
  if (device.limit_ns == 0) device.limit_ns = partita::apps::wait_limit_ns();
  return device;
}

}  // namespace

HaloSet::HaloSet(const Plate& plate, const DeviceBlock& cells, int set, const std::string& driver,
                 const std::string& copy, bool flags_each)
    : plate_(plate), sides_(plate.sides()) {
  for (const Side side : sides_) {
    const int partitions = plate.partitions(side);
    const int count = cells.length(side) / partitions;
    const Info info{{"partita_driver", driver},
                    {"partita_gpu_copy", copy},
                    {"partita_transport_partitions", std::to_string(flags_each ? partitions : 1)}};
    MPI_Precv_init(cells.halo(set, side), partitions, count, MPI_DOUBLE, plate.neighbour(side), tag_of(side, set),
                   plate.comm(), info.get(), &receives_.emplace_back());
    MPI_Psend_init(cells.edge(set, side), partitions, count, MPI_DOUBLE, plate.neighbour(side),
                   tag_of(opposite(side), set), plate.comm(), info.get(), &sends_.emplace_back());
  }
}

HaloSet::~HaloSet() {
  for (std::size_t i = 0; i < sides_.size(); ++i) {
    if (have_sends_) MPIX_Prequest_free(&device_.send[index_of(sides_[i])]);
    if (have_receives_) MPIX_Prequest_free(&device_.recv[index_of(sides_[i])]);
    MPI_Request_free(&sends_[i]);
    MPI_Request_free(&receives_[i]);
  }
}

void HaloSet::make_device_requests(bool of_receives) {
  for (std::size_t i = 0; i < sides_.size(); ++i) {
    device_.send[index_of(sides_[i])] = make_device_request(sends_[i]);
    if (of_receives) device_.recv[index_of(sides_[i])] = make_device_request(receives_[i]);
  }
  have_sends_ = true;
  have_receives_ = of_receives;
}

void HaloSet::mark_sends() {
  for (std::size_t i = 0; i < sides_.size(); ++i) MPI_Pready_range(0, plate_.partitions(sides_[i]) - 1, sends_[i]);
}

void HaloSet::prepare_sends() {
  if (sends_.empty()) return;
  MPIX_Pbuf_prepareall(static_cast<int>(sends_.size()), sends_.data());
}

void HaloSet::start(std::vector<MPI_Request>& requests) {
  if (requests.empty()) return;  // Open MPI 4 refuses to start nothing.
  MPI_Startall(static_cast<int>(requests.size()), requests.data());
}

void HaloSet::wait_for(std::vector<MPI_Request>& requests) {
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
}

}  // namespace jacobi2d::gpu
