#include "collective/shares.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace partita::collective {

Share own_share(Writer& writer, const Problem& problem, int block) {
  const Region own = problem.sent_block(block);
  if (!problem.in_place) return {own, writer.mark(), true};
  const Region slot = writer.slot(own.bytes);
  return {slot, writer.copy(own, slot, {writer.mark()}), true};
}

Share combined(Writer& writer, const Problem& problem, const Share& lower, const Share& upper) {
  if (!upper.is_kept) return {upper.region, writer.reduce(lower.region, upper.region, {lower.there, upper.there})};
  if (problem.commutative && !lower.is_kept) {
    return {lower.region, writer.reduce(upper.region, lower.region, {lower.there, upper.there})};
  }
  const Region slot = writer.slot(upper.region.bytes);
  const int copied = writer.copy(upper.region, slot, {upper.there});
  return {slot, writer.reduce(lower.region, slot, {lower.there, copied})};
}

void deliver(Writer& writer, const Problem& problem, const Share& result) {
  if (problem.in_place && result.region == problem.sent_block()) return;
  writer.copy(result.region, problem.received_block(), {result.there});
}

Schedule alone(const Problem& problem) {
  Writer writer;
  deliver(writer, problem, {problem.sent_block(), writer.mark()});
  return std::move(writer).finished();
}

Run::Run(const std::vector<std::int64_t>& sizes) {
  for (const std::int64_t size : sizes) ends_.push_back(ends_.back() + size);
}

Region Run::of(const Region& whole, int first, int end) const {
  const std::int64_t at = ends_[static_cast<std::size_t>(first)];
  return whole.part(at, ends_[static_cast<std::size_t>(end)] - at);
}

Run even_pieces(std::int64_t bytes, std::int64_t unit_bytes, int count) {
  const std::int64_t units = bytes / unit_bytes;
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(count), units / count * unit_bytes);
  for (std::int64_t piece = 0; piece < units % count; ++piece) sizes[static_cast<std::size_t>(piece)] += unit_bytes;
  return Run(sizes);
}

BinomialTree::BinomialTree(const Problem& problem, int top)
    : size_(problem.size), top_(top), own_((problem.rank - top + problem.size) % problem.size) {}

std::vector<int> BinomialTree::children() const {
  std::vector<int> found;
  for (int bit = 1; own_ + bit < size_ && (own_ & bit) == 0; bit <<= 1) found.push_back(own_ + bit);
  return found;
}

int BinomialTree::subtree_size(int other) const {
  return other == 0 ? size_ : std::min(other & -other, size_ - other);
}

Fold::Fold(const Problem& problem)
    : power(static_cast<int>(std::bit_floor(static_cast<unsigned>(problem.size)))),
      extra(problem.size - power),
      is_paired(problem.rank < 2 * extra),
      leaves(is_paired && problem.rank % 2 == 0),
      own(is_paired ? problem.rank / 2 : problem.rank - extra) {}

Schedule left_to_the_next(const Problem& problem) {
  Writer writer;
  const Share own = own_share(writer, problem);
  writer.send(problem.rank + 1, own.region, {own.there});
  // In place the result lands where the share was, which must have been read: it goes by a slot.
  const Region landing = problem.in_place ? writer.slot(own.region.bytes) : problem.received_block();
  const int received = writer.receive(problem.rank + 1, landing);
  if (problem.in_place) writer.copy(landing, problem.received_block(), {own.there, received});
  return std::move(writer).finished();
}

}  // namespace partita::collective
