#include "support/collective_result.hpp"

#include <string>
#include <utility>

#include "support/index.hpp"

namespace partita::test {
namespace {

std::uint8_t scrambled(int epoch, int rank, int partition, int block, std::int64_t byte) {
  std::uint64_t bits = static_cast<std::uint64_t>(byte) + 64 * static_cast<std::uint64_t>(block) +
                       4096 * static_cast<std::uint64_t>(rank) + 1000003 * static_cast<std::uint64_t>(partition) +
                       10000019 * static_cast<std::uint64_t>(epoch);
  bits = (bits ^ bits >> 15) * 0x9e3779b97f4a7c15U;
  return static_cast<std::uint8_t>(bits >> 53);
}

constexpr std::uint8_t prime = 251;

/// An element is an affine map x → a x + b modulo a prime, as two bytes; ⊕ does one after the other, so it is
/// associative and does not commute.
void compose(const std::uint8_t* from, std::uint8_t* to, std::int64_t bytes) {
  for (std::int64_t i = 0; i + 1 < bytes; i += 2) {
    const int a = from[i] % prime, b = from[i + 1] % prime, c = to[i] % prime, d = to[i + 1] % prime;
    to[i] = static_cast<std::uint8_t>(c * a % prime);
    to[i + 1] = static_cast<std::uint8_t>((c * b + d) % prime);
  }
}

void add(const std::uint8_t* from, std::uint8_t* to, std::int64_t bytes) {
  for (std::int64_t i = 0; i < bytes; ++i) to[i] = static_cast<std::uint8_t>(from[i] + to[i]);
}

std::uint8_t element(const Shape& shape, std::uint8_t bits, std::int64_t byte) {
  if (shape.commutative || !is_reduction(shape.kind)) return bits;
  return static_cast<std::uint8_t>(byte % 2 == 0 ? 1 + bits % (prime - 1) : bits % prime);
}

SimulatedBytes combined(const Case& made, const std::vector<Case::Origin>& origins, int partition,
                        const Contents& contents) {
  SimulatedBytes sum;
  for (const Case::Origin& origin : origins) {
    SimulatedBytes next(index(made.problems[index(origin.rank)].sent[index(origin.block)]));
    for (std::size_t byte = 0; byte < next.size(); ++byte) {
      next[byte] = contents.sent(origin.rank, partition, origin.block, static_cast<std::int64_t>(byte));
    }
    if (!sum.empty()) contents.reduce(sum.data(), next.data(), std::ssize(next));
    sum = next;
  }
  return sum;
}

}  // namespace

Contents contents_of(const Shape& shape, int epoch) {
  return {
      .sent = [=](int rank, int partition, int block,
                  std::int64_t byte) { return element(shape, scrambled(epoch, rank, partition, block, byte), byte); },
      .reduce = shape.commutative ? add : compose};
}

std::string wrong_result(const Case& made, const Simulator& simulator, int partitions, const Contents& contents) {
  for (int rank = 0; rank < std::ssize(made.problems); ++rank) {
    for (int partition = 0; partition < partitions; ++partition) {
      const auto& origins = made.origins[index(rank)];
      std::vector<int> filled;
      for (int block = 0; block < std::ssize(origins); ++block) {
        if (origins[index(block)].empty()) continue;
        filled.push_back(block);
        if (simulator.received(rank, partition, block) != combined(made, origins[index(block)], partition, contents)) {
          return "rank " + std::to_string(rank) + " has wrong bytes in block " + std::to_string(block);
        }
      }
      const std::string changed = simulator.changed(rank, partition, filled);
      if (!changed.empty()) return changed;
    }
  }
  return "";
}

}  // namespace partita::test
