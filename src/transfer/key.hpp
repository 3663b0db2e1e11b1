// What decides which send meets which receive.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

namespace partita {

/// What a transfer is for. Each space has an order of its own: what the library transfers for a collective never shifts
/// the order of the program's own transfers.
enum class Space : std::uint8_t {
  point_to_point,  ///< partitioned messages
  collective,
  queue,  ///< ordinary messages, once they are to be matched
  channel
};
inline constexpr Space last_space = Space::channel;
inline constexpr std::size_t space_count = static_cast<std::size_t>(last_space) + 1;

/// Both sides of a transfer have equal keys, and no other transfer has (MPI-4, section 4.2.1).
struct MatchKey {
  Space space = Space::point_to_point;
  std::uint64_t comm_id = 0;
  int sender = -1;    ///< world rank
  int receiver = -1;  ///< world rank
  int tag = -1;
  std::uint32_t ordinal = 0;     ///< so many that agree in all else came before
  std::uint32_t collective = 0;  ///< of a leg: so many collectives of the communicator came before its own

  auto operator<=>(const MatchKey&) const = default;
};

}  // namespace partita
