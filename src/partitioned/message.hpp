// What a point-to-point request moves: a buffer in partitions, to or from one peer.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/layout.hpp"
#include "core/settings.hpp"
#include "link/device_route.hpp"
#include "link/plan.hpp"
#include "memory/device.hpp"
#include "transfer/communicator.hpp"
#include "transfer/half.hpp"

namespace partita {

/// The checked arguments of Psend_init, Precv_init, and the init calls of ordinary persistent requests.
struct RequestArguments {
  Side side{};
  std::byte* buffer = nullptr;
  int partitions = 1;
  std::int64_t count = 0;                     ///< elements in a partition
  MPI_Datatype datatype = MPI_DATATYPE_NULL;  ///< flattened at once; the program may free it
  int rank = MPI_PROC_NULL;                   ///< of the peer, in the communicator
  int tag = 0;
  int peer = -1;  ///< the peer's world rank; -1 for MPI_PROC_NULL
  std::shared_ptr<Communicator> communicator;
  std::string link = "auto";                 ///< wished by the info key
  int transport_partitions = 0;              ///< wished by the info key; 0: no wish
  link::Driver driver = link::Driver::host;  ///< who opens the epochs
  GpuCopy gpu_copy = GpuCopy::automatic;     ///< who moves what kernels mark
  bool in_place = false;                     ///< kernels store into the peer's memory themselves (MPIX_Pbuffer)
  Space space = Space::point_to_point;
  bool synchronous = false;  ///< an epoch of a send is over only once the receiver has started it
};

/// They, and what follows from them. Its packed bytes are those of the buffer without the datatype's gaps.
class Message {
 public:
  /// Throws Error where the memory that the buffer lies in does not go with the other arguments.
  Message(memory::DeviceMemory& device_memory, RequestArguments arguments);

  const RequestArguments& arguments() const { return arguments_; }
  bool is_sent() const { return arguments_.side == Side::send; }
  bool null_peer() const { return arguments_.peer < 0; }  ///< MPI_PROC_NULL
  bool is_device_driven() const { return arguments_.driver == link::Driver::device; }
  std::int64_t partitions() const { return arguments_.partitions; }
  std::int64_t total_bytes() const { return partitions() * arguments_.count * layout_.size_bytes(); }
  const memory::Place& place() const { return place_; }
  bool in_gpu_memory() const { return !memory::is_host(place_.kind); }

  /// Whether the packed bytes lie in the buffer as they are, from data() on: the datatype has no gaps.
  bool contiguous() const { return layout_.contiguous(); }
  std::byte* data() const { return arguments_.buffer + layout_.first_byte(); }
  const Layout& layout() const { return layout_; }
  /// Where the elements of a partition begin in the buffer.
  std::byte* partition(std::int64_t number) const {
    return arguments_.buffer + number * arguments_.count * layout_.extent_bytes();
  }
  /// The places of `partitions` among the packed bytes.
  link::Range packed_bytes(link::Range partitions) const {
    const std::int64_t each = arguments_.count * layout_.size_bytes();
    return {partitions.begin * each, partitions.end * each};
  }
  /// In host memory: copies `partitions` between the buffer and their places among the packed bytes, all of which
  /// `packed` has room for.
  void pack(link::Range partitions, std::byte* packed) const;
  void unpack(link::Range partitions, const std::byte* packed) const;
  /// Unpacks the first `size_bytes` only, which may end within an element.
  void unpack_bytes(std::int64_t size_bytes, const std::byte* packed) const;

  HalfTerms half_terms() const;
  /// How sentences about it begin.
  std::string name() const;

 private:
  RequestArguments arguments_;
  Layout layout_;
  memory::Place place_;  ///< of the buffer
};

}  // namespace partita
