#include "transfer/outgoing.hpp"

#include <utility>

namespace partita {

Outgoing::Outgoing(const Services& services, User& user, HalfTerms terms) : Half(services, user, std::move(terms)) {
  if (terms_.packed_apart) {
    packed_memory_.resize(static_cast<std::size_t>(shape().total_bytes));
    packed_apart_ = packed_memory_.data();
  }
}

void Outgoing::connect(const link::Plan& plan, std::unique_ptr<link::Sender> link, memory::Kind form,
                       std::string link_name, std::string reason, std::span<const std::byte> answer) {
  const std::lock_guard lock(setup_mutex());
  take_match(plan, std::move(link_name), std::move(reason));
  link_ = std::move(link);
  link_->connect(plan, packed_data(form), answer);
  deferred_ = std::vector<std::atomic<std::uint8_t>>(static_cast<std::size_t>(plan.transport_partitions()));
  finish_match();
}

/// Where the bytes lie that the link moves from memory of kind `form`.
std::byte* Outgoing::packed_data(memory::Kind form) {
  for (const link::Endpoint& endpoint : endpoints()) {
    if (memory::is_host(endpoint.kind) == memory::is_host(form)) return allocated(endpoint).data;
  }
  throw Error(ErrorClass::internal, "a link was connected for memory that this send does not have");
}

void Outgoing::submit(link::Range run) {
  if (run.size() == 0 || given_up()) return;
  or_fail([&] {
    check_receiver();
    if (link_->ready(epoch())) return put(run);
    for (std::int64_t t = run.begin; t < run.end; ++t) {
      record(Trace::Event::deferred, t);
      deferred_[static_cast<std::size_t>(t)].store(1, std::memory_order_release);
    }
    deferred_count_.fetch_add(static_cast<std::int32_t>(run.size()), std::memory_order_release);
    services_.deferred.push(*this);
  });
}

/// Whether it still takes this epoch: once it is freed, its memory is the program's again.
void Outgoing::check_receiver() const {
  if (is_lost() || peer_freed) throw why_lost();
}

/// What was complete and could not be put is put by nobody else: the half fails, on both sides.
template <class Body>
auto Outgoing::or_fail(Body body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::exception&) {
    throw Error(fail_with_current("could not send"));
  }
}

void Outgoing::put(link::Range run) {
  if (run.size() == 0) return;
  if (in_gpu_memory()) services_.device_memory.make_current(terms_.place.device);
  for (std::int64_t t = run.begin; services_.trace.enabled() && t < run.end; ++t) record(Trace::Event::issued, t);
  if (host_copy_ == nullptr) {
    link_->put(run, epoch());
  } else {
    for (std::int64_t t = run.begin; t < run.end; ++t) put_staged(static_cast<std::int32_t>(t));
  }
  put_count_.fetch_add(static_cast<std::int32_t>(run.size()), std::memory_order_release);
}

void Outgoing::put_staged(std::int32_t t) {
  const link::Range bytes = plan().bytes(t);
  services_.device_memory.copy(host_copy_ + bytes.begin, terms_.data + bytes.begin,
                               static_cast<std::size_t>(bytes.size()));
  link_->put({t, t + 1}, epoch());
}

bool Outgoing::flush() {
  if (deferred_count_.load(std::memory_order_acquire) == 0) return true;
  // Deferred by a thread that was marking while another gave the epoch up. No flush runs during the latter.
  if (given_up()) return true;
  return or_fail([this] { return flush_deferred(); });
}

bool Outgoing::flush_or_fail() noexcept {
  try {
    return flush();
  } catch (const std::exception&) {
    return true;  // the half has failed, on both sides
  }
}

bool Outgoing::flush_deferred() {
  check_receiver();
  const auto leave = [this](link::Range complete) { put(complete); };
  link::Range run;
  for (std::int32_t t = 0; t < plan().transport_partitions(); ++t) {
    auto& deferred = deferred_[static_cast<std::size_t>(t)];
    if (deferred.exchange(0, std::memory_order_acquire) == 0) continue;
    // Whoever has taken it asks: another thread may have put all of the last epoch meanwhile, and this is the next
    // one's, for which an answer from before says nothing.
    if (!link_->ready(epoch())) {
      deferred.store(1, std::memory_order_release);
      put(run);
      return false;
    }
    deferred_count_.fetch_sub(1, std::memory_order_relaxed);
    join(run, t, leave);
  }
  put(run);
  return deferred_count_.load(std::memory_order_acquire) == 0;
}

void Outgoing::give_up_epoch() {
  if (!matched()) return;
  withdraw();
  for (auto& deferred : deferred_) deferred.store(0, std::memory_order_relaxed);
  deferred_count_.store(0, std::memory_order_relaxed);
  link_->give_up(epoch());
}

void Outgoing::release_memory() {
  if (link_ != nullptr) link_->release_memory();
}

}  // namespace partita
