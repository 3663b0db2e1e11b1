// Jacobi in plain MPI; its twin with partitioned communication is partita.cpp.
//
// Each iteration: wait for the whole halo of the field that is read, compute the edge, send it, and
// compute the interior while the messages travel.
#include <mpi.h>

#include <algorithm>

#include "apps/jacobi2d/modes.hpp"

namespace jacobi2d {
namespace {

/// What one side's halo is to MPI: a row is contiguous, a column has a row's stride between its cells.
class HaloTypes {
 public:
  explicit HaloTypes(const Field& field) {
    MPI_Type_contiguous(field.columns, MPI_DOUBLE, &row_);
    MPI_Type_vector(field.rows, 1, static_cast<int>(field.stride), MPI_DOUBLE, &column_);
    MPI_Type_commit(&row_);
    MPI_Type_commit(&column_);
  }
  ~HaloTypes() {
    MPI_Type_free(&row_);
    MPI_Type_free(&column_);
  }
  HaloTypes(const HaloTypes&) = delete;
  HaloTypes& operator=(const HaloTypes&) = delete;

  MPI_Datatype at(Side side) const { return side == Side::north || side == Side::south ? row_ : column_; }

 private:
  MPI_Datatype row_ = MPI_DATATYPE_NULL;
  MPI_Datatype column_ = MPI_DATATYPE_NULL;
};

double relax_edge(const Plate& plate, const Field& from, const Field& to, Measure measure) {
  double change = 0.0;
#pragma omp parallel for reduction(max : change)
  for (const EdgePiece& piece : plate.edge()) change = std::max(change, relax(from, to, piece.cells, measure));
  return change;
}

double relax_interior(const Field& from, const Field& to, Measure measure) {
  return relax_by_all_threads(from, to, interior_cells(from.rows, from.columns), measure);
}

void start(std::vector<MPI_Request>& requests) {
  if (requests.empty()) return;  // Open MPI 4 refuses to start nothing.
  MPI_Startall(static_cast<int>(requests.size()), requests.data());
}

void wait_for(std::vector<MPI_Request>& requests) {
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
}

}  // namespace

Outcome solve_nonblocking(const Plate& plate, const Limits& limits) {
  const HaloTypes types(plate.field(0));
  HaloClock halo;
  std::vector<MPI_Request> requests(2 * plate.sides().size(), MPI_REQUEST_NULL);

  const auto exchange = [&](const Field& field) {
    MPI_Request* request = requests.data();
    for (const Side side : plate.sides()) {
      MPI_Irecv(halo_cells(field, side), 1, types.at(side), plate.neighbour(side), tag_of(side), plate.comm(),
                request++);
    }
    for (const Side side : plate.sides()) {
      MPI_Isend(edge_cells(field, side), 1, types.at(side), plate.neighbour(side), tag_of(opposite(side)), plate.comm(),
                request++);
    }
  };

  Outcome outcome = iterate(plate, limits, "nonblocking", [&](int from, Measure measure) {
    const Field& old_field = plate.field(from);
    const Field& new_field = plate.field(1 - from);
    {
      const auto timed = halo.measure();
      wait_for(requests);
    }
    const double edge_change = relax_edge(plate, old_field, new_field, measure);
    {
      const auto timed = halo.measure();
      exchange(new_field);
    }
    return std::max(edge_change, relax_interior(old_field, new_field, measure));
  });

  wait_for(requests);
  outcome.halo_time_s = halo.seconds();
  return outcome;
}

Outcome solve_persistent(const Plate& plate, const Limits& limits) {
  const HaloTypes types(plate.field(0));
  HaloClock halo;
  std::array<std::vector<MPI_Request>, 2> requests;  // for each of the two fields

  for (std::size_t index = 0; index < 2; ++index) {
    const Field& field = plate.field(static_cast<int>(index));
    for (const Side side : plate.sides()) {
      MPI_Recv_init(halo_cells(field, side), 1, types.at(side), plate.neighbour(side), tag_of(side), plate.comm(),
                    &requests[index].emplace_back());
      MPI_Send_init(edge_cells(field, side), 1, types.at(side), plate.neighbour(side), tag_of(opposite(side)),
                    plate.comm(), &requests[index].emplace_back());
    }
  }

  Outcome outcome = iterate(plate, limits, "persistent", [&](int from, Measure measure) {
    const Field& old_field = plate.field(from);
    const Field& new_field = plate.field(1 - from);
    auto& old_halo = requests[static_cast<std::size_t>(from)];
    auto& new_halo = requests[static_cast<std::size_t>(1 - from)];
    {
      const auto timed = halo.measure();
      wait_for(old_halo);
    }
    const double edge_change = relax_edge(plate, old_field, new_field, measure);
    {
      const auto timed = halo.measure();
      start(new_halo);
    }
    return std::max(edge_change, relax_interior(old_field, new_field, measure));
  });

  for (auto& field_requests : requests) {
    wait_for(field_requests);
    for (MPI_Request& request : field_requests) MPI_Request_free(&request);
  }
  outcome.halo_time_s = halo.seconds();
  return outcome;
}

}  // namespace jacobi2d
