#include "two_sided/message.hpp"

#include <string>
#include <utility>

#include "core/counted_type.hpp"
#include "core/element_block.hpp"
#include "core/mpi_check.hpp"

namespace partita {
namespace {

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
  if (count <= 0 || datatype == MPI_DATATYPE_NULL) return {};
  if (native::Type_get_true_extent_x(datatype, &first_byte, &span_bytes) != MPI_SUCCESS || span_bytes <= 0) return {};
  const memory::Place first = device_memory.place_of(shifted(buffer, first_byte), static_cast<std::size_t>(span_bytes));
  if (buffer != MPI_BOTTOM || first.kind == memory::Kind::device) return first;
  const memory::Place last = device_memory.place_of(shifted(buffer, first_byte + span_bytes - 1), 1);
  return last.kind == memory::Kind::device ? last : first;
}

TwoSidedMessage::TwoSidedMessage(GpuLanes& lanes, const TwoSidedArguments& arguments,
                                 std::shared_ptr<Communicator> communicator, std::string why_not_offered)
    : StagedRequest(is_persistent(arguments.call), std::move(communicator)),
      lanes_(lanes),
      why_not_offered_(std::move(why_not_offered)),
      arguments_(arguments) {
  if (!is_matched_receive(arguments_.call) && arguments.rank == MPI_PROC_NULL) return;
  const memory::Place place =
      place_of_elements(lanes.device_memory(), arguments.buffer, arguments.count, arguments.datatype);
  if (place.kind != memory::Kind::device) return;
  device_ = place.device;
  image_ = std::make_unique<HostImage>(lanes, place.device, arguments.buffer, arguments.count,
                                       Layout::of(arguments.datatype));
}

TwoSidedMessage::~TwoSidedMessage() {
  if (is_in_mpi()) leave_to_the_mpi();
}

std::string TwoSidedMessage::reason() const {
  if (image_ == nullptr) return {};
  if (why_not_offered_.empty()) return "staged in host memory";
  return "staged in host memory, and not offered to its receiver: " + why_not_offered_;
}

void TwoSidedMessage::leave_to_the_mpi() noexcept {
  if (image_ != nullptr) image_->leave_to_the_mpi();
}

void TwoSidedMessage::fetch() {
  if (image_ == nullptr) return;
  if (receives()) return deliver_behind_stream(lanes_, device_);
  await_stream(lanes_, device_);
  image_->fetch();
}

/// Without gaps the image has the program's datatype; with gaps it is what MPI_Pack would make of it, which any
/// datatype of the same signature meets (MPI-4, section 5.2).
int TwoSidedMessage::call_mpi(MPI_Request* request) {
  const bool has_gaps = image_ != nullptr && !image_->layout().contiguous();
  const CountedType counted(has_gaps ? image_->size_bytes() : arguments_.count,
                            has_gaps ? MPI_PACKED : arguments_.datatype);
  void* const buffer = image_ == nullptr ? arguments_.buffer
                       : has_gaps        ? image_->bytes()
                                         : shifted(image_->bytes(), -image_->layout().first_byte());
  return call_mpi_with(arguments_, buffer, counted.count(), counted.type(), request);
}

int call_mpi_with(const TwoSidedArguments& arguments, void* buffer, int count, MPI_Datatype datatype,
                  MPI_Request* request) {
  const auto& [call, of_program, elements, type, rank, tag, comm, message] = arguments;
  switch (call) {
    case MessageCall::isend:
      return native::Isend(buffer, count, datatype, rank, tag, comm, request);
    case MessageCall::issend:
      return native::Issend(buffer, count, datatype, rank, tag, comm, request);
    case MessageCall::irsend:
      return native::Irsend(buffer, count, datatype, rank, tag, comm, request);
    case MessageCall::ibsend:
      return native::Ibsend(buffer, count, datatype, rank, tag, comm, request);
    case MessageCall::irecv:
      return native::Irecv(buffer, count, datatype, rank, tag, comm, request);
    case MessageCall::imrecv:
      return native::Imrecv(buffer, count, datatype, message, request);
    case MessageCall::send_init:
      return native::Send_init(buffer, count, datatype, rank, tag, comm, request);
    case MessageCall::ssend_init:
      return native::Ssend_init(buffer, count, datatype, rank, tag, comm, request);
    case MessageCall::rsend_init:
      return native::Rsend_init(buffer, count, datatype, rank, tag, comm, request);
    case MessageCall::bsend_init:
      return native::Bsend_init(buffer, count, datatype, rank, tag, comm, request);
    case MessageCall::recv_init:
      return native::Recv_init(buffer, count, datatype, rank, tag, comm, request);
  }
  return MPI_ERR_INTERN;
}

const char* TwoSidedMessage::call_name() const {
  return names_of(arguments_.call).call;
}

/// Delivers as much as was received, and nothing where the receive was cancelled.
void TwoSidedMessage::begin_delivery(const MPI_Status& status) {
  if (image_ == nullptr || !receives()) return;
  int cancelled = 0;
  MPI_Count received_bytes = 0;
  PARTITA_MPI(Test_cancelled(&status, &cancelled));
  if (cancelled != 0) return;
  PARTITA_MPI(Get_elements_x(&status, MPI_BYTE, &received_bytes));
  image_->begin_delivery(received_bytes);
}

void TwoSidedMessage::cancel() {
  cancel_in_mpi();
}

const char* TwoSidedMessage::kind() const {
  return names_of(arguments_.call).kind;
}

std::string TwoSidedMessage::explain() const {
  std::string what = fmt::format("A {} of {} elements", names_of(arguments_.call).text, arguments_.count);
  if (image_ != nullptr) what += fmt::format(", {} bytes in GPU memory,", image_->size_bytes());
  if (!is_matched_receive(arguments_.call)) {
    what +=
        fmt::format(" {} {} with {}", receives() ? "from" : "to", rank_text(arguments_.rank), tag_text(arguments_.tag));
  }
  if (!is_delivered() || !receives()) return what + " waits for the MPI";
  return what + (waits_for_stream() ? behind_stream : " has arrived and is copied to the GPU");
}

}  // namespace partita
