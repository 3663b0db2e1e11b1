#include "partitioned/request.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "partitioned/runtime.hpp"

namespace partita {

void set_status(MPI_Status* status, int source, int tag, std::int64_t size_bytes) {
  if (status == MPI_STATUS_IGNORE) return;
  status->MPI_SOURCE = source;
  status->MPI_TAG = tag;
  // Set in bytes: MPI_Status_set_elements counts basic elements, of which a datatype may hold several kinds.
  PMPI_Status_set_elements_x(status, MPI_BYTE, size_bytes);
  PMPI_Status_set_cancelled(status, 0);
}

Request::Request(Runtime& runtime, RequestArguments arguments)
    : runtime_(runtime),
      arguments_(std::move(arguments)),
      layout_(Layout::of(arguments_.datatype)),
      epoch_(runtime.settings.first_epoch) {}

SideShape Request::shape() const {
  return {arguments_.partitions, arguments_.partitions * arguments_.count * layout_.size_bytes(),
          arguments_.transport_partitions};
}

link::Endpoint Request::endpoint() const {
  const std::int64_t total_bytes = shape().total_bytes;
  std::byte* data = staging_ != nullptr ? staging_ : arguments_.buffer + layout_.first_byte();
  return {arguments_.peer, data, total_bytes,
          runtime_.host_memory.kind_of(data, static_cast<std::size_t>(total_bytes))};
}

void Request::record(Trace::Event event, std::int64_t partition) const {
  runtime_.trace.record(event, matching.id, epoch_, partition);
}

void Request::complete() {
  record(Trace::Event::completed);
  if (wants_progress_) runtime_.progress.unwant();
  active_.store(false, std::memory_order_release);
}

void Request::abandon() {
  const std::lock_guard lock(setup_mutex_);
  if (active()) complete();
}

void Request::fill_status(MPI_Status* status) const {
  if (null_peer()) return set_status(status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
  if (side() == Side::send) return set_status(status, MPI_ANY_SOURCE, MPI_ANY_TAG, 0);
  set_status(status, arguments_.rank, arguments_.tag, shape().total_bytes);
}

void Request::fail(const Error& error) {
  {
    const std::lock_guard lock(failure_mutex_);
    if (!failure_) failure_ = error;
  }
  failed_.store(true, std::memory_order_release);
}

void Request::throw_if_failed() const {
  if (!failed_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(failure_mutex_);
  if (failure_) throw Error(*failure_);
}

void Request::check_startable() const {
  if (active()) {
    throw Error(ErrorClass::request, "the request is active already; complete it before it starts again. {}",
                explain());
  }
  throw_if_failed();
  if (side() == Side::send && matching.peer_freed) {
    throw Error(ErrorClass::request, "the receiver has freed its request. {}", explain());
  }
}

std::string Request::listed(const std::vector<std::int64_t>& numbers) {
  constexpr std::size_t most = 16;
  if (numbers.empty()) return {};
  const auto end = numbers.begin() + static_cast<std::ptrdiff_t>(std::min(numbers.size(), most));
  return fmt::format(" ({}{})", fmt::join(numbers.begin(), end, ", "), numbers.size() > most ? ", …" : "");
}

std::string Request::explain() const {
  const bool sends = side() == Side::send;
  std::string text = fmt::format(
      "Partitioned {} {} rank {} (world rank {}), tag {}, {} partitions, epoch {}: ", sends ? "send" : "receive",
      sends ? "to" : "from", arguments_.rank, arguments_.peer, arguments_.tag, arguments_.partitions, epoch_);
  if (null_peer()) return text + "the peer is MPI_PROC_NULL";
  if (matching.peer_freed) text += "the peer has freed its request; ";
  if (!matched())
    return text + fmt::format("not matched yet, the peer has not made (or not answered for) the {}",
                              sends ? "receive" : "send");
  return text + fmt::format("link {}, {} transport partitions, {}", link_name_, plan_.transport_partitions(),
                            active() ? describe_epoch() : "inactive");
}

}  // namespace partita
