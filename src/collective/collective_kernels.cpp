// What a collective is to kernels that mark its partitions and await them.
#include "collective/collective.hpp"

namespace partita::collective {

partita_u32 Collective::sides() const {
  partita_u32 sides = 0;
  if (facets().markable != nullptr) sides |= PARTITA_PREQUEST_SEND;
  if (facets().awaitable != nullptr) sides |= PARTITA_PREQUEST_RECV;
  return sides;
}

memory::Place Collective::place() const {
  for (const std::vector<Block>* blocks : {&arguments_.sent, &arguments_.received}) {
    for (const Block& block : *blocks) {
      if (block.place.kind == memory::Kind::managed) return block.place;  // what is the collective's own lies elsewhere
    }
  }
  return memory_.home().place;
}

/// The host moves everything, whoever the peers are.
bool Collective::knows_prequest_terms() const {
  throw_if_failed();
  return true;
}

PrequestTerms Collective::prequest_terms() {
  if (active() && courses_.any_is_marked()) {
    throw Error(ErrorClass::request,
                "the host has marked partitions of this epoch already; one side marks all partitions of an epoch");
  }
  if (services_.settings.gpu_copy == GpuCopy::kernel) {
    throw Error(ErrorClass::other,
                "PARTITA_GPU_COPY is kernel, but the progress engine moves the partitions of a collective");
  }
  hand_overs_.set_up(arguments_.partitions);
  told_ = std::vector<std::atomic<Epoch>>(static_cast<std::size_t>(arguments_.partitions));
  told_count_.store(0, std::memory_order_relaxed);  // of what has arrived in this epoch kernels must hear
  return {.sides = sides(),
          .driver = driver(),
          .data = nullptr,
          .place = place(),
          .in_place = false,
          .plan = plan_,
          .route = {},
          .timeout_s = services_.settings.timeout_s};
}

bool Collective::device_step() {
  enter_gpu();
  const bool taken = take_marks();
  return tell_arrivals() || taken;
}

/// What kernels have marked in this epoch goes on; returns whether there was something new.
bool Collective::take_marks() {
  if (facets().markable == nullptr) return false;
  const Marking marking(marking_);
  bool any = false;
  const auto mark = [&](link::Range run) {
    any = true;
    const std::int64_t end = courses_.mark(run);
    if (end == run.end) return;
    const Error error(ErrorClass::other,
                      "partition {} was marked by the host and by a kernel in epoch {}; one side marks all partitions "
                      "of an epoch. {}",
                      end, epoch_, explain());
    fail_as("failed", error, Mail::Caller::may_call_the_mpi);  // no later look finds the mark
    throw Error(error);
  };
  hand_overs_.take_together(device_.side(), epoch_, mark, CloseMarks::within_one_gap());
  return any;
}

/// Kernels hear of the partitions that are over, each once; returns whether there were any.
bool Collective::tell_arrivals() {
  if (!device_.side().raises_flags()) return false;
  bool any = false;
  const auto raise = [&](link::Range run) {
    if (run.size() == 0) return;
    device_.side().raise(run, epoch_);
    told_count_.fetch_add(static_cast<int>(run.size()), std::memory_order_release);
    any = true;
  };
  link::Range run;
  for (std::int64_t p = 0; p < arguments_.partitions; ++p) {
    if (!courses_.is_over(p)) continue;
    if (told_[static_cast<std::size_t>(p)].exchange(epoch_, std::memory_order_relaxed) == epoch_) continue;
    join(run, p, raise);
  }
  raise(run);
  return any;
}

bool Collective::device_done() {
  // Before the looks at what went wrong and at what was marked in the epoch.
  const bool all_marked = facets().markable == nullptr || device_.side().completed(epoch_);
  device_.check();
  take_marks();
  if (!has_completed()) return false;
  tell_arrivals();
  return all_marked && !kernels_can_wait() && (!device_.side().raises_flags() || device_.side().told_kernels());
}

bool Collective::kernels_can_wait() const {
  return device_.side().raises_flags() && told_count_.load(std::memory_order_acquire) < arguments_.partitions;
}

/// Where this rank's kernels wait, it is in the end for what others send; what was sent to others keeps nobody here.
std::optional<Error> Collective::why_peers_are_lost(KernelFindings& findings) {
  for (ReceiveLeg* leg : legs_of_.receives) {
    if (leg == nullptr || leg->has_seen_all()) continue;
    const Half& half = leg->half();
    if (half.is_lost()) return half.why_lost(name());
    if (auto why = findings.why_ended(half.peer(), name())) return why;
  }
  return {};
}

}  // namespace partita::collective
