// One collective by peer memory, from the agreement of its ranks to their common end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/layout.hpp"
#include "core/watch.hpp"
#include "memory/blocks.hpp"
#include "two_sided/peer_board.hpp"
#include "two_sided/peer_mappings.hpp"
#include "two_sided/peer_parts.hpp"
#include "two_sided/peer_services.hpp"

namespace partita {

/// On one rank. The ranks ask each other the questions of PeerBoard; who has all answers copies what it sends to its
/// places in the memory of the others, in one batch, and ends when all have ended.
class PeerCall final : private Waiting {
 public:
  PeerCall(const PeerServices& services, PeerMappings& mappings, PeerBoard& board, const std::vector<int>& world_ranks,
           const PeerParts& parts);

  /// See PeerCollectives::move. Once.
  bool move();
  /// Why this rank has said no; empty where it has not, or where its buffers are in host memory.
  const std::string& why_not() const { return why_not_; }

 private:
  using Question = PeerBoard::Question;

  /// One of the two buffers.
  struct Buffer {
    std::byte* address = nullptr;
    Layout layout;  ///< without gaps
    int device = -1;

    std::byte* at(std::int64_t element) const;
    std::int64_t bytes(const PeerPart& part) const { return part.count * layout.size_bytes(); }
  };

  bool looks_at(Buffer& buffer, const void* address, MPI_Datatype type, const PeerPart* parts);
  bool is_fit();
  std::int64_t most_bytes() const;
  bool all_agree(Question question, bool yes, bool much = false);
  PeerBoard::Answers await_answers(Question question);
  bool name_buffer();
  bool name_to(int peer, const std::byte* first, std::int64_t size_bytes, memory::DevicePiece& last);
  bool map_peers();
  bool map_peer(int peer);
  void copy();
  void ask_for_copies(memory::Stream& stream, std::byte* scratch);
  void swap_with(int peer, memory::Stream& stream, std::byte* scratch) const;
  void end();

  /// Whether this rank writes to `peer`'s memory. Of two ranks that swap one moves both ways.
  bool writes_to(int peer) const;
  bool is_written_by(int peer) const;
  const PeerPart& sent(int peer) const { return parts_.sent[peer]; }
  const PeerPart& received(int peer) const { return parts_.received[peer]; }
  bool refuse(std::string why);

  std::string explain() const override;
  int waits_for() const override;

  const PeerServices& services_;
  PeerMappings& mappings_;
  PeerBoard& board_;
  const std::vector<int>& world_ranks_;
  const PeerParts& parts_;
  const std::uint64_t number_;
  Buffer in_;
  Buffer out_;
  std::vector<std::byte*> places_;  ///< of what is sent, by rank; this rank's own too
  PeerMappings::Held mapped_;
  std::string why_not_;
  Question asked_ = Question::wants;
  int awaited_ = -1;  ///< the rank whose answer is missing
};

}  // namespace partita
