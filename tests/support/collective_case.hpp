// Collectives with random shapes, and what they must do.
#pragma once

#include <cstdint>
#include <vector>

#include "collective/problem.hpp"
#include "support/random.hpp"

namespace partita::test {

/// What may be chosen of a case; the rest is random.
struct Shape {
  collective::Kind kind{};
  int size = 1;
  int root = 0;
  bool in_place = false;  ///< on the ranks where MPI has it; in a scan, on some
  bool commutative = true;
  std::int64_t unit_bytes = 1;  ///< of a reduction
};

bool has_root(collective::Kind kind);
bool has_in_place(collective::Kind kind);
bool is_reduction(collective::Kind kind);

struct Case {
  /// A block of a rank's send buffer.
  struct Origin {
    int rank = 0;
    int block = 0;
  };
  explicit Case(int size) : problems(static_cast<std::size_t>(size)), origins(static_cast<std::size_t>(size)) {}

  std::vector<collective::Problem> problems;
  /// What a block of a rank's receive buffer consists of at last, combined in this order; none where it is left alone.
  std::vector<std::vector<std::vector<Origin>>> origins;
};

Case make_case(const Shape& shape, Random& random);

}  // namespace partita::test
