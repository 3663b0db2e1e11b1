#include "collective/exchange.hpp"

#include <utility>

#include "collective/shares.hpp"

namespace partita::collective {

Schedule exchange(const Problem& problem, bool in_steps) {
  Writer writer;
  const int marked = writer.mark();
  const int own = problem.rank;
  if (!problem.in_place) writer.copy(problem.sent_block(own), problem.received_block(own), {marked});
  std::vector<int> read(static_cast<std::size_t>(problem.size), Writer::nothing);
  std::vector<Share> landed(static_cast<std::size_t>(problem.size));
  int last_sent = Writer::nothing, last_received = Writer::nothing;
  for (int step = 1; step < problem.size; ++step) {
    const int to = (own + step) % problem.size;
    const int from = (own + problem.size - step) % problem.size;
    const Share share = own_share(writer, problem, to);
    read[static_cast<std::size_t>(to)] = share.there;
    const int sent = writer.send(to, share.region, {share.there, last_sent, last_received});
    const Region block = problem.received_block(from);
    const Region landing = problem.in_place ? writer.slot(block.bytes) : block;
    const int received = writer.receive(from, landing);
    landed[static_cast<std::size_t>(from)] = {landing, received};
    if (in_steps && sent != Writer::nothing) last_sent = sent;
    if (in_steps && received != Writer::nothing) last_received = received;
  }
  for (int from = 0; problem.in_place && from < problem.size; ++from) {
    if (from == own) continue;
    const Share& share = landed[static_cast<std::size_t>(from)];
    writer.copy(share.region, problem.received_block(from), {share.there, read[static_cast<std::size_t>(from)]});
  }
  return std::move(writer).finished();
}

}  // namespace partita::collective
