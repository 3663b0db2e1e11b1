#include "two_sided/message.hpp"

#include <array>

#include "core/counted_type.hpp"
#include "core/current_error.hpp"
#include "core/element_block.hpp"
#include "core/mpi_check.hpp"

namespace partita {
namespace {

struct Name {
  const char* kind;
  const char* call;
  const char* text;
};

const Name& name_of(MessageCall call) {
  static constexpr std::array<Name, 6> names = {{{"isend", "MPI_Isend", "send"},
                                                 {"issend", "MPI_Issend", "synchronous send"},
                                                 {"irsend", "MPI_Irsend", "ready send"},
                                                 {"ibsend", "MPI_Ibsend", "buffered send"},
                                                 {"irecv", "MPI_Irecv", "receive"},
                                                 {"imrecv", "MPI_Imrecv", "receive of a probed message"}}};
  return names[static_cast<std::size_t>(call)];
}

/// The communicator's error handler has heard of a failure of these calls.
void check_raised(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  int mpi_class = MPI_ERR_OTHER;
  native::Error_class(code, &mpi_class);
  throw Error(error_class_of(mpi_class), "the MPI failed in {}: {}", call, mpi_text(code)).raised_as(code);
}

/// A call that has succeeded has made a request. MPICH 5.0 returns success behind an error handler of the program's.
void check_made(int code, const MPI_Request& request, const char* call) {
  check_raised(code == MPI_SUCCESS && request == MPI_REQUEST_NULL ? MPI_ERR_OTHER : code, call);
}

std::string rank_text(int rank) {
  return rank == MPI_ANY_SOURCE ? "any rank" : fmt::format("rank {}", rank);
}
std::string tag_text(int tag) {
  return tag == MPI_ANY_TAG ? "any tag" : fmt::format("tag {}", tag);
}

}  // namespace

memory::Place place_of_elements(memory::DeviceMemory& device_memory, const void* buffer, MPI_Count count,
                                MPI_Datatype datatype) {
  MPI_Count first_byte = 0;
  MPI_Count span_bytes = 0;
  if (!device_memory.in_use() || count <= 0 || datatype == MPI_DATATYPE_NULL) return {};
  if (native::Type_get_true_extent_x(datatype, &first_byte, &span_bytes) != MPI_SUCCESS || span_bytes <= 0) return {};
  return device_memory.place_of(shifted(buffer, first_byte), static_cast<std::size_t>(span_bytes));
}

TwoSidedMessage::TwoSidedMessage(GpuLanes& lanes, const TwoSidedArguments& arguments,
                                 std::shared_ptr<Communicator> communicator)
    : Operation({}, std::move(communicator)), arguments_(arguments) {
  if (!is_matched_receive() && arguments.rank == MPI_PROC_NULL) return;
  const memory::Place place =
      place_of_elements(lanes.device_memory(), arguments.buffer, arguments.count, arguments.datatype);
  if (place.kind != memory::Kind::device) return;
  image_ = std::make_unique<HostImage>(lanes, place.device, arguments.buffer, arguments.count,
                                       Layout::of(arguments.datatype));
}

TwoSidedMessage::~TwoSidedMessage() {
  if (request_ != MPI_REQUEST_NULL && image_ != nullptr) image_->leave_to_the_mpi();
}

/// Without gaps the image has the program's datatype; with gaps it is what MPI_Pack would make of it, which any
/// datatype of the same signature meets (MPI-4, section 5.2).
void TwoSidedMessage::seek_peers() {
  if (image_ == nullptr) {
    const CountedType counted(arguments_.count, arguments_.datatype);
    return check_made(call_mpi(arguments_.buffer, counted.count(), counted.type()), request_,
                      name_of(arguments_.call).call);
  }
  if (!receives()) image_->fetch();
  const bool has_gaps = !image_->layout().contiguous();
  const CountedType counted(has_gaps ? image_->size_bytes() : arguments_.count,
                            has_gaps ? MPI_PACKED : arguments_.datatype);
  void* const buffer = has_gaps ? image_->bytes() : shifted(image_->bytes(), -image_->layout().first_byte());
  check_made(call_mpi(buffer, counted.count(), counted.type()), request_, name_of(arguments_.call).call);
}

int TwoSidedMessage::call_mpi(void* buffer, int count, MPI_Datatype datatype) {
  const auto& [call, of_program, elements, type, rank, tag, comm, message] = arguments_;
  switch (call) {
    case MessageCall::isend:
      return native::Isend(buffer, count, datatype, rank, tag, comm, &request_);
    case MessageCall::issend:
      return native::Issend(buffer, count, datatype, rank, tag, comm, &request_);
    case MessageCall::irsend:
      return native::Irsend(buffer, count, datatype, rank, tag, comm, &request_);
    case MessageCall::ibsend:
      return native::Ibsend(buffer, count, datatype, rank, tag, comm, &request_);
    case MessageCall::irecv:
      return native::Irecv(buffer, count, datatype, rank, tag, comm, &request_);
    case MessageCall::imrecv:
      return native::Imrecv(buffer, count, datatype, message, &request_);
  }
  return MPI_ERR_INTERN;
}

void TwoSidedMessage::start() {
  throw Error(ErrorClass::request, "the request is that of a nonblocking message; expected is a persistent one");
}

bool TwoSidedMessage::prepared() {
  throw Error(ErrorClass::request, "the request is that of a nonblocking message; expected is one with partitions");
}

/// What has failed once stays so: a second look would find the MPI's request gone, and take that for success.
bool TwoSidedMessage::done() {
  if (failure_) throw Error(*failure_);
  try {
    return proceed();
  } catch (const std::exception&) {
    failure_ = current_error();
    throw;
  }
}

bool TwoSidedMessage::proceed() {
  if (!is_transferred_) {
    int complete = 0;
    check_raised(native::Test(&request_, &complete, &status_), "MPI_Test");
    if (complete == 0) return false;
    is_transferred_ = true;
    if (image_ != nullptr && receives()) begin_delivery();
  }
  return image_ == nullptr || image_->settled();
}

/// Delivers as much as was received, and nothing where the receive was cancelled.
void TwoSidedMessage::begin_delivery() {
  int cancelled = 0;
  MPI_Count received_bytes = 0;
  PARTITA_MPI(Test_cancelled(&status_, &cancelled));
  if (cancelled != 0) return;
  PARTITA_MPI(Get_elements_x(&status_, MPI_BYTE, &received_bytes));
  image_->begin_delivery(received_bytes);
}

void TwoSidedMessage::cancel() {
  if (request_ != MPI_REQUEST_NULL) check_raised(native::Cancel(&request_), "MPI_Cancel");
}

void TwoSidedMessage::fill_status(MPI_Status* status) const {
  if (status == MPI_STATUS_IGNORE) return;
  const int error = status->MPI_ERROR;
  *status = status_;
  status->MPI_ERROR = error;
}

/// A send cannot be taken back, and a receive only while nothing has come for it: then the image is the MPI's.
void TwoSidedMessage::abandon(const std::optional<Error>&) {
  active_ = false;
  if (request_ == MPI_REQUEST_NULL) return;
  int complete = 0;
  if (receives()) native::Cancel(&request_);
  native::Test(&request_, &complete, MPI_STATUS_IGNORE);
  if (request_ == MPI_REQUEST_NULL) return;
  if (image_ != nullptr) image_->leave_to_the_mpi();
  native::Request_free(&request_);
}

bool TwoSidedMessage::lingers() {
  try {
    return active_ && !done();
  } catch (const std::exception&) {
    return false;
  }
}

const char* TwoSidedMessage::kind() const {
  return name_of(arguments_.call).kind;
}

std::vector<InfoEntry> TwoSidedMessage::info() const {
  return {{"partita_kind", kind()}, {"partita_active", active() ? "true" : "false"}};
}

std::string TwoSidedMessage::explain() const {
  std::string what = fmt::format("A {} of {} elements", name_of(arguments_.call).text, arguments_.count);
  if (image_ != nullptr) what += fmt::format(", {} bytes in GPU memory,", image_->size_bytes());
  if (!is_matched_receive()) {
    what +=
        fmt::format(" {} {} with {}", receives() ? "from" : "to", rank_text(arguments_.rank), tag_text(arguments_.tag));
  }
  const bool is_copied = is_transferred_ && receives();
  return what + (is_copied ? " has arrived and is copied to the GPU" : " waits for the MPI");
}

}  // namespace partita
