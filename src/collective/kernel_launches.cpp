// Collectives whose epochs kernels open, as kernels that the library launches.
#include <fmt/format.h>

#include "collective/kernel_collective.hpp"
#include "collective/kernel_grid.hpp"
#include "memory/kernels.hpp"
#include "partitioned/partition_range.hpp"

namespace partita::collective {

std::string KernelCollective::why_not_on(const memory::Stream& stream, bool) const {
  if (stream.device() == place_.device) return {};
  return fmt::format("its buffers are memory of GPU {}, and the stream is one of GPU {}", place_.device,
                     stream.device());
}

std::string KernelCollective::why_in_no_queue() const {
  if (!pushes()) return {};
  return "is a collective whose marks push (info key partita_algorithm), which no queue starts or awaits; expected is "
         "a Start by the host, or MPIX_Pstart in a kernel";
}

/// The words that count epochs lie in GPU memory, so that each launch of a graph is the next one.
void KernelCollective::enqueue_start(memory::Stream& stream, bool, memory::MessageRun&) {
  launch_on(stream);
}

/// Whoever gave the request up has told why.
void KernelCollective::pass_wait() {
  if (given_up()) return;
  throw_if_failed();
  if (device_.exists()) device_.check();
}

// ---- The host's epochs ---------------------------------------------------------------------------------------------

void KernelCollective::launch_on(memory::Stream& stream) {
  throw_if_over();
  const KernelGrid grid = launched_grid_for(static_cast<std::int64_t>(cut_bytes()), memory::DoCollective::most_threads);
  // Ranks may share the GPU, whose kernels wait for each other.
  stream.launch({static_cast<unsigned>(grid.blocks), static_cast<unsigned>(grid.threads),
                 static_cast<unsigned>(arguments_.problem.size)},
                memory::DoCollective{device_.for_own_kernels()});
}

/// A stream that is captured takes no memory, so that what the kernels work with is made ahead. What a program's
/// kernels use is the program's to make.
void KernelCollective::match_is_seen() {
  if (arguments_.is_partitioned || device_.was_made()) return;
  if (matched()) device_.for_own_kernels();
}

memory::Stream& KernelCollective::own_stream() {
  if (own_stream_ == nullptr) own_stream_ = services_.device_memory.make_stream(place_.device);
  return *own_stream_;
}

/// What still runs there has been released, or is complete.
void KernelCollective::drain_own_stream() noexcept {
  try {
    if (own_stream_ != nullptr) own_stream_->drain();
  } catch (const std::exception&) {
    // The GPU works no longer: nothing is under way.
  }
}

/// The kernel waits for the other ranks by itself.
void KernelCollective::start() {
  throw_if_over();
  if (arguments_.is_partitioned && !pushes()) {
    throw Error(ErrorClass::request,
                "kernels open the epochs of the request (info key partita_driver): only MPIX_P{} in a kernel does",
                collective_ == PARTITA_COLLECTIVE_REDUCE_SCATTER ? "reduce_scatter" : name_of(arguments_.problem.kind));
  }
  if (active()) {
    throw Error(ErrorClass::request, "the request is active already; complete it before it starts again. {}",
                explain());
  }
  if (pushes()) return open_pushed();
  is_launched_ = false;
  launch_if_matched();
  active_.store(true, std::memory_order_release);
}

/// A request may start before the others have made theirs.
void KernelCollective::launch_if_matched() {
  if (is_launched_ || !matched()) return;
  match_is_seen();
  launch_on(own_stream());
  is_launched_ = true;
}

bool KernelCollective::done() {
  throw_if_failed();
  if (active() && pushes()) return pushed_is_done();
  if (active()) {
    launch_if_matched();
    if (!is_launched_ || !own_stream().idle()) return false;
  }
  if (device_.exists()) device_.check();
  return true;  // one that is not active is looked at only for what its kernels found wrong
}

bool KernelCollective::prepared() {
  if (arguments_.is_partitioned && !pushes()) {
    throw Error(ErrorClass::request,
                "kernels open the epochs of the request; expected is one that the host has started");
  }
  if (!active()) {
    throw Error(ErrorClass::request, "the request is inactive; expected is an active one (call Start first)");
  }
  return matched();  // no marks are to come, or inboxes take them
}

void KernelCollective::close() {
  if (pushes()) device_.leave_epoch();
  active_.store(false, std::memory_order_release);
}

// ---- Epochs whose marks push ---------------------------------------------------------------------------------------

/// Kernels may have opened epochs since, which are complete.
void KernelCollective::open_pushed() {
  if (device_.exists()) {
    device_.check();
    epoch_ = device_.side().newest_complete();
  }
  for_each_half([this](const Half& half) {
    if (half.ending.loses(next(epoch_))) throw half.why_lost(name());
  });
  pushed_->open(next(epoch_));
  active_.store(true, std::memory_order_release);
  if (device_.exists()) join_epoch();
}

/// Kernels hear of the host's epoch.
void KernelCollective::join_epoch() {
  if (!pushes()) return;
  device_.side().start(next(epoch_));
  device_.enter_epoch();
}

/// Until there is a device request nobody marks.
bool KernelCollective::pushed_is_done() {
  if (!device_.exists()) return false;
  device_.check();
  if (!pushed_->done()) return false;
  epoch_ = device_.side().newest_complete();
  return true;
}

bool KernelCollective::arrived(std::int64_t partition) {
  check_partition(partition, arguments_.partitions);
  throw_if_failed();
  if (!active()) {
    throw_if_over();  // what has not arrived by then never will
    return true;
  }
  if (!device_.exists()) return false;
  device_.check();
  const auto p = static_cast<int>(partition);
  if (pushed_->arrived(p)) return true;
  services_.progress.poll();
  return pushed_->arrived(p);
}

void KernelCollective::make_own_kernels_ready() {
  if (pushes()) pushed_->set_up();
}

void KernelCollective::end_own_kernels() noexcept {
  if (pushes()) pushed_->drain();
}

}  // namespace partita::collective
