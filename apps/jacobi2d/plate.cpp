#include "apps/jacobi2d/plate.hpp"

namespace jacobi2d {
namespace {

MPI_Comm make_cartesian(MPI_Comm world, const Division& division) {
  const std::array<int, 2> dims{division.rank_rows, division.rank_columns};
  const std::array<int, 2> periods{0, 0};
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Cart_create(world, 2, dims.data(), periods.data(), 0, &comm);
  return comm;
}

int rank_in(MPI_Comm comm) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  return rank;
}

std::array<int, side_count> find_neighbours(MPI_Comm comm) {
  int north = MPI_PROC_NULL, south = MPI_PROC_NULL, west = MPI_PROC_NULL, east = MPI_PROC_NULL;
  MPI_Cart_shift(comm, 0, 1, &north, &south);
  MPI_Cart_shift(comm, 1, 1, &west, &east);
  return {north, south, west, east};
}

Problem share_problem(MPI_Comm comm, int rank, const Division& division) {
  Problem problem =
      rank == 0 ? make_problem(division.rows, division.columns) : empty_problem(division.rows, division.columns);
  for (auto* values : {&problem.north, &problem.south, &problem.west, &problem.east, &problem.coarse}) {
    MPI_Bcast(values->data(), static_cast<int>(values->size()), MPI_DOUBLE, 0, comm);
  }
  return problem;
}

std::size_t bytes_of_fields(const Block& block) {
  return 2 * static_cast<std::size_t>(size_of(block.rows, block.columns)) * sizeof(double);
}

}  // namespace

Plate::Plate(MPI_Comm world, const Division& division, int wanted_partitions)
    : comm_(make_cartesian(world, division)),
      rank_(rank_in(comm_)),
      division_(division),
      block_(block_of(division_, rank_)),
      problem_(share_problem(comm_, rank_, division_)),
      neighbours_(find_neighbours(comm_)),
      memory_(bytes_of_fields(block_)) {
  auto* const first = static_cast<double*>(memory_.get());
  fields_ = {field_in(first, block_.rows, block_.columns),
             field_in(first + size_of(block_.rows, block_.columns), block_.rows, block_.columns)};

  for (const Side side : all_sides) {
    if (neighbour(side) == MPI_PROC_NULL) continue;
    sides_.push_back(side);
    partitions_[index_of(side)] = partitions_for(halo_length(field(0), side), wanted_partitions);
  }
  edge_ = edge_pieces(block_.rows, block_.columns, partitions_);
  reset();
}

Plate::~Plate() {
  MPI_Comm_free(&comm_);
}

void Plate::reset() {
  for (const Field& field : fields_) fill(field, block_, division_, problem_);
}

}  // namespace jacobi2d
