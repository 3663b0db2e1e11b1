// Whether a field is what one rank computes alone, bit by bit.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/jacobi2d/decomposition.hpp"
#include "apps/jacobi2d/field.hpp"
#include "apps/jacobi2d/problem.hpp"

namespace jacobi2d {

/// The first cell, row by row, that is not the same bits.
struct Difference {
  int row = 0, column = 0;  ///< in the whole grid, from 0
  int owner = 0;            ///< the rank that computed it
  double expected = 0.0, got = 0.0;
  std::int64_t cells = 0;  ///< how many cells differ
};

/// Compares the whole grid's cells, row by row without halo, with those of `expected`.
std::optional<Difference> first_difference(const Division& division, std::span<const double> got,
                                           const Field& expected);

/// One clause for an error.
std::string describe(const Difference& difference);

/// The solution computed by this rank, on a field of the whole grid.
class Reference {
 public:
  Reference(const Division& division, const Problem& problem);

  /// The field after `iterations` iterations. Goes on from where the last call ended if it can. Blocks for as long as
  /// that takes, with progress lines.
  const Field& after(int iterations);

 private:
  void restart();

  Division division_;
  Problem problem_;
  std::vector<double> memory_;
  std::array<Field, 2> fields_;
  int iterations_ = 0;
};

}  // namespace jacobi2d
