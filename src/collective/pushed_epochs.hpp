// The host's part of the epochs of a collective whose marks push: when the kernels are launched that reduce.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "core/epoch.hpp"
#include "memory/blocks.hpp"
#include "memory/stream.hpp"
#include "partitioned/gpu/device_request.hpp"
#include "partitioned/request_services.hpp"

namespace partita::collective {

/// Kernels mark, and push what they mark, without their host. Whoever waits reduces: a kernel, or, where none does,
/// those of the library's that are launched here, by the host's calls and by the progress engine, in epochs that the
/// host has opened and in those that kernels have. They reduce what has come from all ranks and wait for nobody, so
/// that none stands on the GPU until other ranks come, whatever call has launched it. What has come is known from the
/// flags of the inboxes, which lie in GPU memory: they are copied now and then, as long as something is marked and not
/// reduced, or, where kernels of this rank mark nothing, from the start of an epoch on. Steps only ask for copies and
/// launches, in a stream that was made ahead: a kernel of the program's that looks for what they bring may stand on the
/// GPU, and nothing that waits for it may hold them up. Any thread. Members throw Error.
class PushedEpochs {
 public:
  struct Shape {
    int partitions;
    const std::byte* inboxes;  ///< those into which something is pushed, one behind the other
    int inbox_count;
    std::size_t inbox_bytes;  ///< of each
    bool marks;               ///< kernels of this rank do
    bool has_inputs;          ///< else its marks end its epochs, and nothing is launched
  };
  PushedEpochs(const RequestServices& services, const DeviceRequest& device_request, int gpu, const Shape& shape);
  PushedEpochs(const PushedEpochs&) = delete;
  PushedEpochs& operator=(const PushedEpochs&) = delete;

  /// The device request was made: so is what steps need.
  void set_up();
  /// The host opens `epoch`.
  void open(Epoch epoch);
  /// A look by whoever waits, or tests: whether the epoch that the host has opened is complete. There is a device
  /// request, as for the next two.
  bool done();
  /// A step of the progress engine, in whichever epoch; returns whether something was asked for.
  bool step();
  /// Whether the result of a partition is there, in the epoch that the host has opened.
  bool arrived(int partition) const;
  /// How many partitions kernels of this rank have marked in it, or, where they mark nothing, are reduced; the first
  /// ones in a row.
  int how_many() const;
  /// The epoch that the host has opened last; any thread, as the next one.
  Epoch opened() const { return epoch_; }
  /// Whether that is not complete, or there is no device request.
  bool is_incomplete() const;
  /// What was launched has ended.
  void drain() noexcept;

 private:
  bool all_are_marked();
  bool go_on(bool at_once);
  bool has_begun(Epoch epoch) const;
  bool is_left_to_kernels(Epoch epoch);
  bool is_busy();
  bool is_wanted(int partition, Epoch epoch) const;
  bool has_come(int partition) const;
  bool any_is_wanted(Epoch epoch) const;
  bool any_can_be_reduced() const;
  std::size_t flags_bytes() const;
  bool begin_look(Epoch epoch);
  void copy_flags(Epoch epoch);
  void launch(Epoch before);
  void tell_if_late();

  const RequestServices& services_;
  const DeviceRequest& device_;
  const int gpu_;
  const Shape shape_;
  mutable std::mutex mutex_;                ///< of all that follows
  std::unique_ptr<memory::Stream> stream_;  ///< from set_up() on
  memory::HostBlock seen_;                  ///< the flags of `looked_for_` as they were copied last, inbox by inbox
  std::byte* seen_on_gpu_ = nullptr;        ///< its address there
  std::atomic<Epoch> epoch_{no_epoch};      ///< that the host has opened last; the watch reads it, too
  std::atomic<int> how_many_{0};
  bool is_busy_ = false;  ///< copies or a kernel were asked for, ...
  std::chrono::steady_clock::time_point busy_since_;
  bool is_told_late_ = false;       ///< ... and it was said once that they take long
  Epoch looked_for_ = no_epoch;     ///< the epoch whose flags are copied; no_epoch once there was a launch for them
  Epoch launched_once_ = no_epoch;  ///< the newest one in which a launch came before any look
  std::chrono::steady_clock::time_point newest_look_;
  std::chrono::microseconds pause_{0};                ///< between that look and the next one
  Epoch left_in_ = no_epoch;                          ///< the newest epoch that was left to kernels, ...
  bool left_to_waits_ = false;                        ///< ... to those that wait for all of it, or to any, ...
  std::chrono::steady_clock::time_point left_since_;  ///< ... since then
};

}  // namespace partita::collective
