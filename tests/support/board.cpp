#include "support/board.hpp"

#include <new>

#include "support/job.hpp"

namespace partita::test {

std::unique_ptr<Board> Board::make(std::size_t words) {
  MPI_Comm node = MPI_COMM_NULL;
  PMPI_Comm_split_type(harness_comm(), MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  int node_ranks = 0;
  PMPI_Comm_size(node, &node_ranks);
  int all_together = node_ranks == ranks() ? 1 : 0;
  PMPI_Allreduce(MPI_IN_PLACE, &all_together, 1, MPI_INT, MPI_MIN, harness_comm());
  std::unique_ptr<Board> board;
  if (all_together != 0) {
    using Word = std::atomic<std::uint32_t>;
    MPI_Win window = MPI_WIN_NULL;
    void* base = nullptr;
    // A multiple of 16 bytes: Debian's MPICH 4.0 misplaces windows of other sizes.
    const std::size_t size_bytes = (words * sizeof(Word) + 63) / 64 * 64;
    PMPI_Win_allocate_shared(static_cast<MPI_Aint>(rank() == 0 ? size_bytes : 0), 1, MPI_INFO_NULL, node, &base,
                             &window);
    MPI_Aint whole_bytes = 0;
    int unit_bytes = 0;
    PMPI_Win_shared_query(window, 0, &whole_bytes, &unit_bytes, &base);
    auto* first = static_cast<Word*>(base);
    if (rank() == 0) {
      for (std::size_t i = 0; i < words; ++i) new (first + i) Word(0);
    }
    harness_barrier();
    board.reset(new Board(window, first));
  }
  PMPI_Comm_free(&node);
  return board;
}

Board::~Board() {
  harness_barrier();
  PMPI_Win_free(&window_);
}

}  // namespace partita::test
