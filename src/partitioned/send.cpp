#include "partitioned/send.hpp"

#include <algorithm>

#include "partitioned/runtime.hpp"

namespace partita {

SendRequest::SendRequest(Runtime& runtime, RequestArguments arguments)
    : Request(runtime, std::move(arguments)), marked_(static_cast<std::size_t>(arguments_.partitions)) {
  for (auto& mark : marked_) mark.store(runtime.settings.first_epoch, std::memory_order_relaxed);
  if (!layout_.contiguous() && !null_peer()) {
    staging_memory_.resize(static_cast<std::size_t>(shape().total_bytes));
    staging_ = staging_memory_.data();
  }
}

void SendRequest::start() {
  check_startable();
  std::unique_lock lock(setup_mutex_, std::defer_lock);
  if (!matched()) lock.lock();
  epoch_ = next(epoch_);
  put_count_.store(0, std::memory_order_relaxed);
  if (matched()) open_epoch();
  record(Trace::Event::started);
  if (device_ != nullptr) enter_device_epoch();
  active_.store(true, std::memory_order_release);
}

/// Both sides are known, under setup_mutex_ or by the one thread that starts.
void SendRequest::open_epoch() {
  for (std::int32_t t = 0; t < plan_.transport_partitions(); ++t) {
    missing_[static_cast<std::size_t>(t)].store(static_cast<std::int32_t>(plan_.send_run(t).size()),
                                                std::memory_order_relaxed);
  }
  link_->start(epoch_);
  if (wants_progress_) runtime_.progress.want();
}

void SendRequest::connect(const link::Plan& plan, std::unique_ptr<link::Sender> link, memory::Kind form,
                          std::string link_name, std::string reason, std::span<const std::byte> answer) {
  const std::lock_guard lock(setup_mutex_);
  const auto transports = static_cast<std::size_t>(plan.transport_partitions());
  plan_ = plan;
  link_ = std::move(link);
  link_name_ = std::move(link_name);
  link_reason_ = std::move(reason);
  link_->connect(plan, packed_data(form), answer);
  wants_progress_ = link_->needs_progress();
  missing_ = std::vector<std::atomic<std::int32_t>>(transports);
  deferred_ = std::vector<std::atomic<std::uint8_t>>(transports);
  taken_ = std::vector<std::atomic<Epoch>>(transports);
  if (active()) open_epoch();
  matched_.store(true, std::memory_order_release);
  for (const link::Range& run : early_) count_in(run.begin, run.end - 1);
  early_ = {};
}

/// Where the bytes lie that the link moves from memory of kind `form`.
std::byte* SendRequest::packed_data(memory::Kind form) {
  for (const link::Endpoint& endpoint : endpoints()) {
    if (memory::is_host(endpoint.kind) == memory::is_host(form)) return allocated(endpoint).data;
  }
  throw Error(ErrorClass::internal, "a link was connected for memory that this send does not have");
}

void SendRequest::ready(std::int64_t first, std::int64_t last) {
  check_markable(first, last);
  const std::int64_t marked_end = mark(first, last);
  if (marked_end > first) take(first, marked_end - 1);
  if (marked_end <= last) {
    throw Error(ErrorClass::arg, "partition {} was marked in this epoch already; expected is once per epoch",
                marked_end);
  }
}

/// Partitions [first, last] are marked by this call: they go on to the link, or wait for the match.
void SendRequest::take(std::int64_t first, std::int64_t last) {
  for (std::int64_t p = first; runtime_.trace.enabled() && p <= last; ++p) record(Trace::Event::readied, p);
  if (null_peer()) {
    put_count_.fetch_add(static_cast<std::int32_t>(last - first + 1), std::memory_order_release);
    return;
  }
  if (staging_ != nullptr) {
    layout_.pack(arguments_.buffer, first_element(first), first_element(last - first + 1),
                 staging_ + first_element(first) * layout_.size_bytes());
  }
  if (!matched()) {
    const std::lock_guard lock(setup_mutex_);
    if (!matched()) {
      early_.push_back({first, last + 1});
      return;
    }
  }
  count_in(first, last);
}

void SendRequest::check_markable(std::int64_t first, std::int64_t last) const {
  if (!active()) {
    throw Error(ErrorClass::request, "the request is inactive; expected is an active one (call Start first)");
  }
  if (device_ != nullptr) {
    throw Error(ErrorClass::request,
                "the request has a device request, so kernels mark its partitions; free that before the host marks");
  }
  if (first >= 0 && first <= last && last < arguments_.partitions) return;
  if (first == last) {
    throw Error(ErrorClass::arg, "argument partition is {}; expected is 0 to {}", first, arguments_.partitions - 1);
  }
  throw Error(ErrorClass::arg, "the range of partitions is {} to {}; expected is an ascending one within 0 to {}",
              first, last, arguments_.partitions - 1);
}

/// Marks from `first` on; returns the first one that was marked already, or the one after `last`.
std::int64_t SendRequest::mark(std::int64_t first, std::int64_t last) {
  std::int64_t p = first;
  while (p <= last && marked_[static_cast<std::size_t>(p)].exchange(epoch_, std::memory_order_relaxed) != epoch_) ++p;
  return p;
}

void SendRequest::count_in(std::int64_t first, std::int64_t last) {
  link::Range complete;
  while (first <= last) {
    const std::int32_t t = plan_.transport_of_send(first);
    const std::int64_t end = std::min(last + 1, plan_.send_run(t).end);
    const auto marks = static_cast<std::int32_t>(end - first);
    // Acquires the bytes of the other markers, releases ours: the last one in moves them all.
    if (missing_[static_cast<std::size_t>(t)].fetch_sub(marks, std::memory_order_acq_rel) == marks) {
      join(complete, t, &SendRequest::decide);
    }
    first = end;
  }
  decide(complete);
}

/// Neighbours that are complete together leave together: adds `t` to `run`, or lets the run leave and begins another.
void SendRequest::join(link::Range& run, std::int64_t t, void (SendRequest::*leave)(link::Range)) {
  if (run.end != t) {
    (this->*leave)(run);
    run.begin = t;
  }
  run.end = t + 1;
}

/// The one place that decides how complete transport partitions leave. Of an epoch that was given up none does: its
/// buffer may be written again once the calls that mark have returned.
void SendRequest::decide(link::Range run) {
  if (run.size() == 0 || given_up_.load(std::memory_order_acquire)) return;
  if (link_->ready(epoch_)) {
    put(run);
    return;
  }
  for (std::int64_t t = run.begin; t < run.end; ++t) {
    record(Trace::Event::deferred, t);
    deferred_[static_cast<std::size_t>(t)].store(1, std::memory_order_release);
  }
  deferred_count_.fetch_add(static_cast<std::int32_t>(run.size()), std::memory_order_release);
  runtime_.deferred.push(*this);
}

void SendRequest::put(link::Range run) {
  if (run.size() == 0) return;
  enter_gpu();
  for (std::int64_t t = run.begin; runtime_.trace.enabled() && t < run.end; ++t) record(Trace::Event::issued, t);
  if (host_copy_ == nullptr) {
    link_->put_run(run, epoch_);
  } else {
    for (std::int64_t t = run.begin; t < run.end; ++t) put_staged(static_cast<std::int32_t>(t));
  }
  put_count_.fetch_add(static_cast<std::int32_t>(run.size()), std::memory_order_release);
}

void SendRequest::put_staged(std::int32_t t) {
  const link::Range bytes = plan_.bytes(t);
  runtime_.device_memory->copy(host_copy_ + bytes.begin, user_data() + bytes.begin,
                               static_cast<std::size_t>(bytes.size()));
  link_->put(t, epoch_);
}

bool SendRequest::flush() {
  if (deferred_count_.load(std::memory_order_acquire) == 0) return true;
  // Deferred by a thread that was marking while another gave the epoch up. No flush runs during the latter.
  if (given_up_.load(std::memory_order_acquire)) return true;
  link::Range run;
  for (std::int32_t t = 0; t < plan_.transport_partitions(); ++t) {
    auto& deferred = deferred_[static_cast<std::size_t>(t)];
    if (deferred.exchange(0, std::memory_order_acquire) == 0) continue;
    // Whoever has taken it asks: another thread may have put all of the last epoch meanwhile, and this is the next
    // one's, for which an answer from before says nothing.
    if (!link_->ready(epoch_)) {
      deferred.store(1, std::memory_order_release);
      put(run);
      return false;
    }
    deferred_count_.fetch_sub(1, std::memory_order_relaxed);
    join(run, t, &SendRequest::put);
  }
  put(run);
  return deferred_count_.load(std::memory_order_acquire) == 0;
}

void SendRequest::give_up_epoch() {
  early_ = {};
  if (!matched()) return;
  runtime_.deferred.remove(*this);
  for (auto& deferred : deferred_) deferred.store(0, std::memory_order_relaxed);
  deferred_count_.store(0, std::memory_order_relaxed);
  link_->give_up(epoch_);
}

void SendRequest::release_memory() {
  if (link_ != nullptr) link_->release_memory();
}

bool SendRequest::done() {
  enter_gpu();
  if (null_peer()) return put_count_.load(std::memory_order_acquire) == arguments_.partitions;
  throw_if_failed();
  if (!matched()) return false;
  if (device_ != nullptr) return device_done();
  flush();
  return put_count_.load(std::memory_order_acquire) == plan_.transport_partitions() && link_->finished();
}

bool SendRequest::device_done() {
  device_->check(*this);
  if (device_driven()) return true;                   // looked at only for what its kernels found wrong
  const bool completed = device_->completed(epoch_);  // before the look at what was handed over in the epoch
  const std::int32_t handed_over = take_handed_over();
  flush();
  return completed && put_count_.load(std::memory_order_acquire) == handed_over && link_->finished();
}

/// Takes every transport partition that kernels have left to the host in this epoch, once; returns how many there are
/// so far. Several threads at once.
std::int32_t SendRequest::take_handed_over() {
  std::int32_t handed_over = 0;
  link::Range run;
  for (std::int32_t t = 0; t < plan_.transport_partitions(); ++t) {
    if (!device_->handed_over(t, epoch_)) continue;
    ++handed_over;
    if (taken_[static_cast<std::size_t>(t)].exchange(epoch_, std::memory_order_relaxed) == epoch_) continue;
    join(run, t, &SendRequest::decide);
  }
  decide(run);
  return handed_over;
}

bool SendRequest::device_step() {
  enter_gpu();
  const std::int32_t before = put_count_.load(std::memory_order_relaxed);
  take_handed_over();
  flush();
  link_->finished();
  return put_count_.load(std::memory_order_relaxed) != before;
}

Partita_Prequest SendRequest::device_view() {
  for (const auto& mark : marked_) {
    if (active() && mark.load(std::memory_order_relaxed) == epoch_) {
      throw Error(ErrorClass::request,
                  "the host has marked partitions of this epoch already; one side marks all partitions of an epoch");
    }
  }
  const auto route = link_->device_route();
  const bool kernel_copy = route && arguments_.gpu_copy != GpuCopy::engine;
  const auto need = [&](bool wanted, const char* what) {
    if (!wanted || kernel_copy) return;
    throw Error(ErrorClass::other, "{}, but kernels cannot reach the receive buffer over link {} ({}){}", what,
                link_name_, link_reason_, route ? ", and PARTITA_GPU_COPY or partita_gpu_copy is engine" : "");
  };
  need(arguments_.gpu_copy == GpuCopy::kernel, "PARTITA_GPU_COPY or partita_gpu_copy is kernel");
  need(device_driven(), "the request is device-driven (info key partita_driver)");
  need(arguments_.in_place, "the request's partitions are stored in place (info key partita_in_place)");

  Partita_Prequest view{};
  if (arguments_.in_place) view.flags |= PARTITA_PREQUEST_IN_PLACE;
  if (!kernel_copy) return view;
  view.remote = reinterpret_cast<unsigned char*>(route->remote);
  view.arrival_device = route->arrival_device;
  view.arrival_host = route->arrival_host;
  view.promise = route->promise;
  if (route->packets) view.flags |= PARTITA_PREQUEST_PACKETS;
  return view;
}

bool SendRequest::prepared() {
  if (null_peer()) return true;
  throw_if_failed();
  return matched() && link_->prepared(epoch_);
}

std::string SendRequest::describe_epoch() const {
  std::vector<std::int64_t> unmarked;
  for (std::size_t p = 0; p < marked_.size(); ++p) {
    if (marked_[p].load(std::memory_order_relaxed) != epoch_) unmarked.push_back(static_cast<std::int64_t>(p));
  }
  const std::int32_t sent = put_count_.load(std::memory_order_relaxed);
  const bool leaving = sent == plan_.transport_partitions() && !link_->finished();
  return fmt::format(
      "{} of {} partitions not marked{}; {} of {} transport partitions sent{}, {} waiting for the receiver, which {}",
      unmarked.size(), arguments_.partitions, listed(unmarked), sent, plan_.transport_partitions(),
      leaving ? ", of which bytes are still on their way out of the buffer" : "",
      deferred_count_.load(std::memory_order_relaxed),
      link_->ready(epoch_) ? "can take more" : "has not started this epoch");
}

}  // namespace partita
