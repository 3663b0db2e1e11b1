// What a link can do, as data.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "memory/memory.hpp"

namespace partita::link {

class Kinds {
 public:
  constexpr Kinds(std::initializer_list<memory::Kind> kinds) {
    for (const memory::Kind kind : kinds) bits_ |= bit(kind);
  }
  constexpr bool has(memory::Kind kind) const { return (bits_ & bit(kind)) != 0; }

 private:
  static constexpr unsigned bit(memory::Kind kind) { return 1U << static_cast<unsigned>(kind); }
  unsigned bits_ = 0;
};

inline constexpr Kinds host_memory{memory::Kind::host, memory::Kind::host_exported};

/// Bytes move from any of the one to any of the other.
struct Movement {
  Kinds from;
  Kinds to;
};

/// A row of a table by size, whose rows ascend; the last one holds for any_size.
struct SmallestTransfer {
  std::int64_t up_to_bytes;  ///< of all partitions together
  std::int64_t least_bytes;
  std::int64_t most = 0;  ///< transfers of the request, where it is not 0: they may have to be larger
};
inline constexpr std::int64_t any_size = std::numeric_limits<std::int64_t>::max();
inline constexpr std::int64_t kib = 1024;
inline constexpr std::int64_t mib = 1024 * kib;

/// Where the cost of a transfer lies.
enum class Target : std::uint8_t {
  mapped,  ///< host memory that the sender can map, or its own process's
  plain,   ///< other host memory
  gpu,     ///< GPU memory
  staged,  ///< host memory, where one side's buffer is in GPU memory
};

inline constexpr Movement between_hosts[] = {{host_memory, host_memory}};
inline constexpr SmallestTransfer into_hosts[] = {{1 * mib, 16 * kib}, {any_size, 64 * kib}};
inline constexpr SmallestTransfer beside_gpus[] = {{32 * mib, 1 * mib, 2}, {any_size, 1, 4}};

struct Capabilities {
  std::string_view name;
  /// `auto` holds the link back, until the receiver asks for it, where one before it can serve the sender: starting it
  /// takes milliseconds and threads.
  bool costly_to_start = false;
  /// Between which memories it moves bytes itself; GPU memory is staged in host memory otherwise.
  std::span<const Movement> movements = between_hosts;
  /// Between which memories kernels can put by themselves, and see arrivals (SenderFacts::has_device_route).
  std::span<const Movement> kernel_movements = {};
  /// Flags in host memory may tell of arrivals in host memory (ReceiverFacts::host_flags).
  bool host_flags = false;
  /// The smallest transfer that is worth its own start and flag, as measured, by target and size. Smaller partitions
  /// travel together, unless the program asks otherwise.
  std::span<const SmallestTransfer> into_mapped = into_hosts;
  std::span<const SmallestTransfer> into_plain = into_hosts;
  std::span<const SmallestTransfer> into_gpu = beside_gpus;
  std::span<const SmallestTransfer> staged = beside_gpus;

  constexpr bool moves(memory::Kind from, memory::Kind to) const { return have(movements, from, to); }
  constexpr bool kernels_put(memory::Kind from, memory::Kind to) const { return have(kernel_movements, from, to); }

  /// In bytes, of a request of `total_bytes`.
  constexpr std::int64_t smallest_transfer(Target target, std::int64_t total_bytes) const {
    const std::span<const SmallestTransfer> table = target == Target::mapped  ? into_mapped
                                                    : target == Target::plain ? into_plain
                                                    : target == Target::gpu   ? into_gpu
                                                                              : staged;
    const auto row = std::find_if(table.begin(), table.end(),
                                  [&](const SmallestTransfer& entry) { return total_bytes <= entry.up_to_bytes; });
    return std::max(row->least_bytes, row->most == 0 ? 0 : total_bytes / row->most);
  }

 private:
  static constexpr bool have(std::span<const Movement> movements, memory::Kind from, memory::Kind to) {
    return std::any_of(movements.begin(), movements.end(),
                       [&](const Movement& movement) { return movement.from.has(from) && movement.to.has(to); });
  }
};

/// What `link` can do, without its name; clauses for `partita info`.
std::string describe(const Capabilities& link);

}  // namespace partita::link
