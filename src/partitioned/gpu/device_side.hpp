// The words that the host and the kernels of a request share, in host and GPU memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "core/epoch.hpp"
#include "memory/blocks.hpp"
#include "memory/window.hpp"
#include "partitioned/gpu/prequest.hpp"

namespace partita {

/// docs/design/device.md has the picture. One thread at a time, but for completed(), hands_over(), handed_over(),
/// all_handed_over(), newest_complete(), any_marked(), marked(), reduced(), kernel_waits(), has_failed(), raise(),
/// abort() and what asks for the last epoch.
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
  /// The epoch that the kernels of a device-driven request have opened last. Copies from the GPU, and stands for as
  /// long as that does: not in a step of the progress engine. Throws Error where the GPU no longer works, as the next
  /// two.
  LastEpoch last_epoch() const;
  /// Asks the GPU for it, behind all that it was asked for before, and does not wait.
  void ask_last_epoch();
  /// Whether the answer is still to be taken.
  bool owes_last_epoch();
  /// Takes it; none where the GPU has not come to it yet, or was not asked.
  std::optional<LastEpoch> take_last_epoch();
  /// As last_epoch(), but what the GPU was asked for and has not been taken is the answer.
  LastEpoch await_last_epoch();
  /// Whether the kernel has decided how every transport partition of `epoch` leaves.
  bool completed(Epoch epoch) const;
  /// Whether the kernel may have left transport partitions of `epoch` to the host: not, as long as it copies them all.
  bool hands_over(Epoch epoch) const;
  /// Which of `count` transport partitions of `epoch`, from `first` on, the kernel has left to the host: a bit for
  /// each, 32 at most. All that are, are seen once completed() is.
  std::uint32_t handed_over(std::int32_t first, std::int32_t count, Epoch epoch) const;
  /// Whether it has left all of them to the host.
  bool all_handed_over(Epoch epoch) const { return !kernel_copies() && completed(epoch); }
  /// The newest epoch that is complete, in a collective whose marks push. Who sees that sees its results, and so do
  /// kernels that are launched then.
  Epoch newest_complete() const;
  /// Whether kernels mark, or have marked, some partition in `epoch`, the one behind newest_complete() as it was seen
  /// last, or in the next one; or, where this rank marks nothing, have opened it.
  bool any_marked(Epoch epoch) const;
  /// Whether they mark, or have marked, `partition` in `epoch` or a later one.
  bool marked(std::int32_t partition, Epoch epoch) const;
  /// Whether its result is there, of `epoch` or a later one; as above.
  bool reduced(std::int32_t partition, Epoch epoch) const;
  /// Whether a kernel waits for the end of `epoch`, and reduces all that nobody else does, one behind the other.
  bool kernel_waits(Epoch epoch) const;
  /// As if the kernels of a send had never left a transport partition to the host. No epoch is open.
  void forget_hand_overs();
  /// Whether the link does not tell the kernels of a receive what has arrived: then these two do.
  bool raises_flags() const { return flags_ != nullptr; }
  /// Tells them that the transport partitions `run` lie in the buffer.
  void raise(link::Range run, Epoch epoch);
  /// Whether the kernels see everything that was raised. Throws Error where the GPU no longer works.
  bool told_kernels();
  /// Whether a kernel found something wrong.
  bool has_failed() const;
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

  PrequestWords words_for_gpu(const PrequestTerms& terms) const;
  memory::CopyQueue& queue();
  std::span<const std::byte> state_that_tells() const;
  std::span<const std::byte> flags_that_tell() const;
  std::size_t bytes_that_tell() const { return state_that_tells().size() + flags_that_tell().size(); }
  LastEpoch judge(const std::byte* told) const;
  bool is_over(const Partita_Prequest_state& state, Epoch epoch) const;
  bool has_arrived(const std::byte* told, Epoch epoch) const;
  HostWords& words() const { return *reinterpret_cast<HostWords*>(host_block_.address()); }

  memory::DeviceMemory& device_memory_;
  memory::HostBlock host_block_;
  memory::DeviceBlock state_block_;
  std::unique_ptr<memory::DeviceBlock> flags_;     ///< where raises_flags()
  std::mutex queue_mutex_;                         ///< of the next one, and of the answer
  std::unique_ptr<memory::CopyQueue> flag_queue_;  ///< writes them and the kernels' release, reads for the host
  const Partita_Prequest view_;
  const Epoch before_;                            ///< the epoch before the first that kernels take part in
  std::unique_ptr<memory::HostBlock> last_told_;  ///< page-locked, of a device-driven one: where the answer is put
  bool owes_last_epoch_ = false;
  std::atomic<bool> told_{false};
};

}  // namespace partita
