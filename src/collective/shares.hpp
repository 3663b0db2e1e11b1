// What algorithms have in common: shares of a reduction, trees, and blocks that lie one behind the other.
#pragma once

#include <cstdint>
#include <vector>

#include "collective/problem.hpp"

namespace partita::collective {

/// Data of one or several ranks, and the action after which they are there.
struct Share {
  Region region{};
  int there = Writer::nothing;
  bool is_kept = false;  ///< it must not be written: it is sent, or the caller's
};

/// This rank's own data, to be sent while the receive buffer is written: in place, a copy of it.
Share own_share(Writer& writer, const Problem& problem, int block = 0);

/// lower ⊕ upper, in the place of one of them that need not be kept if there is one.
Share combined(Writer& writer, const Problem& problem, const Share& lower, const Share& upper);

/// Copies a result into the receive buffer, unless it is the own share, which lies there in place.
void deliver(Writer& writer, const Problem& problem, const Share& result);

/// The schedule of a reduction of one rank.
Schedule alone(const Problem& problem);

/// Blocks that lie one behind the other in a region.
class Run {
 public:
  explicit Run(const std::vector<std::int64_t>& sizes);
  std::int64_t bytes() const { return ends_.back(); }
  /// Blocks `first` to `end` - 1 of the region that holds them all.
  Region of(const Region& whole, int first, int end) const;

 private:
  std::vector<std::int64_t> ends_{0};
};

/// `bytes` in `count` pieces of whole elements, as even as can be.
Run even_pieces(std::int64_t bytes, std::int64_t unit_bytes, int count);

/// The binomial tree of all ranks, which count from its top on. The parent of a rank is the one without the lowest bit
/// that is set; its subtree are the ranks from itself to the next one that has no lower bit.
class BinomialTree {
 public:
  BinomialTree(const Problem& problem, int top);
  int own() const { return own_; }
  /// The rank that counts as `other`.
  int rank_of(int other) const { return (other + top_) % size_; }
  /// There is one for every rank but the top.
  int parent() const { return own_ - (own_ & -own_); }
  /// The nearest first, which have the smallest subtrees.
  std::vector<int> children() const;
  int subtree_size(int other) const;

 private:
  int size_;
  int top_;
  int own_;
};

/// The largest power of two of ranks, which can go on in pairs once of the first 2 × `extra` ranks the even ones have
/// left their shares to the odd ones.
struct Fold {
  explicit Fold(const Problem& problem);
  /// The rank that goes on as `other`.
  int rank_of(int other) const { return other < extra ? 2 * other + 1 : other + extra; }
  /// The first rank whose share the one that goes on as `other` has; of `power`, the number of ranks.
  int first_of(int other) const { return other < extra ? 2 * other : other + extra; }

  int power;
  int extra;
  bool is_paired;  ///< this rank is one of the first 2 × extra
  bool leaves;     ///< this rank leaves its share to the next one
  int own;         ///< what this rank goes on as
};

/// All that a rank does that leaves its share to the next one, which sends it the result.
Schedule left_to_the_next(const Problem& problem);

}  // namespace partita::collective
