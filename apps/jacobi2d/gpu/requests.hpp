// Partitioned requests on device buffers, with the device requests that kernels use.
#pragma once

#include <mpi.h>
#include <partita/mpix.h>

#include <string>
#include <vector>

#include "apps/jacobi2d/gpu/device_block.hpp"
#include "apps/jacobi2d/plate.hpp"
#include "apps/support/mpi_info.hpp"

namespace jacobi2d::gpu {

using partita::apps::Info;

/// The requests of one set of halos: a partitioned send of each edge and a partitioned receive of each halo.
class HaloSet {
 public:
  /// What kernels have of them.
  struct DeviceRequests {
    MPIX_Prequest send[sides];
    MPIX_Prequest recv[sides];
  };

  /// Local. `driver`: host or device; `copy`: kernel, engine or auto; `flags_each`: whether every partition travels
  /// with a flag of its own.
  HaloSet(const Plate& plate, const DeviceBlock& cells, int set, const std::string& driver, const std::string& copy,
          bool flags_each);
  ~HaloSet();
  HaloSet(const HaloSet&) = delete;
  HaloSet& operator=(const HaloSet&) = delete;

  /// Makes the device requests; those of the receives only if kernels await them. Blocks until all are matched.
  void make_device_requests(bool of_receives);
  const DeviceRequests& device() const { return device_; }

  void start_sends() { start(sends_); }
  void start_receives() { start(receives_); }
  /// The host marks all partitions; without device requests.
  void mark_sends();
  /// Waits until every receiver has started its side.
  void prepare_sends();
  void wait_for_sends() { wait_for(sends_); }
  void wait_for_receives() { wait_for(receives_); }

 private:
  static void start(std::vector<MPI_Request>& requests);
  static void wait_for(std::vector<MPI_Request>& requests);

  const Plate& plate_;
  const std::vector<Side>& sides_;
  std::vector<MPI_Request> sends_, receives_;  ///< in the order of `sides_`
  DeviceRequests device_{};
  bool have_sends_ = false, have_receives_ = false;
};

}  // namespace jacobi2d::gpu
