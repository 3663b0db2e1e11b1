// A collective whose marks push, on memory that stands for a GPU's, with threads for kernels.
#pragma once

#include "support/kernel_collective_case.hpp"

namespace partita::test {

/// Which call marks.
enum class MarkBy { any_thread, thread, warp, block, range };
inline constexpr MarkBy marks_by[] = {MarkBy::any_thread, MarkBy::thread, MarkBy::warp, MarkBy::block, MarkBy::range};

class PushedCase : public Case {
 public:
  explicit PushedCase(int count, bool in_place = false, Gpu gpu = mapped)
      : PushedCase(Kind::allreduce, count, in_place, gpu) {}
  explicit PushedCase(Kind kind, int count, bool in_place = false, Gpu gpu = mapped)
      : Case(kind, count, in_place, gpu, "push"), may_mark_(kind != Kind::bcast || rank() == root()) {}

  /// The root alone, of a bcast.
  bool may_mark() const { return may_mark_; }
  /// Its partitions may be marked then.
  void start() {
    ASSERT_EQ(Partita_Start(&request), MPI_SUCCESS);
    ASSERT_EQ(Partita_Pbuf_prepare(request), MPI_SUCCESS);
  }
  void wait() { ASSERT_EQ(Partita_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS); }
  bool test() {
    int flag = 0;
    EXPECT_EQ(Partita_Test(&request, &flag, MPI_STATUS_IGNORE), MPI_SUCCESS);
    return flag != 0;
  }
  /// A block marks one partition, if this rank may; likewise below.
  void mark(int partition) const {
    if (!may_mark()) return;
    CpuKernel kernel({1, 2},
                     [&](unsigned) { EXPECT_EQ(MPIX_Pready_block(partition, device), PARTITA_DEVICE_SUCCESS); });
  }
  /// A kernel marks all of them.
  void mark_all(MarkBy by = MarkBy::block) const {
    if (!may_mark()) return;
    const unsigned blocks = by == MarkBy::range ? 1 : partitions;
    CpuKernel kernel({blocks, by == MarkBy::block ? 2U : 1U}, [&](unsigned) { mark_own(by); });
  }
  /// Blocks mark all partitions, and then each of them waits for the whole.
  void mark_and_wait_in_kernel() const {
    CpuKernel kernel({partitions, 2}, [&](unsigned) {
      mark_own(MarkBy::block);
      EXPECT_EQ(MPIX_Pwait(device), PARTITA_DEVICE_SUCCESS);
    });
  }
  /// A block opens the next epoch and marks all partitions.
  void start_and_mark_in_kernel() const {
    CpuKernel kernel({1, 2}, [&](unsigned) {
      EXPECT_EQ(MPIX_Pstart(device), PARTITA_DEVICE_SUCCESS);
      mark_each();
    });
  }
  /// A block of a kernel marks one partition after the other, when it may.
  void mark_each() const {
    EXPECT_EQ(MPIX_Pbuf_prepare(device), PARTITA_DEVICE_SUCCESS);
    for (int p = 0; p < partitions && may_mark(); ++p) {
      EXPECT_EQ(MPIX_Pready_block(p, device), PARTITA_DEVICE_SUCCESS);
    }
  }
  void wait_in_kernel() const {
    CpuKernel kernel({1, 2}, [&](unsigned) { EXPECT_EQ(MPIX_Pwait(device), PARTITA_DEVICE_SUCCESS); });
  }
  bool has_arrived(int partition) const {
    int flag = 0;
    EXPECT_EQ(Partita_Parrived(request, partition, &flag), MPI_SUCCESS);
    return flag != 0;
  }

 private:
  void mark_own(MarkBy by) const {
    if (!may_mark()) return;
    const int partition = static_cast<int>(device::grid_rank());
    const int code = by == MarkBy::any_thread ? MPIX_Pready(partition, device)
                     : by == MarkBy::thread   ? MPIX_Pready_thread(partition, device)
                     : by == MarkBy::warp     ? MPIX_Pready_warp(partition, device)
                     : by == MarkBy::block    ? MPIX_Pready_block(partition, device)
                                              : MPIX_Pready_range(0, partitions - 1, device);
    EXPECT_EQ(code, PARTITA_DEVICE_SUCCESS);
  }

  const bool may_mark_;
};

}  // namespace partita::test
