// The Jacobi step for Laplace's equation: each cell becomes the mean of its four neighbours.
#pragma once

#include <functional>

#include "apps/jacobi2d/field.hpp"

namespace jacobi2d {

/// Floating-point operations of one cell in one iteration: three additions and one multiplication.
inline constexpr double flops_per_cell = 4.0;

/// Whether a step also finds the largest change of a cell, which costs it a second look at every cell.
enum class Measure { nothing, change };

/// Writes the mean of the four neighbours in `from` to each of `cells` in `to`. Returns the largest |new - old| of them
/// with Measure::change, else 0. The order of the additions is fixed, so the result does not depend on how
/// the grid is divided among ranks and threads.
double relax(const Field& from, const Field& to, const Cells& cells, Measure measure);

/// The part of `cells` that thread `thread` of `threads` computes: a run of whole rows.
Cells share_of(const Cells& cells, int thread, int threads);

/// Cuts `cells` into runs of rows that fit a cache and calls `visit` with one after the other.
void for_each_chunk(const Cells& cells, const std::function<void(const Cells&)>& visit);

/// relax() by all threads of this rank, each its share.
double relax_by_all_threads(const Field& from, const Field& to, const Cells& cells, Measure measure);

}  // namespace jacobi2d
