// Jacobi with partitioned communication (MPI-4, chapter 4); its twin in plain MPI is mpi.cpp.
//
// Each iteration: a thread computes the interior piece by piece, and in between every piece of the edge whose halo
// partitions have arrived; it marks what the neighbours wait for at once. No thread waits for another, or for a whole
// message.
#include <mpi.h>
#include <omp.h>

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

/// A message carries the side at which it arrives.
int tag_of(Side arrives_at) {
  return static_cast<int>(index_of(arrives_at));
}

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

  void start() { MPI_Startall(static_cast<int>(requests_.size()), requests_.data()); }
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

}  // namespace

Outcome solve_partitioned(const Plate& plate, const Limits& limits) {
  const PartitionTypes types(plate);
  HaloClock halo;
  std::array<HaloRequests, 2> requests{HaloRequests(plate, types, plate.field(0)),
                                       HaloRequests(plate, types, plate.field(1))};
  Unfinished unfinished(plate);

  Outcome outcome = iterate(plate, limits, "partitioned", [&](int from, Measure measure) {
    const Field& old_field = plate.field(from);
    const Field& new_field = plate.field(1 - from);
    HaloRequests& old_halo = requests[static_cast<std::size_t>(from)];
    HaloRequests& new_halo = requests[static_cast<std::size_t>(1 - from)];
    {
      const auto timed = halo.measure();
      new_halo.start();
    }

    double change = 0.0;
#pragma omp parallel reduction(max : change)
    {
      const int thread = omp_get_thread_num(), threads = omp_get_num_threads();
      std::vector<const EdgePiece*> waiting = pieces_of(plate, thread, threads);

      const auto has_arrived = [&](const EdgePiece* piece) {
        const auto timed = halo.measure();
        return old_halo.arrived(*piece);
      };
      const auto compute_and_mark = [&](const EdgePiece* piece) {
        change = std::max(change, relax(old_field, new_field, piece->cells, measure));
        const auto timed = halo.measure();
        for (const HaloPartition& partition : piece->along) {
          if (unfinished.finish_piece_of(partition)) new_halo.mark_ready(partition);
        }
      };
      const auto compute_what_has_arrived = [&] {
        return std::erase_if(waiting, [&](const EdgePiece* piece) {
          if (!has_arrived(piece)) return false;
          compute_and_mark(piece);
          return true;
        });
      };

      compute_what_has_arrived();
      const Cells interior = interior_cells(old_field.rows, old_field.columns);
      for_each_chunk(share_of(interior, thread, threads), [&](const Cells& chunk) {
        change = std::max(change, relax(old_field, new_field, chunk, measure));
        compute_what_has_arrived();
      });
      while (!waiting.empty()) {
        if (compute_what_has_arrived() == 0) {
          const auto timed = halo.measure();
          std::this_thread::yield();
        }
      }
    }

    const auto timed = halo.measure();
    old_halo.wait();
    return change;
  });

  outcome.halo_time_s = halo.seconds();
  return outcome;
}

}  // namespace jacobi2d
