// What a rank gives to each rank of a collective and gets from it, as the drop-in describes a call of the MPI's.
#pragma once

#include <mpi.h>

#include <cstdint>

namespace partita {

/// Elements of a buffer.
struct PeerPart {
  std::int64_t first = 0;  ///< elements before them in the buffer
  std::int64_t count = 0;
};

/// A blocking collective that only moves data, on this rank.
struct PeerParts {
  const char* call;  ///< MPI_Alltoall
  /// False where the MPI has to say what is wrong with the call; then nothing else counts but the name.
  bool is_valid;
  /// The bytes of a rank's larger buffer where all ranks know them alike, by their own arguments, or unknown_bytes.
  std::int64_t bytes;
  static constexpr std::int64_t unknown_bytes = -1;
  const void* in;
  void* out;
  MPI_Datatype in_type;  ///< as the next one, anything where no part has elements
  MPI_Datatype out_type;
  const PeerPart* sent;      ///< an entry for each rank of the communicator; that for itself is copied, too
  const PeerPart* received;  ///< likewise
  /// In place: what is received from a rank takes the place of what is sent there; the two entries name the same
  /// elements of `out`.
  bool swaps;
};

}  // namespace partita
