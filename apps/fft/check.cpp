#include "apps/fft/check.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "apps/fft/fftw.hpp"

namespace fft {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Differences on this rank, and the numbers that they are measured by.
struct Difference {
  double furthest = 0, largest = 0;
  std::int64_t compared = 0;

  void add(const Complex& value, const Complex& expected) {
    const double off = std::abs(value - expected);
    furthest = std::isnan(off) ? infinity : std::max(furthest, off);
    largest = std::max(largest, std::abs(expected));
    ++compared;
  }
  /// Infinite unless all ranks together have compared `wanted` numbers. Collective; the same on every rank.
  double over_all(MPI_Comm comm, std::int64_t wanted) const {
    const std::array<double, 2> own{furthest, largest};
    std::array<double, 2> all{};
    std::int64_t compared_by_all = 0;
    MPI_Allreduce(own.data(), all.data(), 2, MPI_DOUBLE, MPI_MAX, comm);
    MPI_Allreduce(&compared, &compared_by_all, 1, MPI_INT64_T, MPI_SUM, comm);
    if (compared_by_all != wanted) return infinity;
    return all[0] == 0 ? 0.0 : all[0] / all[1];
  }
};

/// Rank 0's transform of the whole grid; empty on the others.
std::vector<Complex> spectrum_of_one_rank(MPI_Comm comm, const Extents& size) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  if (rank != 0) return {};
  std::vector<Complex> whole = input_of(size, {{{{0, size[0]}, {0, size[1]}, {0, size[2]}}}}, {0, 1, 2});
  transform_whole(size, Direction::forward, whole.data());
  return whole;
}

double error_by_one_rank(MPI_Comm comm, const Extents& size, const Box& box, const std::array<int, 3>& order,
                         const std::vector<Complex>& cells) {
  std::vector<Complex> whole = spectrum_of_one_rank(comm, size);
  whole.resize(static_cast<std::size_t>(cells_of(size)));
  MPI_Bcast(whole.data(), static_cast<int>(cells_of(size)), MPI_C_DOUBLE_COMPLEX, 0, comm);
  Difference difference;
  std::size_t cell = 0;
  visit_cells(size, box, order,
              [&](std::int64_t index) { difference.add(cells[cell++], whole[static_cast<std::size_t>(index)]); });
  return difference.over_all(comm, cells_of(size));
}

/// In the middle of each rank's cells of the spectrum, if it has any. Collective; the same on every rank.
std::vector<Extents> frequencies_of_ranks(MPI_Comm comm, const Box& box) {
  int ranks = 1;
  MPI_Comm_size(comm, &ranks);
  Extents own{};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const Range& range = box.axes[axis];
    own[axis] = box.cells() == 0 ? -1 : range.first + range.count / 2;
  }
  std::vector<Extents> all(static_cast<std::size_t>(ranks));
  MPI_Allgather(own.data(), 3, MPI_INT64_T, all.data(), 3, MPI_INT64_T, comm);
  std::erase_if(all, [](const Extents& frequency) { return frequency[0] < 0; });
  return all;
}

/// In each direction the lowest, the highest and one between them; all different where the grid is large.
std::vector<Extents> frequencies_of_grid(const Extents& size) {
  const auto at = [&](std::int64_t part, std::int64_t shift) {
    Extents frequency{};
    for (std::size_t axis = 0; axis < 3; ++axis) {
      frequency[axis] = (part * (size[axis] - 1) / 7 + shift * (static_cast<std::int64_t>(axis) + 1)) % size[axis];
    }
    return frequency;
  };
  return {at(0, 0), at(0, 1), at(3, 0), at(5, 2), at(7, 0)};
}

double error_by_definition(MPI_Comm comm, const Extents& size, const Box& input, const Box& box,
                           const std::array<int, 3>& order, const std::vector<Complex>& cells) {
  const std::vector<Complex> own = input_of(size, input, {0, 1, 2});
  Difference difference;
  std::vector<Extents> frequencies = frequencies_of_grid(size);
  const std::vector<Extents> of_ranks = frequencies_of_ranks(comm, box);
  frequencies.insert(frequencies.end(), of_ranks.begin(), of_ranks.end());
  for (const Extents& frequency : frequencies) {
    const Complex here = sum_by_definition(size, input, own, frequency);
    Complex expected = 0;
    MPI_Allreduce(&here, &expected, 1, MPI_C_DOUBLE_COMPLEX, MPI_SUM, comm);
    const std::int64_t wanted = (frequency[0] * size[1] + frequency[1]) * size[2] + frequency[2];
    std::size_t cell = 0;
    visit_cells(size, box, order, [&](std::int64_t index) {
      if (index == wanted) difference.add(cells[cell], expected);
      ++cell;
    });
  }
  return difference.over_all(comm, static_cast<std::int64_t>(frequencies.size()));
}

}  // namespace

double tolerance_after(int pairs) {
  return tolerance * std::sqrt(static_cast<double>(std::max(pairs, 1)));
}

Against check_of(const Extents& size, bool fftw) {
  return fftw && cells_of(size) <= largest_whole ? Against::one_rank : Against::definition;
}

double spectrum_error(MPI_Comm comm, const Extents& size, Against against, const Box& input, const Box& box,
                      const std::array<int, 3>& order, const std::vector<Complex>& cells) {
  return against == Against::one_rank ? error_by_one_rank(comm, size, box, order, cells)
                                      : error_by_definition(comm, size, input, box, order, cells);
}

double input_error(MPI_Comm comm, const Extents& size, const Box& box, const std::array<int, 3>& order,
                   const std::vector<Complex>& cells) {
  const std::vector<Complex> expected = input_of(size, box, order);
  Difference difference;
  for (std::size_t i = 0; i < expected.size(); ++i) difference.add(cells[i], expected[i]);
  return difference.over_all(comm, cells_of(size));
}

}  // namespace fft
