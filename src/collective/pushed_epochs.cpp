#include "collective/pushed_epochs.hpp"

#include <algorithm>
#include <atomic>
#include <exception>

#include "core/log.hpp"
#include "partita/device/impl/pushes.hpp"

namespace partita::collective {
namespace {

/// Between two looks at flags in GPU memory, each of which costs a copy an inbox: at first, and after many in vain.
constexpr std::chrono::microseconds shortest_pause{20};
constexpr std::chrono::microseconds longest_pause{1000};
/// Kernels that open an epoch most likely wait for its end, too: so long after their first mark none has come to that.
constexpr std::chrono::microseconds patience_with_kernels{1000};
/// One that waits for all reduces in order: so long one of the first partitions may be late, before those behind it are
/// reduced without it. Somebody may look for these, and mark the first ones only then.
constexpr std::chrono::microseconds patience_with_waits{10000};
/// A block reduces a piece at a time. Those of ranks that share a GPU leave room for kernels that have yet to mark.
constexpr std::uint64_t most_blocks = 128;
/// What is asked for takes microseconds. Less where PARTITA_TIMEOUT is.
constexpr double looks_like_a_hang_s = 20;

}  // namespace

PushedEpochs::PushedEpochs(const RequestServices& services, const DeviceRequest& device_request, int gpu,
                           const Shape& shape)
    : services_(services),
      device_(device_request),
      gpu_(gpu),
      shape_(shape),
      seen_(services.host_memory, static_cast<std::size_t>(std::max(1, shape.inbox_count)) * flags_bytes()) {}

/// An inbox has so many for each parity.
std::size_t PushedEpochs::flags_bytes() const {
  return static_cast<std::size_t>(device::inbox_flags_bytes(shape_.partitions));
}

/// A stream's first copy and a kernel's first launch may take memory and queues of the GPU. This launch reduces
/// nothing, as no epoch is complete yet behind which it would; if it comes late, it does what any launch does.
void PushedEpochs::set_up() {
  if (!shape_.has_inputs) return;
  const std::lock_guard lock(mutex_);
  if (stream_ == nullptr) {
    seen_on_gpu_ = services_.device_memory.device_pointer(gpu_, seen_.address());
    stream_ = services_.device_memory.make_stream(gpu_);
  }
  const Epoch epoch = next(device_.side().newest_complete());
  copy_flags(epoch);
  launch(epoch);
}

void PushedEpochs::open(Epoch epoch) {
  const std::lock_guard lock(mutex_);
  epoch_ = epoch;
  how_many_.store(0, std::memory_order_relaxed);
}

bool PushedEpochs::done() {
  const std::lock_guard lock(mutex_);
  // Kernels may have gone on to the next one meanwhile.
  if (reached(device_.side().newest_complete(), epoch_)) return true;
  go_on(shape_.marks && all_are_marked());
  return false;
}

bool PushedEpochs::step() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  return lock && go_on(false);
}

bool PushedEpochs::arrived(int partition) const {
  return shape_.has_inputs ? device_.side().reduced(partition, epoch_) : device_.side().marked(partition, epoch_);
}

bool PushedEpochs::is_incomplete() const {
  return !device_.was_made() || !reached(device_.side().newest_complete(), epoch_);
}

void PushedEpochs::drain() noexcept {
  const std::lock_guard lock(mutex_);
  try {
    if (stream_ != nullptr) stream_->drain();
  } catch (const std::exception&) {
    // The GPU works no longer: nothing is under way.
  }
  // Nothing that was seen counts for the next device request.
  is_busy_ = false;
  looked_for_ = no_epoch;
}

int PushedEpochs::how_many() const {
  int count = how_many_.load(std::memory_order_relaxed);
  if (!device_.was_made()) return count;
  const DeviceSide& side = device_.side();
  while (count < shape_.partitions && (shape_.marks ? side.marked(count, epoch_) : side.reduced(count, epoch_))) {
    ++count;
  }
  return count;
}

bool PushedEpochs::all_are_marked() {
  how_many_.store(how_many(), std::memory_order_relaxed);
  return how_many_.load(std::memory_order_relaxed) == shape_.partitions;
}

/// Whether something can be wanted in `epoch`, the one behind the newest that is complete. Who opens one in which this
/// rank marks nothing begins it.
bool PushedEpochs::has_begun(Epoch epoch) const {
  return device_.side().any_marked(epoch) || (!shape_.marks && epoch == epoch_);
}

/// Looks or launches, one at a time, in the epoch that is open, if one is and something is wanted in it. `at_once`:
/// most likely all has come, so the first launch waits for no look. Any launch may find that this rank's own mark is
/// still under way, or that a kernel has taken a piece and not done it yet; so each goes by a new look. Returns whether
/// something was asked for.
bool PushedEpochs::go_on(bool at_once) {
  if (!shape_.has_inputs) return false;
  const DeviceSide& side = device_.side();
  const Epoch before = side.newest_complete();
  const Epoch epoch = next(before);
  if (!has_begun(epoch)) return false;
  if (side.has_failed() || is_left_to_kernels(epoch) || is_busy()) return false;
  const bool is_first = at_once && epoch == epoch_ && launched_once_ != epoch;
  if (is_first) launched_once_ = epoch;
  if (is_first || (looked_for_ == epoch && any_can_be_reduced())) {
    launch(before);
    return true;
  }
  return any_is_wanted(epoch) && begin_look(epoch);
}

/// It has begun.
bool PushedEpochs::is_left_to_kernels(Epoch epoch) {
  const bool waits = device_.side().kernel_waits(epoch);
  if (epoch == epoch_ && !waits) return false;
  const auto now = std::chrono::steady_clock::now();
  if (left_in_ != epoch || left_to_waits_ != waits) {
    left_in_ = epoch;
    left_to_waits_ = waits;
    left_since_ = now;
  }
  return now < left_since_ + (waits ? patience_with_waits : patience_with_kernels);
}

/// Whether what was asked for is under way.
bool PushedEpochs::is_busy() {
  if (!is_busy_) return false;
  is_busy_ = !stream_->idle();
  if (is_busy_) tell_if_late();
  return is_busy_;
}

/// Once: whoever waits in a kernel's loop hears of it by no other way.
void PushedEpochs::tell_if_late() {
  if (is_told_late_) return;
  const double timeout_s = services_.settings.timeout_s;
  const double limit_s = timeout_s > 0 ? std::min(timeout_s, looks_like_a_hang_s) : looks_like_a_hang_s;
  const std::chrono::duration<double> since = std::chrono::steady_clock::now() - busy_since_;
  if (since.count() < limit_s) return;
  is_told_late_ = true;
  log("what reduces a collective on GPU {} has not run for {} s. Does a kernel of the program's fill the GPU while it "
      "looks for the results, or does its stream share a work queue of the GPU's with the library's? "
      "CUDA_DEVICE_MAX_CONNECTIONS=8, or more, gives this process more of these",
      gpu_, limit_s);
}

/// Whether it is marked here, unless this rank marks nothing, and nobody has reduced it, as far as is known.
bool PushedEpochs::is_wanted(int partition, Epoch epoch) const {
  const DeviceSide& side = device_.side();
  return (!shape_.marks || side.marked(partition, epoch)) && !side.reduced(partition, epoch);
}

bool PushedEpochs::any_is_wanted(Epoch epoch) const {
  for (int p = 0; p < shape_.partitions; ++p) {
    if (is_wanted(p, epoch)) return true;
  }
  return false;
}

/// Whether it was there in all inboxes at the last look.
bool PushedEpochs::has_come(int partition) const {
  for (int i = 0; i < shape_.inbox_count; ++i) {
    const auto* const flags =
        reinterpret_cast<const Epoch*>(seen_.address() + static_cast<std::size_t>(i) * flags_bytes());
    if (flags[partition] != looked_for_) return false;
  }
  return true;
}

/// By the last look. The flags that were seen lie in GPU memory, so that a kernel sees them, too.
bool PushedEpochs::any_can_be_reduced() const {
  for (int p = 0; p < shape_.partitions; ++p) {
    if (is_wanted(p, looked_for_) && has_come(p)) return true;
  }
  return false;
}

/// Looks in vain are ever further apart, as a rank may be late by any time.
bool PushedEpochs::begin_look(Epoch epoch) {
  const auto now = std::chrono::steady_clock::now();
  const bool was_in_vain = looked_for_ == epoch;
  if (!was_in_vain) pause_ = shortest_pause;
  if (now < newest_look_ + pause_) return false;
  if (was_in_vain) pause_ = std::min(2 * pause_, longest_pause);
  newest_look_ = busy_since_ = now;
  looked_for_ = epoch;
  is_busy_ = true;
  copy_flags(epoch);
  return true;
}

void PushedEpochs::copy_flags(Epoch epoch) {
  const std::size_t at = (epoch & 1) * flags_bytes();
  for (std::size_t i = 0; i < static_cast<std::size_t>(shape_.inbox_count); ++i) {
    stream_->copy(seen_on_gpu_ + i * flags_bytes(), shape_.inboxes + i * shape_.inbox_bytes + at, flags_bytes());
  }
}

/// One launch for all that can be reduced.
void PushedEpochs::launch(Epoch before) {
  const Partita_Prequest& view = device_.side().view();
  const std::uint64_t pieces = std::uint64_t{view.rounds} * static_cast<std::uint64_t>(shape_.partitions);
  looked_for_ = no_epoch;
  is_busy_ = true;
  busy_since_ = std::chrono::steady_clock::now();
  stream_->launch({static_cast<unsigned>(std::min(pieces, most_blocks)), memory::ReducePushed::most_threads},
                  memory::ReducePushed{view, before});
}

}  // namespace partita::collective
