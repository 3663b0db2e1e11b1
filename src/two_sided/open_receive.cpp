#include "two_sided/open_receive.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/counted_type.hpp"
#include "core/current_error.hpp"
#include "core/element_block.hpp"
#include "core/mpi_check.hpp"
#include "two_sided/buffer_place.hpp"

namespace partita {

OpenReceive::OpenReceive(Offers& offers, const TwoSidedArguments& arguments, std::shared_ptr<Communicator> communicator)
    : StagedRequest(is_persistent(arguments.call), std::move(communicator)),
      offers_(offers),
      arguments_(arguments),
      layout_(offers.layouts().of(arguments.datatype)),
      room_bytes_(arguments.count * layout_->size_bytes()) {
  GpuLanes& lanes = offers_.services().lanes;
  const memory::Place place =
      place_of_elements(lanes.device_memory(), arguments.buffer, arguments.count, arguments.datatype);
  if (place.kind == memory::Kind::device) {
    device_ = place.device;
    image_ = std::make_unique<HostImage>(lanes, device_, arguments.buffer, arguments.count, *layout_);
  } else if (!layout_->contiguous() && room_bytes_ > 0) {
    packed_ = lanes.take_memory(room_bytes_);
  }
}

OpenReceive::~OpenReceive() {
  offers_.posted().remove(*this);
  std::unique_lock(mutex_).unlock();  // who has held it has let it go
  offers_.services().requests.progress.dismiss(*this);
  if (is_in_mpi()) leave_to_the_mpi();
  GpuLanes& lanes = offers_.services().lanes;
  if (packed_ != nullptr) packed_is_the_mpis_ ? lanes.leave(packed_) : lanes.give_back(packed_, room_bytes_);
}

/// A persistent one has it still in later starts.
void OpenReceive::leave_to_the_mpi() noexcept {
  if (image_ != nullptr) image_->leave_to_the_mpi();
  packed_is_the_mpis_ = true;
}

/// Where the MPI puts the bytes, packed.
std::byte* OpenReceive::target() const {
  if (image_ != nullptr) return image_->bytes();
  return packed_ != nullptr ? packed_ : shifted(arguments_.buffer, layout_->first_byte());
}

void OpenReceive::fetch() {
  if (image_ != nullptr) deliver_behind_stream(offers_.services().lanes, device_);
}

/// An offer is no whole number of the program's elements, at which MPICH ends the process: so what is received is
/// packed, which meets any datatype (MPI-4, section 5.2). The MPI looks at the program's arguments before.
int OpenReceive::call_mpi(MPI_Request* request) {
  const auto& [call, of_program, elements, type, rank, tag, comm, message] = arguments_;
  const CountedType given(elements, type);
  const MPI_Comm heard = is_matched_receive(call) ? MPI_COMM_SELF : comm;
  int code = native::Recv(of_program, given.count(), given.type(), MPI_PROC_NULL, 0, heard, MPI_STATUS_IGNORE);
  if (code != MPI_SUCCESS) return code;
  if (is_matched_receive(call) && has_found(offers_.probed().take(message))) {
    *message = MPI_MESSAGE_NULL;
    return receive_found(request);
  }
  const CountedType packed(room_bytes_, MPI_PACKED);
  if (is_matched_receive(call)) return native::Imrecv(target(), packed.count(), packed.type(), message, request);
  if (persistent()) return native::Recv_init(target(), packed.count(), packed.type(), rank, tag, comm, request);
  const auto lock = offers_.probed().lock();
  if (has_found(offers_.probed().take(rank, tag, comm))) return receive_found(request);
  return native::Irecv(target(), packed.count(), packed.type(), rank, tag, comm, request);
}

int OpenReceive::start_mpi(MPI_Request* request) {
  const auto lock = offers_.probed().lock();
  if (!has_found(offers_.probed().take(arguments_.rank, arguments_.tag, arguments_.comm)))
    return native::Start(request);
  return start_apart(request, [this](MPI_Request* made) { return receive_found(made); });
}

bool OpenReceive::has_found(std::optional<ProbedMessages::Message> found) {
  found_ = std::move(found);
  return found_.has_value();
}

/// Only the handle was found where the MPI still has the message.
int OpenReceive::receive_found(MPI_Request* request) {
  if (!found_ || found_->content) return MPI_SUCCESS;
  MPI_Message handle = found_->handle;
  found_.reset();
  const CountedType packed(room_bytes_, MPI_PACKED);
  return native::Imrecv(target(), packed.count(), packed.type(), &handle, request);
}

bool OpenReceive::is_there(MPI_Status& status) {
  if (found_) status = found_->status;
  return found_.has_value();
}

/// The engine finds it in the MPI, or not at all.
void OpenReceive::seek_peers() {
  const std::lock_guard lock(mutex_);
  StagedRequest::seek_peers();
  have_steps_taken();
}

void OpenReceive::start() {
  const std::lock_guard lock(mutex_);
  StagedRequest::start();
  have_steps_taken();
}

/// While the MPI has it, the engine asks; with an offer, or what may be one and comes behind a stream, it goes on. All
/// other receives end in whoever completes them.
void OpenReceive::have_steps_taken() {
  const bool is_to_be_posted = is_in_mpi() && has_room_for_offer();
  if (is_to_be_posted != is_posted_) {
    is_to_be_posted ? offers_.posted().add(*this) : offers_.posted().remove(*this);
    is_posted_ = is_to_be_posted;
  }
  if (goes_on_by_steps()) offers_.services().requests.progress.activate(*this);
}

bool OpenReceive::done() {
  const std::lock_guard lock(mutex_);
  if (is_looking_) return false;
  struct Looking {
    explicit Looking(OpenReceive& receive) : receive(receive) { receive.is_looking_ = true; }
    ~Looking() {
      receive.is_looking_ = false;
      if (receive.is_posted_ || receive.goes_on_by_steps()) receive.have_steps_taken();  // which posts nothing here
    }
    OpenReceive& receive;
  } const looking(*this);
  return StagedRequest::done();
}

/// The engine leaves it to the call that asks for it.
void OpenReceive::leave_asking_to(AskedTogether& together) {
  const std::lock_guard lock(mutex_);
  if (!is_looking_) StagedRequest::leave_asking_to(together);
}

void OpenReceive::answered(MPI_Request request, int code, const MPI_Status& status) noexcept {
  const std::lock_guard lock(mutex_);
  StagedRequest::answered(request, code, status);
}

void OpenReceive::let_go() noexcept {
  const std::lock_guard lock(mutex_);
  StagedRequest::let_go();
}

void OpenReceive::cancel_if_wanted() noexcept {
  const std::lock_guard lock(mutex_);
  StagedRequest::cancel_if_wanted();
}

void OpenReceive::withdraw() {
  const std::lock_guard lock(mutex_);
  StagedRequest::withdraw();
}

/// The program hears of a failure from whoever completes the request.
bool OpenReceive::look_and_let_go() noexcept {
  const std::lock_guard lock(mutex_, std::adopt_lock);
  if (is_looking_ || !is_in_mpi() || asked_in() != nullptr) return false;
  try {
    done();
  } catch (const std::exception&) {
    // As said.
  }
  return !is_in_mpi();
}

/// As above.
ActiveStep::Outcome OpenReceive::step() noexcept {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || is_looking_) return Outcome::waiting;
  if (!active() || !goes_on_by_steps()) return Outcome::idle;
  try {
    return done() ? Outcome::idle : Outcome::waiting;
  } catch (const std::exception&) {
    return Outcome::idle;
  }
}

void OpenReceive::close() {
  const std::lock_guard lock(mutex_);
  StagedRequest::close();
}

void OpenReceive::fail(const Error& error) {
  const std::lock_guard lock(mutex_);
  StagedRequest::fail(error);
}

void OpenReceive::abandon(const std::optional<Error>& cause) {
  const std::lock_guard lock(mutex_);
  StagedRequest::abandon(cause);
  taken_.reset();
  have_steps_taken();
}

/// Once it has met a message it is not cancelled any more.
void OpenReceive::cancel() {
  const std::lock_guard lock(mutex_);
  cancel_in_mpi();
}

void OpenReceive::begin_delivery(const MPI_Status& status) {
  if (const auto found = std::exchange(found_, std::nullopt); found && found->content) return look_at(*found->content);
  int cancelled = 0;
  MPI_Count received_bytes = 0;
  PARTITA_MPI(Test_cancelled(&status, &cancelled));
  if (cancelled != 0) return;
  PARTITA_MPI(Get_elements_x(&status, MPI_BYTE, &received_bytes));
  if (received_bytes != static_cast<MPI_Count>(OfferRecord::bytes)) return deliver(received_bytes);
  look_at(received_record());
}

/// The sender is released, though nobody has its bytes: it was received.
void OpenReceive::refuse(const MPI_Status& status) noexcept {
  if (const auto found = std::exchange(found_, std::nullopt); found && found->content) return refuse(*found->content);
  int cancelled = 0;
  MPI_Count received_bytes = 0;
  if (native::Test_cancelled(&status, &cancelled) != MPI_SUCCESS || cancelled != 0) return;
  if (native::Get_elements_x(&status, MPI_BYTE, &received_bytes) != MPI_SUCCESS) return;
  if (received_bytes == static_cast<MPI_Count>(OfferRecord::bytes)) refuse(received_record());
}

void OpenReceive::refuse(const OfferRecord::Bytes& message) noexcept {
  if (!OfferRecord::is_one(message, offers_.services().mark)) return;
  try {
    TakenOffer::refuse(offers_.services(), OfferRecord::read(message));
  } catch (const std::exception&) {
    // It names no offer.
  }
}

OfferRecord::Bytes OpenReceive::received_record() const {
  OfferRecord::Bytes message;
  std::memcpy(message.data(), target(), message.size());
  return message;
}

/// A message as long as an offer.
void OpenReceive::look_at(const OfferRecord::Bytes& message) {
  constexpr auto message_bytes = static_cast<std::int64_t>(OfferRecord::bytes);
  if (OfferRecord::is_one(message, offers_.services().mark)) {
    TakenOffer::Place place{nullptr, device_, room_bytes_};
    if (image_ != nullptr && layout_->contiguous()) {
      place.on_gpu = shifted(arguments_.buffer, layout_->first_byte());
      try {
        check_still_in_gpu(offers_.services().requests.device_memory, place.on_gpu, device_);
      } catch (const Error&) {
        refuse(message);
        throw;
      }
    }
    taken_ = std::make_unique<TakenOffer>(offers_.services(), offers_.mappings(), OfferRecord::read(message), place);
    why_not_copied_ = taken_->why_not();
    if (!why_not_copied_.empty()) offers_.tell(why_not_copied_);
    return;
  }
  if (room_bytes_ < message_bytes) {
    throw Error(ErrorClass::truncate, "the message has {} bytes, and the receive room for {}", message_bytes,
                room_bytes_);
  }
  std::memcpy(target(), message.data(), message.size());
  deliver(message_bytes);
}

bool OpenReceive::settled() {
  if (taken_ != nullptr) {
    const TakenOffer::Outcome outcome = taken_->proceed(target());
    if (outcome == TakenOffer::Outcome::open) return false;
    const std::int64_t size_bytes = taken_->size_bytes();
    taken_.reset();
    PARTITA_MPI(Status_set_elements_x(&status(), MPI_BYTE, size_bytes));
    if (outcome == TakenOffer::Outcome::in_host) deliver(size_bytes);
  }
  return image_ == nullptr || image_->settled();
}

void OpenReceive::deliver(std::int64_t received_bytes) {
  if (image_ != nullptr) image_->begin_delivery(received_bytes);
  if (packed_ != nullptr) unpack(received_bytes);
}

/// The last element may have come in part.
void OpenReceive::unpack(std::int64_t received_bytes) const {
  const std::int64_t whole = received_bytes / layout_->size_bytes();
  layout_->unpack(packed_, arguments_.buffer, 0, whole);
  const std::byte* from = packed_ + whole * layout_->size_bytes();
  std::byte* const last = shifted(arguments_.buffer, whole * layout_->extent_bytes());
  std::int64_t rest_bytes = received_bytes % layout_->size_bytes();
  for (const Layout::Run& run : layout_->runs()) {
    for (std::int64_t piece = 0; piece < run.count && rest_bytes > 0; ++piece) {
      const std::int64_t piece_bytes = std::min(run.length_bytes, rest_bytes);
      std::memcpy(last + run.offset_bytes + piece * run.stride_bytes, from, static_cast<std::size_t>(piece_bytes));
      from += piece_bytes;
      rest_bytes -= piece_bytes;
    }
  }
}

std::string OpenReceive::reason() const {
  const std::lock_guard lock(mutex_);
  return why_not_copied_.empty() ? "" : "staged by its sender: " + why_not_copied_;
}

int OpenReceive::waits_for() const {
  const std::lock_guard lock(mutex_);
  return taken_ == nullptr ? -1 : taken_->sender();
}

std::string OpenReceive::explain() const {
  const std::lock_guard lock(mutex_);
  std::string what = fmt::format("A {} of {} bytes", names_of(arguments_.call).text, room_bytes_);
  if (taken_ != nullptr) return what + ", which has met an offered message, that " + taken_->explain();
  if (!is_delivered()) return what + " waits for the MPI";
  return what + (waits_for_stream() ? behind_stream : " has arrived and is copied to the GPU");
}

}  // namespace partita
