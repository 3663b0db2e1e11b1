// Alltoall of equal blocks as Bruck et al. (1997) do it, for small ones: log2 of the ranks in steps. A block that must
// go d ranks far goes by the powers of two in d, together with all others that go the same way.
#include "collective/algorithms.hpp"
#include "collective/shares.hpp"

namespace partita::collective {
namespace {

Schedule write_bruck_alltoall(const Problem& problem) {
  Writer writer;
  const auto rank_of = [&](int other) { return (problem.rank + other + problem.size) % problem.size; };
  const std::int64_t bytes = problem.sent_block().bytes;
  const int marked = writer.mark();
  if (!problem.in_place) {
    writer.copy(problem.sent_block(problem.rank), problem.received_block(problem.rank), {marked});
  }
  // What is here of the blocks that go as far, first this rank's own; and when the block was read that lies where the
  // one from as far will.
  std::vector<Share> here(static_cast<std::size_t>(problem.size));
  std::vector<int> read(static_cast<std::size_t>(problem.size), Writer::nothing);
  for (int far = 0; far < problem.size; ++far) {
    here[static_cast<std::size_t>(far)] = {problem.sent_block(rank_of(far)), marked};
  }
  for (int bit = 1; bit < problem.size; bit <<= 1) {
    std::vector<int> going;
    for (int far = bit; far < problem.size; ++far) {
      if ((far & bit) != 0) going.push_back(far);
    }
    const Region out = writer.slot(std::ssize(going) * bytes);
    const Region in = writer.slot(out.bytes);
    Writer::After copied;
    for (std::size_t i = 0; i < going.size(); ++i) {
      const int far = going[i];
      const Share& share = here[static_cast<std::size_t>(far)];
      copied.push_back(writer.copy(share.region, out.part(static_cast<std::int64_t>(i) * bytes, bytes), {share.there}));
      int& when = read[static_cast<std::size_t>(problem.size - far)];
      if (when == Writer::nothing) when = copied.back();
    }
    writer.send(rank_of(bit), out, copied);
    const int received = writer.receive(rank_of(-bit), in);
    for (std::size_t i = 0; i < going.size(); ++i) {
      here[static_cast<std::size_t>(going[i])] = {in.part(static_cast<std::int64_t>(i) * bytes, bytes), received};
    }
  }
  for (int far = 1; far < problem.size; ++far) {
    const Share& share = here[static_cast<std::size_t>(far)];
    const int free = problem.in_place ? read[static_cast<std::size_t>(far)] : Writer::nothing;
    writer.copy(share.region, problem.received_block(rank_of(-far)), {share.there, free});
  }
  return std::move(writer).finished();
}

}  // namespace

extern const Algorithm bruck_alltoall;
const Algorithm bruck_alltoall = {"bruck", {Kind::alltoall}, [](const Problem&) { return true; }, write_bruck_alltoall};

}  // namespace partita::collective
