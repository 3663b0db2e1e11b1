// What the two sides of a request tell each other when they are matched over link mpi.
#pragma once

#include <span>

#include "core/wire.hpp"

namespace partita::link::mpi {

/// Receiver to sender.
struct Answer {
  int first_tag = 0;  ///< transport partition t has the tag first_tag + t

  wire::Bytes pack() const { return wire::Writer().put(first_tag).take(); }
  /// Throws Error also where `transport_partitions` tags from the first one on pass `tag_upper_bound`.
  static Answer unpack(std::span<const std::byte> bytes, int transport_partitions, int tag_upper_bound) {
    wire::Reader reader(bytes);
    const Answer answer{reader.get<int>()};
    reader.end();
    if (answer.first_tag < 0 || answer.first_tag > tag_upper_bound - (transport_partitions - 1)) {
      throw wire::malformed("names tags from {} on for {} transfers; the MPI has {}", answer.first_tag,
                            transport_partitions, tag_upper_bound);
    }
    return answer;
  }
};

}  // namespace partita::link::mpi
