// Nonblocking and persistent messages of the MPI's (MPI-4, sections 3.7.2, 3.8.2 and 3.9) whose buffers may lie in GPU
// memory.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <memory>
#include <string>

#include "memory/device.hpp"
#include "two_sided/host_image.hpp"
#include "two_sided/message_call.hpp"
#include "two_sided/staged_request.hpp"

namespace partita {

/// What such a call was given. Only the MPI checks what is passed on to it.
struct TwoSidedArguments {
  MessageCall call;
  std::byte* buffer;
  MPI_Count count;
  MPI_Datatype datatype;
  int rank;  ///< in `comm`; not of imrecv, as the next two
  int tag;
  MPI_Comm comm;
  MPI_Message* message;  ///< of imrecv
};

/// Makes the MPI's call, with another buffer than the program's.
int call_mpi_with(const TwoSidedArguments& arguments, void* buffer, int count, MPI_Datatype datatype,
                  MPI_Request* request);

/// Where the elements of a buffer lie: host memory, where there are none. Those of MPI_BOTTOM may lie in several
/// places: in a GPU where the lowest or the highest byte does, which BufferPlace refuses then.
memory::Place place_of_elements(memory::DeviceMemory& device_memory, const void* buffer, MPI_Count count,
                                MPI_Datatype datatype);

/// One message of the MPI's, with its matching, its order, its statuses and its errors. A buffer in GPU memory is given
/// to it as an image in host memory, in one message of the same signature, so that the peer may use host memory and
/// need not know of Partita.
class TwoSidedMessage final : public StagedRequest {
 public:
  /// `communicator`: whose error handler hears of errors that are not the MPI's. `why_not_offered`: empty where nobody
  /// has thought of it. Throws Error.
  TwoSidedMessage(GpuLanes& lanes, const TwoSidedArguments& arguments, std::shared_ptr<Communicator> communicator,
                  std::string why_not_offered);
  ~TwoSidedMessage() override;

  bool goes_on_when_freed() const override { return true; }
  void cancel() override;
  const char* kind() const override;
  std::string explain() const override;

 private:
  bool receives() const { return partita::receives(arguments_.call); }
  void fetch() override;
  int call_mpi(MPI_Request* request) override;
  const char* call_name() const override;
  void begin_delivery(const MPI_Status& status) override;
  bool settled() override { return image_ == nullptr || image_->settled(); }
  const char* memory_name() const override { return image_ == nullptr ? nullptr : "device"; }
  std::string reason() const override;
  void leave_to_the_mpi() noexcept override;
  /// A send cannot be taken back, and a receive only while nothing has come for it.
  bool may_be_cancelled() const override { return receives(); }

  GpuLanes& lanes_;
  const std::string why_not_offered_;
  TwoSidedArguments arguments_;
  int device_ = -1;                   ///< -1: host memory
  std::unique_ptr<HostImage> image_;  ///< null for host memory
};

}  // namespace partita
