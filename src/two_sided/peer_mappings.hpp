// Memory of peers' GPUs that collectives write to.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <variant>
#include <vector>

#include "memory/device.hpp"

namespace partita {

/// Keeps what calls have mapped of peers' memory for the next ones, since the driver takes long to map it. What is kept
/// is memory that its owner cannot use again where it has freed it; so it is bounded, by age, number and size. What is
/// kept no more is closed where the driver does not wait for kernels to do so: in the middle of a program's work they
/// may wait for this process. The rest ends with a request, or stays; with too much of that nothing more is mapped. Any
/// thread.
class PeerMappings {
 public:
  explicit PeerMappings(memory::DeviceMemory& device_memory) : device_memory_(device_memory) {}

  /// What no call used of the last so many is let go of; and of the rest what was used longest ago, where it is more
  /// than so many mappings or bytes, but for what the last call used.
  static constexpr std::uint64_t calls_kept = 64;
  static constexpr std::size_t mappings_kept = 256;
  static constexpr std::uint64_t bytes_kept = std::uint64_t{1} << 30;
  /// Besides so much may stay mapped that is kept no more.
  static constexpr std::size_t unclosed_at_most_bytes = std::size_t{256} << 20;

  /// Tells an allocation of a peer's, as it is mapped for a GPU, from all others.
  using Key = std::array<std::uint64_t, 5>;
  struct Mapped {
    Key key{};
    std::shared_ptr<std::byte> memory;
  };
  /// DeviceMemory::import, but it closes nothing that the driver would wait for. Where memory that its owner has freed
  /// is in the way, that is kept no more.
  std::variant<Mapped, memory::NotMappable> map(int peer, const memory::DevicePiece& piece, int device);
  /// A call has ended that used these.
  void keep(std::vector<Mapped> used);
  /// Whether no more than that stays mapped.
  bool have_room();

  /// This rank could not name memory that it had found fit. Peers may keep descriptors that were passed for that call,
  /// which nobody makes: after some of these it names no more.
  void could_not_name() { ++not_named_; }
  bool may_name() const { return not_named_ < not_named_at_most; }

 private:
  static constexpr int not_named_at_most = 16;

  struct Kept {
    std::shared_ptr<std::byte> memory;
    std::uint64_t last_call = 0;
  };
  bool let_go_of_old();
  void forget_peers_memory(const Key& at_its_place);

  memory::DeviceMemory& device_memory_;
  std::mutex mutex_;
  std::map<Key, Kept> kept_;
  std::uint64_t kept_bytes_ = 0;
  std::uint64_t calls_ = 0;
  std::atomic<bool> is_full_{false};
  std::atomic<int> not_named_{0};
};

}  // namespace partita
