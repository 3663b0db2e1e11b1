// Memory of peers' GPUs that collectives and messages copy from and to.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <variant>

#include "memory/device.hpp"

namespace partita {

/// Keeps what calls have mapped of peers' memory for the next ones, since the driver takes long to map it. What is
/// mapped its owner cannot use again where it has freed it, so there is a bound to it, which holds at any time and
/// whatever becomes of a call: a mapping counts from before it is made until the driver has closed it. What no call
/// uses any more is closed where the driver does not wait for kernels to do so: in the middle of a program's work they
/// may wait for this process. The rest waits for a request of the program's that ends, whose memory the driver closes
/// likewise, or for the end of the runtime, and can be used again meanwhile. Any thread.
class PeerMappings final : private memory::DeviceMemory::Keeper {
 public:
  explicit PeerMappings(memory::DeviceMemory& device_memory) : device_memory_(device_memory) {
    device_memory_.add(*this);
  }
  ~PeerMappings() { device_memory_.remove(*this); }
  PeerMappings(const PeerMappings&) = delete;
  PeerMappings& operator=(const PeerMappings&) = delete;

  /// So much of one peer's memory is mapped at most, by whole allocations; and no more than this part of what the GPU
  /// has that maps it, as GPUs of one node are of a size.
  static constexpr std::uint64_t mapped_at_most_bytes = std::uint64_t{4} << 30;
  static constexpr std::uint64_t mapped_at_most_part = 16;
  /// What none of the last so many calls used may be closed.
  static constexpr std::uint64_t calls_kept = 64;

  /// A call begins to map what it uses.
  void begin_call();
  /// A call begins to find(): it maps nothing. Never blocks.
  void count_call() { ++calls_; }
  /// DeviceMemory::import, but it closes nothing that the driver would wait for, and maps nothing anew beyond the
  /// bound: that is declined. Where memory that its owner has freed is in the way, that may be closed.
  std::variant<std::shared_ptr<std::byte>, memory::NotMappable> map(int peer, const memory::DevicePiece& piece,
                                                                    int device);

  /// What map() of the same gives, of memory that one IPC handle names and that is kept; null where map() has to be
  /// called, or another thread is in here. Asks no driver, and never blocks.
  std::shared_ptr<std::byte> find(int peer, const memory::DevicePiece& piece, int device);

  /// DeviceMemory::decline.
  void decline(int peer, const memory::DevicePiece& piece) { device_memory_.decline(peer, {piece}); }
  /// False where that has failed again and again for this GPU, as between GPUs that do not reach each other. Neither a
  /// want of room counts, nor what is in the way. Waits for no driver.
  bool may_map(int peer, int device);

  /// This rank could not name memory that it had found fit. Peers may keep descriptors that were passed for that call,
  /// which nobody makes: after some of these it names no more.
  void could_not_name() { ++not_named_; }
  bool may_name() const { return not_named_ < not_named_at_most; }

 private:
  static constexpr int not_named_at_most = 16;
  static constexpr int failed_at_most = 3;
  /// Besides so much may stay mapped that could be closed.
  static constexpr std::size_t unused_bytes = std::size_t{256} << 20;

  /// Tells an allocation of a peer's, as it is mapped for a GPU, from all others.
  using Key = std::array<std::uint64_t, 5>;
  struct Mapping {
    std::weak_ptr<std::byte> memory;  ///< until the driver has closed it
    std::shared_ptr<std::byte> kept;  ///< null: it may be closed
    std::uint64_t last_call = 0;
    int under_way = 0;  ///< so many threads are about to map it
  };
  static Key key_of(int peer, const memory::DevicePiece& piece, int device);
  /// The mapping, before and behind DeviceMemory::import. In between it counts as one, and is not forgotten.
  Mapping* begin_mapping(const Key& key, int peer, const memory::DevicePiece& piece, int device, std::string* why_not);
  void end_mapping(const Key& key, Mapping& mapping, const std::shared_ptr<std::byte>& memory, bool is_occupied);
  /// Counts a failure, or ends the row of them.
  void note(int peer, int device, bool has_failed);
  std::uint64_t mapped_bytes(std::uint64_t peer) const;
  /// Empty where a mapping of that would stay within the bound.
  std::string why_no_room(const Key& key);
  void let_go_of(int peer, const memory::DevicePiece& piece) override;
  void let_go_of_memory_at(const Key& place);

  memory::DeviceMemory& device_memory_;
  std::mutex mutex_;  ///< of the next one; nobody has it where the driver may wait for kernels
  std::map<Key, Mapping> mappings_;
  std::mutex failed_mutex_;                    ///< of the next one
  std::map<std::pair<int, int>, int> failed_;  ///< how often in a row, by the peer and the GPU that maps
  std::atomic<std::uint64_t> calls_{0};
  std::atomic<int> not_named_{0};
};

}  // namespace partita
