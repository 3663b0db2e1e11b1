// A collective by peer memory that reduces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collective/gpu_reduction.hpp"
#include "two_sided/peer_call.hpp"
#include "two_sided/peer_parts.hpp"

namespace partita {

/// Each rank reduces a share of the elements, which kernels on its GPU read in the memory of all, and copies the result
/// to the memory of those that get it. Nobody else reads or writes this share, so all of it goes in place, too.
class PeerReduce final : public PeerCall {
 public:
  PeerReduce(const PeerContext& context, const PeerShares& shares) : PeerCall(context, shares.call), shares_(shares) {}

 private:
  bool is_fit() override;
  bool reduces() const override { return true; }
  bool moves_enough() const override { return true; }  // all ranks know it
  bool names_memory() override;
  bool maps_peers() override;
  bool uses(int) const override { return share_bytes(rank()) > 0; }
  Needs needs() const override;
  /// A result that has no place on this rank is made in pieces, one behind the other in the stream.
  void ask_for_part(memory::Stream& stream, std::byte* scratch) override;

  bool is_in_place() const { return shares_.in == shares_.out; }
  /// Whether `rank` gets the result of this rank's share; of the peers.
  bool gets_mine(int rank) const;
  /// Whether this rank gets that of a peer's.
  bool gets_theirs() const;
  std::int64_t share_bytes(int rank) const { return in_.bytes(shares_.shares[rank].count); }
  /// Where the result of this rank's share becomes complete; null: in memory of Partita's.
  std::byte* result() const;
  void ask_for_piece(memory::Stream& stream, std::byte* to, std::int64_t done_bytes, std::int64_t piece_bytes);

  const PeerShares shares_;
  collective::GpuReduction reduction_;
  PeerBuffer in_;
  PeerBuffer out_;
  Shown shown_in_;
  Shown shown_out_;
  std::vector<std::byte*> read_;     ///< the elements of this rank's share, by rank
  std::vector<std::byte*> written_;  ///< where their result goes, by rank; null where it goes not
};

}  // namespace partita
