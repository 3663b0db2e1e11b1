// Nonblocking messages of the MPI's (MPI-4, sections 3.7.2 and 3.8.2) whose buffers may lie in GPU memory.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "memory/device.hpp"
#include "partitioned/operation.hpp"
#include "two_sided/host_image.hpp"

namespace partita {

/// The call of the MPI's that a message stands for.
enum class MessageCall : std::uint8_t { isend, issend, irsend, ibsend, irecv, imrecv };

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

/// Where the elements of a buffer lie: host memory, where there are none.
memory::Place place_of_elements(memory::DeviceMemory& device_memory, const void* buffer, MPI_Count count,
                                MPI_Datatype datatype);

/// One message of the MPI's, with its matching, its order, its statuses and its errors. A buffer in GPU memory is given
/// to it as an image in host memory, in one message of the same signature, so that the peer may use host memory and
/// need not know of Partita. A send's way: made → its bytes are fetched → the MPI sends them. A receive's: made → the
/// MPI receives into the image → whoever looks begins the copy to the GPU, once → that has ended. It may be freed while
/// it is active and goes on then. The program's error handler hears of the MPI's errors from whoever asks the MPI: once
/// it is freed, the progress engine.
class TwoSidedMessage final : public Operation {
 public:
  /// `communicator`: whose error handler hears of errors that are not the MPI's. Throws Error.
  TwoSidedMessage(GpuLanes& lanes, const TwoSidedArguments& arguments, std::shared_ptr<Communicator> communicator);
  ~TwoSidedMessage() override;

  /// Calls the MPI.
  void seek_peers() override;
  bool matched() const override { return true; }
  bool persistent() const override { return false; }
  bool goes_on_when_freed() const override { return true; }
  void start() override;
  bool active() const override { return active_; }
  bool open() const override { return active(); }
  bool done() override;
  bool prepared() override;
  void close() override { active_ = false; }
  void cancel() override;
  void fill_status(MPI_Status* status) const override;
  void fail(const Error& error) override { failure_ = error; }
  void abandon(const std::optional<Error>& cause) override;
  void withdraw() override {}
  std::vector<Half*> halves() override { return {}; }
  bool lingers() override;
  void stop_lingering() override { abandon({}); }
  bool in_gpu_memory() const override { return false; }  // it holds nothing of a peer's
  const char* kind() const override;
  bool has_partitions() const override { return false; }
  std::vector<InfoEntry> info() const override;
  std::string explain() const override;
  int waits_for() const override { return -1; }

 private:
  bool receives() const { return arguments_.call == MessageCall::irecv || arguments_.call == MessageCall::imrecv; }
  bool is_matched_receive() const { return arguments_.call == MessageCall::imrecv; }
  bool proceed();
  int call_mpi(void* buffer, int count, MPI_Datatype datatype);
  void begin_delivery();

  TwoSidedArguments arguments_;
  std::unique_ptr<HostImage> image_;  ///< null for host memory
  MPI_Request request_ = MPI_REQUEST_NULL;
  MPI_Status status_{};
  bool active_ = true;
  bool is_transferred_ = false;  ///< by the MPI
  std::optional<Error> failure_;
};

}  // namespace partita
