// Collectives of either face that tests run through epochs beside messages, as Sending and Receiving are.
#pragma once

#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>

#include <array>
#include <string>
#include <vector>

#if !defined(PARTITEST_C_ONLY)
#include <partita/mpix.h>
#endif

#include "support/face.hpp"
#include "support/job.hpp"

namespace partita::test {

enum class Collected { partitioned_allreduce, partitioned_bcast, persistent_allreduce, persistent_bcast, barrier };
inline constexpr std::array all_collected = {Collected::partitioned_allreduce, Collected::partitioned_bcast,
                                             Collected::persistent_allreduce, Collected::persistent_bcast,
                                             Collected::barrier};
/// Those of which each rank needs something of every other one.
inline constexpr std::array all_for_all = {Collected::partitioned_allreduce, Collected::persistent_allreduce,
                                           Collected::barrier};

/// An allreduce or a broadcast from rank 0 of 30 integers, in three partitions where it has some, or a barrier.
template <class Face>
class Collecting {
 public:
  explicit Collecting(Collected what) : what_(what) { EXPECT_OK(init()) << "kind " << static_cast<int>(what); }

  /// Before the start.
  void fill(int epoch) {
    epoch_ = epoch;
    const bool gives = has_one_buffer() && rank() == 0;
    in_.assign(30, rank() + epoch);
    out_.assign(30, gives ? 1000 + epoch : -1);
  }
  void start(int epoch) {
    fill(epoch);
    EXPECT_OK(Face::start(&request));
  }
  /// Marks what a partitioned one has to mark.
  void mark() {
    const bool marks =
        what_ == Collected::partitioned_allreduce || (what_ == Collected::partitioned_bcast && rank() == 0);
    if (marks) {
      EXPECT_OK(Face::pready_range(0, 2, request));
    }
  }
  void expect_result() const {
    if (what_ == Collected::barrier) return;
    const int sum = ranks() * (ranks() - 1) / 2 + ranks() * epoch_;
    EXPECT_EQ(std::vector<int>(30, has_one_buffer() ? 1000 + epoch_ : sum), out_) << static_cast<int>(what_);
  }
  void free() {
    EXPECT_OK(Face::free(&request));
    EXPECT_EQ(Face::null(), request);
  }

  typename Face::Request request = Face::null();

 private:
  bool has_one_buffer() const { return what_ == Collected::partitioned_bcast || what_ == Collected::persistent_bcast; }
  int init();

  Collected what_;
  int epoch_ = 0;
  std::vector<int> in_ = std::vector<int>(30);
  std::vector<int> out_ = std::vector<int>(30);
};

template <>
inline int Collecting<CFace>::init() {
  const MPI_Comm world = MPI_COMM_WORLD;
  const MPI_Info none = MPI_INFO_NULL;
  switch (what_) {
    case Collected::partitioned_allreduce:
      return Partita_Pallreduce_init(in_.data(), out_.data(), 3, 10, MPI_INT, MPI_SUM, world, none, &request);
    case Collected::partitioned_bcast:
      return Partita_Pbcast_init(out_.data(), 3, 10, MPI_INT, 0, world, none, &request);
    case Collected::persistent_allreduce:
      return Partita_Allreduce_init(in_.data(), out_.data(), 30, MPI_INT, MPI_SUM, world, none, &request);
    case Collected::persistent_bcast:
      return Partita_Bcast_init(out_.data(), 30, MPI_INT, 0, world, none, &request);
    case Collected::barrier:
      return Partita_Barrier_init(world, none, &request);
  }
  return MPI_ERR_ARG;
}

#if !defined(PARTITEST_C_ONLY)
/// Those of the MPI's are Partita's behind the match.
template <>
inline int Collecting<StandardFace>::init() {
  const MPI_Comm world = MPI_COMM_WORLD;
  const MPI_Info none = MPI_INFO_NULL;
  int code = MPI_ERR_ARG;
  switch (what_) {
    case Collected::partitioned_allreduce:
      return MPIX_Pallreduce_init(in_.data(), out_.data(), 3, 10, MPI_INT, MPI_SUM, world, none, &request);
    case Collected::partitioned_bcast:
      return MPIX_Pbcast_init(out_.data(), 3, 10, MPI_INT, 0, world, none, &request);
    case Collected::persistent_allreduce:
      code = MPI_Allreduce_init(in_.data(), out_.data(), 30, MPI_INT, MPI_SUM, world, none, &request);
      break;
    case Collected::persistent_bcast:
      code = MPI_Bcast_init(out_.data(), 30, MPI_INT, 0, world, none, &request);
      break;
    case Collected::barrier:
      code = MPI_Barrier_init(world, none, &request);
      break;
  }
  return code == MPI_SUCCESS ? MPIX_Match(&request) : code;
}
#endif

}  // namespace partita::test
