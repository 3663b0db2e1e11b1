// A partitioned message around a ring of ranks, by the standard names: what the drop-in's tests complete in all ways.
#pragma once

#include <gtest/gtest.h>
#include <mpi.h>

#include <vector>

#include "empty_status.hpp"
#include "support/job.hpp"

namespace partita::test {

/// Every rank sends `partitions` × `count` integers to the next one, and receives as many; alone, to itself. Free of
/// active requests when it goes.
class Ring {
 public:
  explicit Ring(int partitions = 4, int count = 25, MPI_Comm comm = MPI_COMM_WORLD, int tag = 5)
      : partitions_(partitions),
        tag_(tag),
        out_(static_cast<std::size_t>(partitions) * static_cast<std::size_t>(count)),
        in_(out_.size()) {
    int size = 1;
    MPI_Comm_rank(comm, &rank_);
    MPI_Comm_size(comm, &size);
    next_ = (rank_ + 1) % size;
    previous_ = (rank_ + size - 1) % size;
    EXPECT_EQ(MPI_SUCCESS,
              MPI_Psend_init(out_.data(), partitions, count, MPI_INT, next_, tag, comm, MPI_INFO_NULL, &send));
    EXPECT_EQ(MPI_SUCCESS,
              MPI_Precv_init(in_.data(), partitions, count, MPI_INT, previous_, tag, comm, MPI_INFO_NULL, &recv));
  }
  ~Ring() {
    EXPECT_EQ(MPI_SUCCESS, MPI_Request_free(&send));
    EXPECT_EQ(MPI_SUCCESS, MPI_Request_free(&recv));
    EXPECT_EQ(MPI_REQUEST_NULL, send);
    EXPECT_EQ(MPI_REQUEST_NULL, recv);
  }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  /// Fills the message of the next epoch; before the start.
  void fill() {
    ++epoch_;
    for (std::size_t i = 0; i < out_.size(); ++i) {
      out_[i] = value(rank_, i);
      in_[i] = -1;
    }
  }
  void start() {
    fill();
    EXPECT_EQ(MPI_SUCCESS, MPI_Start(&recv));
    EXPECT_EQ(MPI_SUCCESS, MPI_Start(&send));
  }
  void mark_all() { EXPECT_EQ(MPI_SUCCESS, MPI_Pready_range(0, partitions_ - 1, send)); }
  void finish() {
    EXPECT_EQ(MPI_SUCCESS, MPI_Wait(&send, MPI_STATUS_IGNORE));
    EXPECT_EQ(MPI_SUCCESS, MPI_Wait(&recv, MPI_STATUS_IGNORE));
  }

  void expect_arrived() const {
    for (std::size_t i = 0; i < in_.size(); ++i) {
      ASSERT_EQ(value(previous_, i), in_[i]) << "element " << i << " in epoch " << epoch_;
    }
  }
  /// `status` is that of a completed receive of this ring.
  void expect_received(const MPI_Status& status) const {
    int count = -1;
    MPI_Get_count(&status, MPI_INT, &count);
    EXPECT_EQ(previous_, status.MPI_SOURCE);
    EXPECT_EQ(tag_, status.MPI_TAG);
    EXPECT_EQ(static_cast<int>(in_.size()), count);
  }

  MPI_Request send = MPI_REQUEST_NULL;
  MPI_Request recv = MPI_REQUEST_NULL;
  int next() const { return next_; }
  int previous() const { return previous_; }

 private:
  int value(int rank, std::size_t i) const { return epoch_ * 1000003 + rank * 10007 + static_cast<int>(i); }

  int partitions_;
  int tag_;
  int rank_ = 0;
  int next_ = 0;
  int previous_ = 0;
  int epoch_ = 0;
  std::vector<int> out_;
  std::vector<int> in_;
};

}  // namespace partita::test
