// A collective on this rank, as the drop-in describes a call of the MPI's that may go by peer memory.
#pragma once

#include <mpi.h>

#include <cstdint>

namespace partita {

/// Elements of a buffer.
struct PeerPart {
  std::int64_t first = 0;  ///< elements before them in the buffer
  std::int64_t count = 0;
};

/// Who makes a call that may go by peer memory.
struct PeerRanks {
  int size;
  int rank;
  /// So many bytes of a rank's larger buffer are worth it, in that call. Where all ranks know by their own arguments
  /// that a call has less, none asks.
  std::int64_t from_bytes;
};

/// A collective that only moves data: what this rank gives to each rank, and gets from it.
struct PeerParts {
  const char* call;  ///< MPI_Alltoall
  /// False where the MPI has to say what is wrong with the call; then nothing else counts but the name.
  bool is_valid;
  bool is_enough;           ///< all ranks know alike, by their own arguments, that it has `from_bytes`
  std::int64_t from_bytes;  ///< PeerRanks::from_bytes
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

/// One that reduces: the same elements of all ranks' buffers, of which each rank does a share.
struct PeerShares {
  enum class To : std::uint8_t {
    all,
    root,
    owner,  ///< each rank gets the result of its own share, at the beginning of `out`
  };
  const char* call;  ///< MPI_Allreduce
  bool is_valid;     ///< as that of PeerParts; so are its operation and datatype
  const void* in;    ///< in place the same as `out`
  void* out;         ///< means something on ranks that get a result
  MPI_Datatype type;
  MPI_Op op;
  const PeerPart* shares;  ///< an entry for each rank: one behind the other, all elements together
  To to;
  int root;
};

}  // namespace partita
