// Collectives whose epochs kernels open, as kernels that the library launches.
#include <fmt/format.h>

#include <algorithm>

#include "collective/kernel_collective.hpp"
#include "collective/kernel_grid.hpp"
#include "memory/kernels.hpp"
#include "partita/device/impl/words.hpp"
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

/// A stream that is captured takes no memory, and beside kernels that wait little can be made, so that what the kernels
/// work with is made ahead. What a program's kernels use is the program's to make.
void KernelCollective::match_is_seen() {
  if (pushes()) return make_request_if_nobody_marks();
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
  if (pushes()) throw_if_lost_without_kernels();
  if (!matched()) return false;
  if (!pushes_straight() || !is_root()) return true;  // no marks are to come, or inboxes take them
  return std::ranges::all_of(neighbours_,
                             [this](const Neighbour& each) { return each.out.receiver_is_ready(pushed_->opened()); });
}

void KernelCollective::close() {
  if (pushes()) device_.leave_epoch();
  if (Half* const half = half_that_promises()) half->set_active(false);
  active_.store(false, std::memory_order_release);
}

// ---- Epochs whose marks push ---------------------------------------------------------------------------------------

PushedEpochs::Shape KernelCollective::pushed_shape() const {
  const int ranks = arguments_.problem.size;
  PushedEpochs::Shape shape{.partitions = arguments_.partitions,
                            .inboxes = areas_ ? areas_->data() : nullptr,
                            .inbox_count = ranks - 1,
                            .inbox_bytes = static_cast<std::size_t>(area_bytes_),
                            .marks = may_mark(),
                            .has_inputs = true};
  if (!pushes_straight()) return shape;
  shape.has_inputs = !is_root();
  shape.inbox_count = shape.has_inputs ? 1 : 0;
  if (shape.has_inputs) shape.inboxes = area_of(arguments_.problem.root);
  return shape;
}

/// Kernels may have opened epochs since, which are complete. What can fail comes before the epoch opens.
void KernelCollective::open_pushed() {
  make_request_if_nobody_marks();
  if (device_.was_made()) {
    device_.check();
    epoch_ = device_.side().newest_complete();
  }
  for_each_half([this](const Half& half) {
    if (half.ending.loses(next(epoch_))) throw half.why_lost(name());
  });
  if (pushes_straight() && is_root() && device::forgets_arrivals(epoch_, next(epoch_))) forget_credits();
  if (Half* const half = half_that_promises()) {
    half->set_epoch(epoch_);
    half->start();
  }
  pushed_->open(next(epoch_));
  active_.store(true, std::memory_order_release);
  if (device_.was_made()) join_epoch();
}

/// As kernels of the root do where they open the epoch (device/impl/credits.cuh).
void KernelCollective::forget_credits() {
  for (const Neighbour& neighbour : neighbours_) write_to_area(neighbour.rank, {epoch_});
}

/// At another rank than a bcast's root, what tells the root that the host has opened an epoch, or will when they are
/// matched, whether or not there is a device request by then. Kernels tell it themselves of theirs. Else null.
Half* KernelCollective::half_that_promises() {
  if (may_mark()) return nullptr;
  return &std::ranges::find(neighbours_, arguments_.problem.root, &Neighbour::rank)->in;
}

/// Where kernels of this rank mark nothing, the program may have no device request: then the library's kernels work
/// with one of its own.
void KernelCollective::make_request_if_nobody_marks() {
  if (may_mark() || device_.was_made() || !matched()) return;
  device_.for_own_kernels();  // which joins the epoch that is open, if one is
}

/// Where there are kernels the watch ends what waits.
void KernelCollective::throw_if_lost_without_kernels() const {
  if (device_.was_made()) return;
  for_each_half([this](const Half& half) {
    if (half.ending.loses(pushed_->opened())) throw half.why_lost(name());
  });
}

/// Kernels hear of the host's epoch.
void KernelCollective::join_epoch() {
  if (!pushes()) return;
  device_.side().start(next(epoch_));
  device_.enter_epoch();
}

/// Until there is a device request nobody marks.
bool KernelCollective::pushed_is_done() {
  make_request_if_nobody_marks();
  if (!device_.was_made()) {
    throw_if_lost_without_kernels();
    return false;
  }
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
  make_request_if_nobody_marks();
  if (!device_.was_made()) {
    throw_if_lost_without_kernels();
    return false;
  }
  device_.check();
  const auto p = static_cast<int>(partition);
  if (pushed_->arrived(p)) return true;
  services_.progress.poll();
  return pushed_->arrived(p);
}

void KernelCollective::set_up_reductions() {
  if (pushes()) pushed_->set_up();
}

void KernelCollective::end_own_kernels() noexcept {
  if (pushes()) pushed_->drain();
}

}  // namespace partita::collective
