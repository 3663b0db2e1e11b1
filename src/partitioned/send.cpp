#include "partitioned/send.hpp"

#include <algorithm>
#include <utility>

#include "partitioned/matcher.hpp"

namespace partita {

SendRequest::SendRequest(const RequestServices& services, RequestArguments arguments)
    : Request(services, std::move(arguments)), marks_(arguments_.partitions) {
  if (!layout_.contiguous() && !null_peer()) {
    staging_memory_.resize(static_cast<std::size_t>(shape().total_bytes));
    staging_ = staging_memory_.data();
  }
}

void SendRequest::start() {
  check_startable();
  std::unique_lock lock(setup_mutex_, std::defer_lock);
  if (!matched()) lock.lock();
  const Epoch before = std::exchange(epoch_, next(epoch_));
  if (epoch_ < before) forget_hand_overs();
  marks_.clear();
  put_count_.store(0, std::memory_order_relaxed);
  try {
    if (matched()) open_epoch();
  } catch (...) {
    epoch_ = before;
    throw;
  }
  record(Trace::Event::started);
  if (device_ != nullptr) enter_device_epoch();
  active_.store(true, std::memory_order_release);
}

/// Both sides are known, under setup_mutex_ or by the one thread that starts.
void SendRequest::open_epoch() {
  for (std::int32_t t = 0; t < plan_.transport_partitions(); ++t) {
    missing_[static_cast<std::size_t>(t)].store(Marks::parts(plan_.send_run(t)), std::memory_order_relaxed);
  }
  link_->start(epoch_);
  if (wants_progress_) want_progress();
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
  part_masks_.reserve(static_cast<std::size_t>(arguments_.partitions));
  for (std::int32_t t = 0; t < plan.transport_partitions(); ++t) {
    Marks::for_each_part(plan.send_run(t), [&](link::Range part) {
      part_masks_.insert(part_masks_.end(), static_cast<std::size_t>(part.size()), Marks::mask(part));
    });
  }
  std::vector<link::Range> complete;
  if (active()) {
    open_epoch();
    complete = count_kept_marks();
  }
  matched_.store(true, std::memory_order_release);
  marks_go_on_.store(staging_ == nullptr && !services_.trace.enabled(), std::memory_order_release);
  // Other threads may mark again, and need not wait for these bytes.
  for (const link::Range run : complete) decide(run);
}

/// Where the bytes lie that the link moves from memory of kind `form`.
std::byte* SendRequest::packed_data(memory::Kind form) {
  for (const link::Endpoint& endpoint : endpoints()) {
    if (memory::is_host(endpoint.kind) == memory::is_host(form)) return allocated(endpoint).data;
  }
  throw Error(ErrorClass::internal, "a link was connected for memory that this send does not have");
}

/// The short way of a mark. Whatever is unusual, a mistake too, takes the other.
void SendRequest::ready(std::int64_t partition) {
  const bool usual = marks_go_on_.load(std::memory_order_acquire) && active() && device_ == nullptr && partition >= 0 &&
                     partition < arguments_.partitions;
  const std::uint64_t word = usual ? marks_.add(partition) : 0;
  if (word == 0) return ready(partition, partition);
  if (!Marks::complete(word, part_masks_[static_cast<std::size_t>(partition)])) return;
  const std::int32_t t = plan_.transport_of_send(partition);
  if (completes_transport(t)) decide({t, t + 1});
}

void SendRequest::ready(std::int64_t first, std::int64_t last) {
  check_range(first, last);
  // To nobody a mark has no effect, a second one neither, nor one behind the end of the epoch, which does not wait for
  // marks: another thread may have completed it.
  if (null_peer()) return;
  check_markable();
  // Of a partition that was marked before this call the bytes may be on their way: they are not packed again.
  const link::Range unmarked{first, marks_.first_marked({first, last + 1})};
  if (staging_ != nullptr && unmarked.size() > 0) pack(unmarked);
  const std::int64_t end = mark(unmarked);
  if (end <= last) {
    throw Error(ErrorClass::arg, "partition {} was marked in this epoch already; expected is once per epoch", end);
  }
}

void SendRequest::pack(link::Range partitions) {
  const std::int64_t begin = first_element(partitions.begin);
  layout_.pack(arguments_.buffer, begin, first_element(partitions.size()), staging_ + begin * layout_.size_bytes());
}

void SendRequest::check_markable() const {
  if (!active()) {
    throw Error(ErrorClass::request, "the request is inactive; expected is an active one (call Start first)");
  }
  if (device_ != nullptr) {
    throw Error(ErrorClass::request,
                "the request has a device request, so kernels mark its partitions; free that before the host marks");
  }
}

void SendRequest::check_range(std::int64_t first, std::int64_t last) const {
  if (first >= 0 && first <= last && last < arguments_.partitions) return;
  if (first == last) {
    throw Error(ErrorClass::arg, "argument partition is {}; expected is 0 to {}", first, arguments_.partitions - 1);
  }
  throw Error(ErrorClass::arg, "the range of partitions is {} to {}; expected is an ascending one within 0 to {}",
              first, last, arguments_.partitions - 1);
}

/// Marks up to the first partition that another thread has marked meanwhile, which it returns, or to the end. What is
/// complete then goes on to the link, or waits for the match.
std::int64_t SendRequest::mark(link::Range partitions) {
  if (!matched()) {
    const std::lock_guard lock(setup_mutex_);
    if (!matched()) return mark_to_keep(partitions);
  }
  link::Range complete;
  const std::int64_t end = marks_.add_each(partitions, [&](const Marks::Added& added) {
    trace_marked(added.marked);
    for (std::int64_t p = added.marked.begin; p < added.marked.end;) {
      const std::int32_t t = plan_.transport_of_send(p);
      if (Marks::complete(added.word, part_masks_[static_cast<std::size_t>(p)]) && completes_transport(t)) {
        join(complete, t, &SendRequest::decide);
      }
      p = plan_.send_run(t).end;
    }
  });
  decide(complete);
  return end;
}

void SendRequest::trace_marked(link::Range partitions) const {
  for (std::int64_t p = partitions.begin; services_.trace.enabled() && p < partitions.end; ++p) {
    record(Trace::Event::readied, p);
  }
}

/// The caller has completed the bits of transport partition `t` that lie in one word: whether all others are complete.
bool SendRequest::completes_transport(std::int32_t t) {
  // Acquires the bytes of those that have completed other words, releases ours: the last one in moves them all.
  return Marks::parts(plan_.send_run(t)) == 1 ||
         missing_[static_cast<std::size_t>(t)].fetch_sub(1, std::memory_order_acq_rel) == 1;
}

/// Marks that lead to nothing yet; returns what mark does.
std::int64_t SendRequest::mark_to_keep(link::Range partitions) {
  return marks_.add_each(partitions, [this](const Marks::Added& added) { trace_marked(added.marked); });
}

/// Those from before the match, under setup_mutex_: nobody marks meanwhile. Returns what they complete.
std::vector<link::Range> SendRequest::count_kept_marks() {
  std::vector<link::Range> complete;
  for (std::int32_t t = 0; t < plan_.transport_partitions(); ++t) {
    std::int32_t missing = 0;
    Marks::for_each_part(plan_.send_run(t), [&](link::Range part) { missing += marks_.complete(part) ? 0 : 1; });
    missing_[static_cast<std::size_t>(t)].store(missing, std::memory_order_relaxed);
    if (missing > 0) continue;
    if (complete.empty() || complete.back().end != t) complete.push_back({t, t});
    complete.back().end = t + 1;
  }
  return complete;
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
  or_fail([&] {
    check_receiver();
    if (link_->ready(epoch_)) return put(run);
    for (std::int64_t t = run.begin; t < run.end; ++t) {
      record(Trace::Event::deferred, t);
      deferred_[static_cast<std::size_t>(t)].store(1, std::memory_order_release);
    }
    deferred_count_.fetch_add(static_cast<std::int32_t>(run.size()), std::memory_order_release);
    services_.deferred.push(*this);
  });
}

/// Whether it still takes this epoch: once it is freed, its memory is the program's again.
void SendRequest::check_receiver() const {
  if (is_lost() || matching.peer_freed) throw why_lost();
}

/// What was marked and could not be put is put by nobody else: the request fails, on both sides.
template <class Body>
auto SendRequest::or_fail(Body body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::exception&) {
    throw Error(fail_with_current("could not send"));
  }
}

void SendRequest::put(link::Range run) {
  if (run.size() == 0) return;
  enter_gpu();
  for (std::int64_t t = run.begin; services_.trace.enabled() && t < run.end; ++t) record(Trace::Event::issued, t);
  if (host_copy_ == nullptr) {
    link_->put_run(run, epoch_);
  } else {
    for (std::int64_t t = run.begin; t < run.end; ++t) put_staged(static_cast<std::int32_t>(t));
  }
  put_count_.fetch_add(static_cast<std::int32_t>(run.size()), std::memory_order_release);
}

void SendRequest::put_staged(std::int32_t t) {
  const link::Range bytes = plan_.bytes(t);
  services_.device_memory.copy(host_copy_ + bytes.begin, user_data() + bytes.begin,
                               static_cast<std::size_t>(bytes.size()));
  link_->put(t, epoch_);
}

bool SendRequest::flush() {
  if (deferred_count_.load(std::memory_order_acquire) == 0) return true;
  // Deferred by a thread that was marking while another gave the epoch up. No flush runs during the latter.
  if (given_up_.load(std::memory_order_acquire)) return true;
  return or_fail([this] { return flush_deferred(); });
}

bool SendRequest::flush_or_fail() noexcept {
  try {
    return flush();
  } catch (const std::exception&) {
    return true;  // the request has failed, on both sides
  }
}

bool SendRequest::flush_deferred() {
  check_receiver();
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
  if (!matched()) return;
  services_.deferred.remove(*this);
  for (auto& deferred : deferred_) deferred.store(0, std::memory_order_relaxed);
  deferred_count_.store(0, std::memory_order_relaxed);
  link_->give_up(epoch_);
}

void SendRequest::seek_peer() {
  services_.matcher.add(*this);
}

void SendRequest::withdraw() {
  services_.deferred.remove(*this);
  Request::withdraw();
}

void SendRequest::release_memory() {
  if (link_ != nullptr) link_->release_memory();
}

bool SendRequest::done() {
  enter_gpu();
  if (null_peer()) return true;
  throw_if_failed();
  if (!matched()) return false;
  const bool lost = is_lost();
  const bool all = device_ != nullptr ? device_done() : all_left();
  if (lost && !all) throw why_lost();
  return all;
}

bool SendRequest::epoch_is_over() {
  const bool all_put = device_ != nullptr ? device_->completed(epoch_) && !device_->hands_over(epoch_)
                                          : put_count_.load(std::memory_order_acquire) == plan_.transport_partitions();
  return all_put && link_->finished();
}

bool SendRequest::all_left() {
  flush();
  return put_count_.load(std::memory_order_acquire) == plan_.transport_partitions() && link_->finished();
}

bool SendRequest::device_done() {
  // Before the looks at what went wrong and at what was handed over in the epoch.
  const bool completed = device_->completed(epoch_);
  device_->check(*this);
  if (device_driven()) return true;  // looked at only for what its kernels found wrong
  const std::int32_t handed_over = take_handed_over();
  flush();
  return completed && put_count_.load(std::memory_order_acquire) == handed_over && link_->finished();
}

/// Takes every transport partition that kernels have left to the host in this epoch, once; returns how many there are
/// so far. Several threads at once. Looks at none where kernels copy all, and again at none of the first ones that were
/// all handed over.
std::int32_t SendRequest::take_handed_over() {
  if (!device_->hands_over(epoch_)) return 0;
  std::int32_t all_before = known_handed_over();
  std::int32_t handed_over = all_before;
  link::Range run;
  for (std::int32_t t = all_before; t < plan_.transport_partitions(); ++t) {
    if (!device_->handed_over(t, epoch_)) continue;
    if (handed_over == t) all_before = t + 1;
    ++handed_over;
    if (taken_[static_cast<std::size_t>(t)].exchange(epoch_, std::memory_order_relaxed) == epoch_) continue;
    join(run, t, &SendRequest::decide);
  }
  decide(run);
  all_handed_over_.store(std::uint64_t{epoch_} << 32 | static_cast<std::uint32_t>(all_before),
                         std::memory_order_relaxed);
  return handed_over;
}

/// At the wrap of epochs: words of hand-overs that are 2^32 epochs old would be taken for new ones.
void SendRequest::forget_hand_overs() {
  for (auto& taken : taken_) taken.store(no_epoch, std::memory_order_relaxed);
  all_handed_over_.store(0, std::memory_order_relaxed);
  if (device_ != nullptr) device_->forget_hand_overs();
}

/// So many transport partitions, from the first one on, were all seen handed over in this epoch.
std::int32_t SendRequest::known_handed_over() const {
  const std::uint64_t known = all_handed_over_.load(std::memory_order_relaxed);
  return known >> 32 == epoch_ ? static_cast<std::int32_t>(known & 0xffffffff) : 0;
}

/// Only puts: whether they have finished is asked by who waits for the epoch, once all of them are issued.
bool SendRequest::device_step() {
  enter_gpu();
  const std::int32_t before = put_count_.load(std::memory_order_relaxed);
  take_handed_over();
  flush();
  return put_count_.load(std::memory_order_relaxed) != before;
}

Partita_Prequest SendRequest::device_view() {
  if (active() && marks_.first_marked({0, arguments_.partitions}) < arguments_.partitions) {
    throw Error(ErrorClass::request,
                "the host has marked partitions of this epoch already; one side marks all partitions of an epoch");
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
  if (!matched()) return false;
  const bool lost = is_lost();
  const bool prepared = link_->prepared(epoch_);
  if (lost && !prepared) throw why_lost();
  return prepared;
}

std::uint64_t SendRequest::partitions_so_far() const {
  return static_cast<std::uint64_t>(put_count_.load(std::memory_order_relaxed));
}

std::string SendRequest::describe_epoch() const {
  std::vector<std::int64_t> unmarked;
  for (std::int64_t p = 0; p < arguments_.partitions; ++p) {
    if (!marks_.is_marked(p)) unmarked.push_back(p);
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
