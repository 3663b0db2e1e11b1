#include "partitioned/recv.hpp"

#include <cstring>

#include "partitioned/runtime.hpp"

namespace partita {

RecvRequest::RecvRequest(Runtime& runtime, RequestArguments arguments)
    : Request(runtime, std::move(arguments)),
      traced_(runtime.trace.enabled() ? static_cast<std::size_t>(arguments_.partitions) : 0),
      claimed_(static_cast<std::size_t>(arguments_.partitions)),
      delivered_(static_cast<std::size_t>(arguments_.partitions)) {
  if (!layout_.contiguous() && !null_peer()) {
    staging_bytes_ = static_cast<std::size_t>(shape().total_bytes);
    staging_ = runtime_.host_memory.allocate_block(staging_bytes_);
  }
}

RecvRequest::~RecvRequest() {
  link_.reset();
  if (staging_ != nullptr) runtime_.host_memory.free_block(staging_, staging_bytes_);
}

void RecvRequest::start() {
  check_startable();
  std::unique_lock lock(setup_mutex_, std::defer_lock);
  if (!matched()) lock.lock();
  epoch_ = next(epoch_);
  seen_ = 0;
  if (matched()) open_epoch();
  record(Trace::Event::started);
  active_.store(true, std::memory_order_release);
}

void RecvRequest::open_epoch() {
  link_->open(epoch_);
  if (wants_progress_) runtime_.progress.want();
}

void RecvRequest::connect(const link::Plan& plan, std::unique_ptr<link::Receiver> link, std::string link_name,
                          std::string reason) {
  const std::lock_guard lock(setup_mutex_);
  plan_ = plan;
  link_ = std::move(link);
  link_name_ = std::move(link_name);
  link_reason_ = std::move(reason);
  wants_progress_ = link_->needs_progress();
  if (active()) open_epoch();
  matched_.store(true, std::memory_order_release);
}

bool RecvRequest::arrived(std::int64_t partition) {
  check_partition(partition);
  if (!active() || null_peer()) return true;
  throw_if_failed();
  if (matched() && transports_arrived(plan_.transports_of_recv(partition)) && deliver(partition)) {
    if (runtime_.trace.enabled()) trace_arrival(partition);
    return true;
  }
  if (runtime_.progress.wanted()) runtime_.progress.poll();
  return false;
}

void RecvRequest::check_partition(std::int64_t partition) const {
  if (partition >= 0 && partition < arguments_.partitions) return;
  throw Error(ErrorClass::arg, "argument partition is {}; expected is 0 to {}", partition, arguments_.partitions - 1);
}

bool RecvRequest::transports_arrived(link::Range transports) {
  for (std::int64_t t = transports.begin; t < transports.end; ++t) {
    if (!link_->arrived(static_cast<std::int32_t>(t), epoch_)) return false;
  }
  return true;
}

bool RecvRequest::deliver(std::int64_t partition) {
  if (lands_in_place()) return true;
  const auto p = static_cast<std::size_t>(partition);
  if (delivered_[p].load(std::memory_order_acquire) == epoch_) return true;

  std::uint64_t mode = delivery_.load(std::memory_order_acquire);
  const std::uint64_t one_by_one = std::uint64_t{epoch_} * 2;
  if (mode / 2 != epoch_) {
    // A failed exchange leaves what another thread of this epoch decided.
    if (delivery_.compare_exchange_strong(mode, one_by_one, std::memory_order_acq_rel)) mode = one_by_one;
  }
  if (mode != one_by_one) return bulk_delivered_.load(std::memory_order_acquire) == epoch_;

  if (claimed_[p].exchange(epoch_, std::memory_order_relaxed) == epoch_) {
    return delivered_[p].load(std::memory_order_acquire) == epoch_;
  }
  copy_out(partition, 1);
  delivered_[p].store(epoch_, std::memory_order_release);
  return true;
}

/// All transport partitions have arrived.
bool RecvRequest::deliver_everything() {
  if (lands_in_place()) return true;
  const std::uint64_t bulk = std::uint64_t{epoch_} * 2 + 1;
  std::uint64_t mode = delivery_.load(std::memory_order_acquire);
  if (mode == bulk) return true;
  if (mode / 2 != epoch_ && delivery_.compare_exchange_strong(mode, bulk, std::memory_order_acq_rel)) {
    copy_out(0, arguments_.partitions);
    bulk_delivered_.store(epoch_, std::memory_order_release);
    return true;
  }
  bool all = true;
  for (std::int64_t partition = 0; partition < arguments_.partitions; ++partition) all &= deliver(partition);
  return all;
}

void RecvRequest::copy_out(std::int64_t first, std::int64_t count) {
  const std::int64_t begin_bytes = first_element(first) * layout_.size_bytes();
  const std::byte* packed = link_->landing(epoch_) + begin_bytes;
  if (shape().total_bytes == 0) return;
  if (layout_.contiguous()) {
    std::memcpy(user_data() + begin_bytes, packed,
                static_cast<std::size_t>(first_element(count) * layout_.size_bytes()));
  } else {
    layout_.unpack(packed, arguments_.buffer, first_element(first), first_element(count));
  }
}

bool RecvRequest::done() {
  if (null_peer()) return true;
  throw_if_failed();
  if (!matched()) return false;
  while (seen_ < plan_.transport_partitions() && link_->arrived(seen_, epoch_)) ++seen_;
  if (seen_ < plan_.transport_partitions() || !deliver_everything()) return false;
  for (std::int64_t p = 0; runtime_.trace.enabled() && p < arguments_.partitions; ++p) trace_arrival(p);
  return true;
}

/// Once per partition and epoch, whoever sees it first.
void RecvRequest::trace_arrival(std::int64_t partition) {
  auto& traced = traced_[static_cast<std::size_t>(partition)];
  if (traced.exchange(epoch_, std::memory_order_relaxed) != epoch_) record(Trace::Event::arrived, partition);
}

bool RecvRequest::prepared() {
  if (null_peer()) return true;
  throw_if_failed();
  return matched();
}

std::string RecvRequest::describe_epoch() const {
  std::int32_t arrived = 0;
  for (std::int32_t t = 0; t < plan_.transport_partitions(); ++t) arrived += link_->arrived(t, epoch_) ? 1 : 0;
  return fmt::format("{} of {} transport partitions arrived", arrived, plan_.transport_partitions());
}

}  // namespace partita
