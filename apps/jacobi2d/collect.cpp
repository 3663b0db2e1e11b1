#include "apps/jacobi2d/collect.hpp"

#include <chrono>
#include <thread>

namespace jacobi2d {
namespace {

constexpr int gather_tag = 100;

/// The cells of `block` where they lie in rows of `stride` doubles. The caller frees the type.
MPI_Datatype make_block_type(const Block& block, std::ptrdiff_t stride) {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Type_vector(block.rows, block.columns, static_cast<int>(stride), MPI_DOUBLE, &type);
  MPI_Type_commit(&type);
  return type;
}

}  // namespace

std::vector<double> gather(const Plate& plate, const Field& field) {
  const Division& division = plate.division();
  MPI_Datatype mine = make_block_type(plate.block(), field.stride);
  MPI_Request send = MPI_REQUEST_NULL;
  MPI_Isend(&field.at(1, 1), 1, mine, 0, gather_tag, plate.comm(), &send);

  std::vector<double> whole;
  if (plate.rank() == 0) {
    const auto columns = static_cast<std::size_t>(division.columns);
    whole.resize(static_cast<std::size_t>(division.rows) * columns);
    for (int rank = 0; rank < division.ranks(); ++rank) {
      const Block block = block_of(division, rank);
      MPI_Datatype theirs = make_block_type(block, division.columns);
      double* first = whole.data() + static_cast<std::size_t>(block.first_row) * columns + block.first_column;
      MPI_Recv(first, 1, theirs, rank, gather_tag, plate.comm(), MPI_STATUS_IGNORE);
      MPI_Type_free(&theirs);
    }
  }
  // Not asleep: a large message moves only while its sender is in the MPI.
  MPI_Wait(&send, MPI_STATUS_IGNORE);
  MPI_Type_free(&mine);
  return whole;
}

void wait_asleep(MPI_Request& request) {
  for (int done = 0;;) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done != 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace jacobi2d
