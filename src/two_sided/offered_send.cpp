#include "two_sided/offered_send.hpp"

#include <algorithm>
#include <utility>

#include "core/counted_type.hpp"
#include "core/element_block.hpp"
#include "core/mpi_check.hpp"
#include "two_sided/buffer_place.hpp"

namespace partita {
namespace {

constexpr auto record_bytes = static_cast<int>(OfferRecord::bytes);

/// The nonblocking call in the same mode.
MessageCall single(MessageCall call) {
  switch (call) {
    case MessageCall::send_init:
      return MessageCall::isend;
    case MessageCall::ssend_init:
      return MessageCall::issend;
    case MessageCall::rsend_init:
      return MessageCall::irsend;
    default:
      return call;
  }
}

}  // namespace

OfferedSend::OfferedSend(Offers& offers, const TwoSidedArguments& arguments, OfferedMemory memory,
                         std::shared_ptr<Communicator> communicator)
    : StagedRequest(is_persistent(arguments.call), std::move(communicator)),
      offers_(offers),
      arguments_(arguments),
      memory_(std::move(memory)),
      record_(offers.services().lanes.take_memory(record_bytes)) {}

OfferedSend::~OfferedSend() {
  if (is_in_mpi()) leave_to_the_mpi();
  give_up();
  GpuLanes& lanes = offers_.services().lanes;
  is_the_mpis_ ? lanes.leave(record_) : lanes.give_back(record_, record_bytes);
}

void OfferedSend::leave_to_the_mpi() noexcept {
  if (image_ != nullptr) {
    image_->leave_to_the_mpi();
  } else {
    is_the_mpis_ = true;
  }
}

/// Makes the offer: the MPI's message is called, or started, next.
void OfferedSend::fetch() {
  give_up();
  is_complete_ = false;
  check_still_in_gpu(offers_.services().requests.device_memory, shifted(memory_.buffer, memory_.layout.first_byte()),
                     memory_.device);
  await_stream(offers_.services().lanes, memory_.device);
  offer_ = offers_.offer(memory_);
  if (offer_ != nullptr) {
    std::ranges::copy(offer_->record(), record_);
    return;
  }
  image_ = std::make_unique<HostImage>(offers_.services().lanes, memory_.device, memory_.buffer, memory_.count,
                                       memory_.layout);
  image_->fetch();
}

/// The MPI looks at the program's arguments before.
int OfferedSend::call_mpi(MPI_Request* request) {
  if (image_ != nullptr) return send_image(request);
  const CountedType given(arguments_.count, arguments_.datatype);
  const int code = native::Send(arguments_.buffer, given.count(), given.type(), MPI_PROC_NULL, 0, arguments_.comm);
  if (code != MPI_SUCCESS) return code;
  return call_mpi_with(arguments_, record_, record_bytes, MPI_PACKED, request);
}

int OfferedSend::start_mpi(MPI_Request* request) {
  if (image_ == nullptr) return native::Start(request);
  return start_apart(request, [this](MPI_Request* made) { return send_image(made); });
}

int OfferedSend::send_image(MPI_Request* request) const {
  TwoSidedArguments arguments = arguments_;
  arguments.call = single(arguments_.call);
  const CountedType counted(arguments.count, arguments.datatype);
  return call_mpi_with(arguments, shifted(image_->bytes(), -memory_.layout.first_byte()), counted.count(),
                       counted.type(), request);
}

bool OfferedSend::settled() {
  is_complete_ = is_complete_ || image_ != nullptr || offer_->settled();
  return is_complete_;
}

void OfferedSend::close() {
  StagedRequest::close();
  give_up();
}

/// Where the receiver copies meanwhile the program's memory is undefined.
void OfferedSend::abandon(const std::optional<Error>& cause) {
  StagedRequest::abandon(cause);
  give_up();
}

void OfferedSend::give_up() noexcept {
  image_ = nullptr;
  if (offer_ == nullptr) return;
  if (!is_complete_) offer_->withdraw();
  offers_.leave(std::move(offer_));
}

std::string OfferedSend::explain() const {
  const std::string what =
      fmt::format("A {} of {} bytes in GPU memory, {} to rank {} with tag {}", names_of(arguments_.call).text,
                  memory_.size_bytes(), image_ == nullptr ? "offered" : "staged", memory_.receiver, arguments_.tag);
  return offer_ == nullptr ? what : what + ", " + offer_->explain();
}

}  // namespace partita
