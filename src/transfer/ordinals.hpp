// How many halves of each direction, peer and tag a communicator has had.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace partita {

/// Counts that are never forgotten, so kept small: a table with open addressing, 12 bytes a place and 14 to 21 bytes
/// for each direction, peer and tag that was ever drawn for. One thread at a time.
class Ordinals {
 public:
  /// The next number of `tag` (at least 0) with `peer` (at least -1), from 0 on. Throws std::bad_alloc, having drawn
  /// none.
  std::uint32_t draw(bool send, int peer, int tag);
  /// `ordinal` was not used: it is drawn again, if it is the newest.
  void give_back(bool send, int peer, int tag, std::uint32_t ordinal);

  std::size_t size_bytes() const { return places_.capacity() * sizeof(Place); }

 private:
  struct Place {
    std::uint32_t whose = 0;  ///< twice the peer's rank, and one more for a send
    std::int32_t tag = -1;    ///< negative: free
    std::uint32_t next = 0;

    bool free() const { return tag < 0; }
  };

  Place& find(std::uint32_t whose, int tag);
  void grow();

  std::vector<Place> places_;  ///< an entry stands at the first place that was free from its hash on
  std::size_t used_ = 0;
};

}  // namespace partita
