// What decides which send meets which receive.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <iterator>

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

/// What holds for the transfers of a space.
struct SpaceRules {
  const char* noun;     ///< for sentences: a … send
  const char* sought;   ///< for sentences: what has to be done with its other side, so that it is found
  bool may_be_empty;    ///< without bytes it is matched for its place in the order alone
  bool may_be_shorter;  ///< a send than its receive
  bool divided_alike;   ///< both sides walk by the same partitions
};

/// In the order of Space.
inline constexpr SpaceRules space_rules[] = {
    {"partitioned", "made", false, false, false},
    {"partitioned", "made", true, false, true},
    {"persistent", "asked to match", false, true, false},
    {"partitioned", "made", false, false, false},
};
static_assert(std::size(space_rules) == space_count);

constexpr const SpaceRules& rules_of(Space space) {
  return space_rules[static_cast<std::size_t>(space)];
}

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
