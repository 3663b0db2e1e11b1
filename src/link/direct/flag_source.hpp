// Where the flags of many transport partitions come from that leave together behind a gap.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "link/context.hpp"
#include "link/direct/copy_lane.hpp"
#include "memory/blocks.hpp"

namespace partita::link::direct {

/// The number of the epoch, as often as there are transport partitions, in the GPU's memory: a lane copies from there,
/// behind the bytes of a run, to the run's flags. A copy from host memory to the receiver's would keep the calling
/// thread until it is made. The numbers come from the host; those of an epoch after one that needed some lie there
/// before it begins. Belongs to one lane; one thread at a time.
class FlagSource {
 public:
  FlagSource(const Context& context, int device, std::int32_t transport_partitions)
      : count_(transport_partitions),
        on_host_(context.host_memory, 2 * bytes_of(all()).end),
        on_gpu_(context.device_memory, device, bytes_of(all()).end) {
    // The segment becomes the GPU's here: that takes longer than a mark may.
    context.device_memory.device_pointer(device, on_host_.address());
  }

  /// The words of `run`, in the GPU, read `epoch` behind what `lane` copies so far. A call of announce() follows.
  void bring(Range run, Epoch epoch, CopyLane& lane) {
    used_ = epoch;
    if (brought_ == epoch) return;
    brought_ = no_epoch;
    // Nothing else reads these words of the host: what the epochs before have brought they have announced, and every
    // run of this one is brought once.
    fill(now(), run, epoch);
    lane.copy(on_gpu_.address(), reinterpret_cast<std::byte*>(now()), bytes_of(run));
  }
  /// Copies those of `run` to the same place behind `flags`.
  void raise(Range run, Epoch* flags, CopyLane& lane) const {
    lane.copy(reinterpret_cast<std::byte*>(flags), on_gpu_.address(), bytes_of(run));
  }
  /// Behind the last run of `epoch`: where it has needed numbers here, the next one finds its own, unless the lane has
  /// not come yet to those that were brought so before.
  void bring_ahead(Epoch epoch, CopyLane& lane) {
    if (used_ != epoch || !lane.passed(ahead_copied_)) return;
    fill(ahead(), all(), next(epoch));
    lane.copy(on_gpu_.address(), reinterpret_cast<std::byte*>(ahead()), bytes_of(all()));
    ahead_copied_ = lane.place();
    brought_ = next(epoch);
  }

 private:
  Range all() const { return {0, count_}; }
  static Range bytes_of(Range run) {
    return {run.begin * static_cast<std::int64_t>(sizeof(Epoch)), run.end * static_cast<std::int64_t>(sizeof(Epoch))};
  }
  Epoch* now() const { return reinterpret_cast<Epoch*>(on_host_.address()); }
  Epoch* ahead() const { return now() + count_; }
  static void fill(Epoch* words, Range run, Epoch epoch) { std::fill(words + run.begin, words + run.end, epoch); }

  std::int64_t count_;
  memory::HostBlock on_host_;  ///< what is brought in the epoch itself, then what is brought ahead
  memory::DeviceBlock on_gpu_;
  Epoch used_ = no_epoch;          ///< the newest epoch that needed some
  Epoch brought_ = no_epoch;       ///< the epoch of which all were brought ahead
  Epoch ahead_copied_ = no_epoch;  ///< the lane's place behind that
};

}  // namespace partita::link::direct
