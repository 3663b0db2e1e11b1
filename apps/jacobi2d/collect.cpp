#include "apps/jacobi2d/collect.hpp"

namespace jacobi2d {

std::vector<double> gather(const Plate& plate, const Field& field) {
  const Division& division = plate.division();
  std::vector<double> whole;
  if (plate.rank() == 0)
    whole.resize(static_cast<std::size_t>(division.rows) * static_cast<std::size_t>(division.columns));
  partita::apps::gather_blocks(plate.comm(), division, &field.at(1, 1), field.stride, MPI_DOUBLE, whole.data());
  return whole;
}

}  // namespace jacobi2d
