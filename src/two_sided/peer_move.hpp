// A collective by peer memory that only moves data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "two_sided/peer_call.hpp"
#include "two_sided/peer_parts.hpp"

namespace partita {

/// Each rank copies what it sends to its places in the memory of the others.
class PeerMove final : public PeerCall {
 public:
  PeerMove(const PeerContext& context, const PeerParts& parts) : PeerCall(context, parts.call), parts_(parts) {}

 private:
  bool is_fit() override;
  bool reduces() const override { return false; }
  bool moves_enough() const override;
  bool names_memory() override;
  bool maps_peers() override;
  bool uses(int peer) const override { return writes_to(peer); }
  Needs needs() const override;
  void ask_for_part(memory::Stream& stream, std::byte* scratch) override;

  void swap_with(int peer, memory::Stream& stream, std::byte* scratch) const;
  /// Whether this rank writes to `peer`'s memory. Where two ranks swap, one of them moves both ways.
  bool writes_to(int peer) const;
  bool is_written_by(int peer) const;
  bool looks_at_parts(PeerBuffer& buffer, const void* address, MPI_Datatype type, const PeerPart* parts);
  /// What of the buffer peers write to.
  Shown written() const;
  std::int64_t sent_bytes(int peer) const { return in_.bytes(parts_.sent[peer].count); }
  std::int64_t received_bytes(int peer) const { return out_.bytes(parts_.received[peer].count); }
  std::byte* sent(int peer) const { return in_.at(parts_.sent[peer].first); }
  std::byte* received(int peer) const { return out_.at(parts_.received[peer].first); }

  const PeerParts parts_;
  PeerBuffer in_;
  PeerBuffer out_;
  Shown shown_;
  std::vector<std::byte*> places_;  ///< of what is sent, by rank
};

}  // namespace partita
