#include "apps/support/collect.hpp"

#include <chrono>
#include <thread>

namespace partita::apps {
namespace {

constexpr int gather_tag = 100;

/// The cells of `block` where they lie in rows of `stride` cells. The caller frees the type.
MPI_Datatype make_block_type(const Block& block, std::ptrdiff_t stride, MPI_Datatype cell) {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Type_vector(block.rows, block.columns, static_cast<int>(stride), cell, &type);
  MPI_Type_commit(&type);
  return type;
}

void receive_blocks(MPI_Comm comm, const Division& division, MPI_Datatype cell, void* whole) {
  int cell_bytes = 0;
  MPI_Type_size(cell, &cell_bytes);
  for (int rank = 0; rank < division.ranks(); ++rank) {
    const Block block = block_of(division, rank);
    MPI_Datatype theirs = make_block_type(block, division.columns, cell);
    const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(block.first_row) * division.columns + block.first_column;
    MPI_Recv(static_cast<char*>(whole) + first * cell_bytes, 1, theirs, rank, gather_tag, comm, MPI_STATUS_IGNORE);
    MPI_Type_free(&theirs);
  }
}

}  // namespace

void gather_blocks(MPI_Comm comm, const Division& division, const void* cells, std::ptrdiff_t stride, MPI_Datatype cell,
                   void* whole) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Datatype mine = make_block_type(block_of(division, rank), stride, cell);
  MPI_Request send = MPI_REQUEST_NULL;
  MPI_Isend(cells, 1, mine, 0, gather_tag, comm, &send);
  if (rank == 0) receive_blocks(comm, division, cell, whole);
  // Not asleep: a large message moves only while its sender is in the MPI.
  MPI_Wait(&send, MPI_STATUS_IGNORE);
  MPI_Type_free(&mine);
}

void wait_asleep(MPI_Request& request) {
  for (int done = 0;;) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done != 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace partita::apps
