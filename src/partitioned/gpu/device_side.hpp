// The words that the host and the kernels of a request share, in host and GPU memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "core/epoch.hpp"
#include "memory/blocks.hpp"
#include "memory/window.hpp"
#include "partitioned/gpu/prequest.hpp"

namespace partita {

/// docs/design/device.md has the picture. One thread at a time, but for completed(), hands_over(), handed_over(),
/// raise() and abort().
class DeviceSide {
 public:
  /// `before` is the epoch before the first that kernels take part in. Throws Error where the GPU has no memory.
  DeviceSide(memory::HostMemory& host_memory, memory::DeviceMemory& device_memory, const PrequestTerms& terms,
             Epoch before);
  ~DeviceSide();
  DeviceSide(const DeviceSide&) = delete;
  DeviceSide& operator=(const DeviceSide&) = delete;

  const Partita_Prequest& view() const { return view_; }
  /// Whether the kernels of a send move the bytes themselves, wherever the receiver is ready.
  bool kernel_copies() const { return view_.remote != nullptr; }
  bool in_packets() const { return (view_.flags & PARTITA_PREQUEST_PACKETS) != 0; }

  /// The host opens `epoch`.
  void start(Epoch epoch);
  struct LastEpoch {
    Epoch epoch = no_epoch;
    /// All of a send has left, as its kernels have marked it; of a receive has arrived; a collective is complete.
    bool is_over = true;
    Epoch flag = no_epoch;  ///< a collective's newest one
  };
  /// The epoch that the kernels of a device-driven request have opened last. Copies from the GPU. Throws Error where
  /// that no longer works.
  LastEpoch last_epoch() const;
  /// Whether the kernel has decided how every transport partition of `epoch` leaves.
  bool completed(Epoch epoch) const;
  /// Whether the kernel may have left transport partitions of `epoch` to the host: not, as long as it copies them all.
  bool hands_over(Epoch epoch) const;
  /// Whether the kernel has left transport partition `t` of `epoch` to the host. All that are, are seen once
  /// completed() is.
  bool handed_over(std::int32_t t, Epoch epoch) const;
  /// As if the kernels of a send had never left a transport partition to the host. No epoch is open.
  void forget_hand_overs();
  /// Whether the link does not tell the kernels of a receive what has arrived: then these two do.
  bool raises_flags() const { return flags_ != nullptr; }
  /// Tells them that the transport partitions `run` lie in the buffer.
  void raise(link::Range run, Epoch epoch);
  /// Whether the kernels see everything that was raised. Throws Error where the GPU no longer works.
  bool told_kernels();
  /// Whether a kernel found something wrong that nobody was told yet.
  bool has_news() const;
  /// What a kernel found wrong, from its subject on, if one did: whoever asks is told. Costs a load until then.
  std::optional<std::string> mistake();
  /// Releases kernels that wait or ask again and again, for good. Any thread.
  void abort();

 private:
  /// In front of the words that prequest.h describes: what a kernel compares epochs with, where no link has it.
  struct HostWords {
    std::uint64_t promise;
    std::uint64_t reserved[7];
    Partita_Prequest_host host;
  };

  PrequestWords words_for_gpu() const;
  bool has_arrived(const Partita_Prequest_state& state, Epoch epoch) const;
  HostWords& words() const { return *reinterpret_cast<HostWords*>(host_block_.address()); }

  memory::DeviceMemory& device_memory_;
  memory::HostBlock host_block_;
  memory::DeviceBlock state_block_;
  std::unique_ptr<memory::DeviceBlock> flags_;     ///< where raises_flags()
  std::unique_ptr<memory::PeerTable> peers_;       ///< where kernels reach the peer's memory
  std::mutex queue_mutex_;                         ///< of the next one
  std::unique_ptr<memory::CopyQueue> flag_queue_;  ///< that writes them, and the kernels' release
  const Partita_Prequest view_;
  std::atomic<bool> told_{false};
};

}  // namespace partita
