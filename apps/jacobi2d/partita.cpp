// Jacobi with partitioned communication (MPI-4, chapter 4); its twin in plain MPI is mpi.cpp.
//
// Each iteration: a thread computes the interior piece by piece, and in between every piece of the edge whose halo
// partitions have arrived; it marks what the neighbours wait for at once. No thread waits for another, or for a whole
// message.
#include <mpi.h>
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "apps/jacobi2d/modes.hpp"

namespace jacobi2d {
namespace {

/// What one partition of one side's halo is to MPI: a run of cells of a row, or of a column. The column's extent is
/// that of its rows, so that the next partition begins where this one ends.
class PartitionTypes {
 public:
  explicit PartitionTypes(const Plate& plate) {
    const Field& field = plate.field(0);
    for (const Side side : plate.sides()) {
      MPI_Datatype& type = types_[index_of(side)];
      const int cells = halo_length(field, side) / plate.partitions(side);
      if (side == Side::north || side == Side::south) {
        MPI_Type_contiguous(cells, MPI_DOUBLE, &type);
      } else {
        MPI_Datatype strided = MPI_DATATYPE_NULL;
        MPI_Type_vector(cells, 1, static_cast<int>(field.stride), MPI_DOUBLE, &strided);
        MPI_Type_create_resized(strided, 0, cells * field.stride * static_cast<MPI_Aint>(sizeof(double)), &type);
        MPI_Type_free(&strided);
      }
      MPI_Type_commit(&type);
    }
  }
  ~PartitionTypes() {
    for (MPI_Datatype& type : types_) {
      if (type != MPI_DATATYPE_NULL) MPI_Type_free(&type);
    }
  }
  PartitionTypes(const PartitionTypes&) = delete;
  PartitionTypes& operator=(const PartitionTypes&) = delete;

  MPI_Datatype at(Side side) const { return types_[index_of(side)]; }

 private:
  std::array<MPI_Datatype, side_count> types_{MPI_DATATYPE_NULL, MPI_DATATYPE_NULL, MPI_DATATYPE_NULL,
                                              MPI_DATATYPE_NULL};
};

/// The requests of one field: a partitioned send of each edge and a partitioned receive of each halo.
class HaloRequests {
 public:
  HaloRequests(const Plate& plate, const PartitionTypes& types, const Field& field) {
    requests_.resize(2 * plate.sides().size());
    MPI_Request* request = requests_.data();
    for (const Side side : plate.sides()) {
      receives_[index_of(side)] = request;
      MPI_Precv_init(halo_cells(field, side), plate.partitions(side), 1, types.at(side), plate.neighbour(side),
                     tag_of(side), plate.comm(), MPI_INFO_NULL, request++);
      sends_[index_of(side)] = request;
      MPI_Psend_init(edge_cells(field, side), plate.partitions(side), 1, types.at(side), plate.neighbour(side),
                     tag_of(opposite(side)), plate.comm(), MPI_INFO_NULL, request++);
    }
  }
  ~HaloRequests() {
    wait();
    for (MPI_Request& request : requests_) MPI_Request_free(&request);
  }
  HaloRequests(const HaloRequests&) = delete;
  HaloRequests& operator=(const HaloRequests&) = delete;

  void start() {
    if (requests_.empty()) return;  // Open MPI 4 refuses to start nothing.
    MPI_Startall(static_cast<int>(requests_.size()), requests_.data());
  }
  void wait() { MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE); }

  bool arrived(const EdgePiece& piece) const {
    for (const HaloPartition& halo : piece.along) {
      int flag = 0;
      MPI_Parrived(*receives_[index_of(halo.side)], halo.partition, &flag);
      if (flag == 0) return false;
    }
    return true;
  }
  void mark_ready(const HaloPartition& halo) const { MPI_Pready(halo.partition, *sends_[index_of(halo.side)]); }

 private:
  std::vector<MPI_Request> requests_;
  std::array<MPI_Request*, side_count> sends_{};
  std::array<MPI_Request*, side_count> receives_{};
};

/// Counts the pieces of the edge that are still to be computed of every partition. Corner cells lie in partitions of
/// two sides, so pieces that different threads compute can make up one partition; who computes the last of them marks
/// it.
class Unfinished {
 public:
  explicit Unfinished(const Plate& plate) {
    for (const Side side : plate.sides()) {
      counts_[index_of(side)] = std::vector<Count>(static_cast<std::size_t>(plate.partitions(side)));
    }
    for (const EdgePiece& piece : plate.edge()) {
      for (const HaloPartition& halo : piece.along) ++of(halo).pieces;
    }
    for (auto& side : counts_) {
      for (Count& count : side) count.unfinished = count.pieces;
    }
  }

  /// True for the last piece of the partition, which also makes the count whole again for the next iteration.
  bool finish_piece_of(const HaloPartition& halo) {
    Count& count = of(halo);
    // Acquires what the threads released that computed the other pieces: their cells travel with this one's mark.
    if (count.unfinished.fetch_sub(1, std::memory_order_acq_rel) != 1) return false;
    count.unfinished.store(count.pieces, std::memory_order_relaxed);
    return true;
  }

 private:
  struct Count {
    int pieces = 0;
    std::atomic<int> unfinished{0};
  };
  Count& of(const HaloPartition& halo) {
    return counts_[index_of(halo.side)][static_cast<std::size_t>(halo.partition)];
  }

  std::array<std::vector<Count>, side_count> counts_;
};

/// The pieces of the edge that thread `thread` of `threads` computes.
std::vector<const EdgePiece*> pieces_of(const Plate& plate, int thread, int threads) {
  std::vector<const EdgePiece*> pieces;
  const auto& edge = plate.edge();
  pieces.reserve(edge.size());
  for (auto i = static_cast<std::size_t>(thread); i < edge.size(); i += static_cast<std::size_t>(threads)) {
    pieces.push_back(&edge[i]);
  }
  return pieces;
}

/// What the threads of one iteration share.
struct Iteration {
  const Plate& plate;
  const Field& old_field;
  const Field& new_field;
  const HaloRequests& old_halo;
  const HaloRequests& new_halo;
  Unfinished& unfinished;
  HaloClock& halo;
  Measure measure;
};

/// One thread's part of an iteration.
class Sweep {
 public:
  Sweep(const Iteration& iteration, int thread, int threads)
      : iteration_(iteration),
        interior_(share_of(interior_cells(iteration.old_field.rows, iteration.old_field.columns), thread, threads)),
        waiting_(pieces_of(iteration.plate, thread, threads)) {}

  /// Computes all cells of this part; returns their largest change.
  double run() {
    compute_edge_that_arrived();
    for_each_chunk(interior_, [&](const Cells& chunk) {
      compute(chunk);
      compute_edge_that_arrived();
    });
    while (!waiting_.empty()) {
      give_way();
      compute_edge_that_arrived();
    }
    return change_;
  }

 private:
  void compute_edge_that_arrived() {
    if (waiting_.empty()) return;
    const auto arrived = move_arrived_to_end();
    for (auto piece = arrived; piece != waiting_.end(); ++piece) {
      compute((*piece)->cells);
      mark_ready(**piece);
    }
    waiting_.erase(arrived, waiting_.end());
  }

  std::vector<const EdgePiece*>::iterator move_arrived_to_end() {
    const auto timed = iteration_.halo.measure();
    return std::partition(waiting_.begin(), waiting_.end(),
                          [&](const EdgePiece* piece) { return !iteration_.old_halo.arrived(*piece); });
  }

  void compute(const Cells& cells) {
    change_ = std::max(change_, relax(iteration_.old_field, iteration_.new_field, cells, iteration_.measure));
  }

  void mark_ready(const EdgePiece& piece) {
    const auto timed = iteration_.halo.measure();
    for (const HaloPartition& partition : piece.along) {
      if (iteration_.unfinished.finish_piece_of(partition)) iteration_.new_halo.mark_ready(partition);
    }
  }

  void give_way() {
    const auto timed = iteration_.halo.measure();
    std::this_thread::yield();
  }

  const Iteration& iteration_;
  Cells interior_;
  std::vector<const EdgePiece*> waiting_;  ///< the edge's pieces whose halo partitions have not all arrived
  double change_ = 0.0;
};

}  // namespace

Outcome solve_partitioned(const Plate& plate, const Limits& limits) {
  const PartitionTypes types(plate);
  HaloClock halo;
  std::array<HaloRequests, 2> requests{HaloRequests(plate, types, plate.field(0)),
                                       HaloRequests(plate, types, plate.field(1))};
  Unfinished unfinished(plate);

  Outcome outcome = iterate(plate, limits, "partitioned", [&](int from, Measure measure) {
    HaloRequests& old_halo = requests[static_cast<std::size_t>(from)];
    HaloRequests& new_halo = requests[static_cast<std::size_t>(1 - from)];
    const Iteration iteration{plate,  plate.field(from), plate.field(1 - from), old_halo, new_halo, unfinished, halo,
                              measure};
    {
      const auto timed = halo.measure();
      new_halo.start();
    }

    double change = 0.0;
#pragma omp parallel reduction(max : change)
    change = Sweep(iteration, omp_get_thread_num(), omp_get_num_threads()).run();

    const auto timed = halo.measure();
    old_halo.wait();
    return change;
  });

  outcome.halo_time_s = halo.seconds();
  return outcome;
}

}  // namespace jacobi2d
