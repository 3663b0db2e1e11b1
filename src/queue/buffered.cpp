#include "queue/buffered.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/current_error.hpp"
#include "core/insist.hpp"

namespace partita {
namespace {

/// So many begin to leave in a step, which keeps others from theirs.
constexpr int messages_each_step = 8;

/// As many bytes as the message has. Where there is nobody to send to there are none.
std::int64_t packed_bytes(const RequestArguments& arguments, const Layout& layout) {
  return arguments.peer < 0 ? 0 : arguments.count * layout.size_bytes();
}

void check_place(memory::DeviceMemory& device_memory, const std::byte* first, std::int64_t size_bytes) {
  if (size_bytes == 0) return;
  const memory::Place place = device_memory.place_of(first, static_cast<std::size_t>(size_bytes));
  if (memory::is_host(place.kind)) return;
  throw Error(ErrorClass::buffer,
              "argument buf is {} memory; expected is host memory, since a buffered send copies the message at once",
              memory::name_of(place.kind));
}

/// What links may read until the process ends, though its request is gone: an MPI takes no send back. Never destroyed.
std::list<std::vector<std::byte>>& left_to_links() {
  static auto* const bytes = new std::list<std::vector<std::byte>>;
  return *bytes;
}

std::mutex& of_left_to_links() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

BufferedSend::BufferedSend(const RequestServices& services, const RequestArguments& arguments)
    : Operation({}, arguments.communicator),
      services_(services),
      buffer_(arguments.buffer),
      count_(arguments.peer < 0 ? 0 : arguments.count),
      layout_(Layout::of(arguments.datatype)),
      leaving_(1, Bytes(static_cast<std::size_t>(packed_bytes(arguments, layout_)))),
      carried_(services, of_packed(arguments, packed_bytes(arguments, layout_), leaving_.front().data())) {
  left_to_links();  // so that the destructor finds it
  check_place(services.device_memory, buffer_ + layout_.first_byte(), packed_bytes(arguments, layout_));
}

BufferedSend::~BufferedSend() {
  services_.progress.dismiss(*this);
  if (!is_leaving_ || carried_.has_left_buffer()) return;
  const std::lock_guard lock(of_left_to_links());
  left_to_links().splice(left_to_links().end(), leaving_);
}

RequestArguments BufferedSend::of_packed(RequestArguments arguments, std::int64_t size_bytes, std::byte* packed) {
  arguments.space = Space::queue;
  arguments.buffer = packed;
  arguments.count = size_bytes;
  arguments.datatype = MPI_BYTE;
  return arguments;
}

void BufferedSend::begin_match() {
  if (seeks_) return;
  carried_.seek_peers();
  seeks_ = true;
}

void BufferedSend::start() {
  if (!matched()) {
    throw Error(ErrorClass::request, "the request is not matched; expected is one that Match has matched. {}",
                explain());
  }
  if (active()) {
    throw Error(ErrorClass::request, "the request is active already; complete it before it starts again. {}",
                explain());
  }
  Bytes message(leaving_.front().size());
  layout_.pack(buffer_, 0, count_, message.data());
  {
    const std::lock_guard lock(mutex_);
    throw_if_failed();
    waiting_.push_back(std::move(message));
  }
  active_.store(true, std::memory_order_release);
  services_.progress.activate(*this);
  services_.progress.poll();
}

bool BufferedSend::done() {
  const std::lock_guard lock(mutex_);
  throw_if_failed();
  return true;
}

bool BufferedSend::prepared() {
  if (!seeks_) throw Error(ErrorClass::request, "{}; expected is one that Match has matched", explain());
  return carried_.matched();
}

ActiveStep::Outcome BufferedSend::step() noexcept {
  try {
    int moves = 0;
    while (moves < 2 * messages_each_step && send_next()) ++moves;
    if (moves > 0) return Outcome::moved;
    const std::lock_guard lock(mutex_);
    return carried_.active() || !waiting_.empty() ? Outcome::waiting : Outcome::idle;
  } catch (const std::exception&) {
    give_up_with_current();
    return Outcome::idle;
  }
}

/// Whether a message has left, or the next one begins to.
bool BufferedSend::send_next() {
  if (carried_.active()) {
    if (!carried_.done()) return false;
    carried_.close();
    is_leaving_ = false;
    return true;
  }
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.empty()) return false;
    std::ranges::copy(waiting_.front(), leaving_.front().begin());
    waiting_.pop_front();
  }
  carried_.start();
  is_leaving_ = true;
  carried_.mark(0);
  return true;
}

/// The receiver hears of it.
void BufferedSend::give_up(const Error& error) {
  {
    const std::lock_guard lock(mutex_);
    failed_ = true;
    waiting_.clear();
    if (!failure_) failure_ = error;
  }
  carried_.fail(error);
}

/// Within a catch.
void BufferedSend::give_up_with_current() noexcept {
  try {
    insist([&] { give_up(current_error()); });
  } catch (const std::exception&) {
    const std::lock_guard lock(mutex_);
    failed_ = true;  // there is no memory to tell more
    waiting_.clear();
  }
}

/// Under the mutex.
void BufferedSend::throw_if_failed() const {
  if (failure_) throw Error(*failure_);
  if (failed_) throw Error(ErrorClass::no_mem, "a message that was copied could not be sent, for want of memory");
}

/// Without a cause the program ends, or frees the request: what was copied leaves all the same.
void BufferedSend::abandon(const std::optional<Error>& cause) {
  close();
  if (!cause) return;
  give_up(*cause);
  carried_.abandon(cause);
}

bool BufferedSend::lingers() {
  const auto exclusive = services_.progress.exclusive();
  const std::lock_guard lock(mutex_);
  return !failed_ && (carried_.active() || !waiting_.empty());
}

void BufferedSend::stop_lingering() {
  services_.progress.dismiss(*this);
  if (carried_.active()) carried_.abandon({});
  carried_.withdraw();
}

std::vector<InfoEntry> BufferedSend::info() const {
  std::vector<InfoEntry> entries = carried_.info();
  for (InfoEntry& entry : entries) {
    if (entry.key == std::string_view("partita_kind")) entry.value = kind();
    if (entry.key == std::string_view("partita_active")) entry.value = active() ? "true" : "false";
  }
  return entries;
}

/// Steps use the request inside, too.
std::string BufferedSend::explain() const {
  if (!seeks_) return "Nobody has called Match for the persistent request";
  const auto exclusive = services_.progress.exclusive();
  const std::lock_guard lock(mutex_);
  return fmt::format("{} Behind it {} messages wait that were copied.", carried_.explain(), waiting_.size());
}

}  // namespace partita
