// Datatypes with gaps in GPU memory whose partitions kernels mark and await: the engine has them packed and unpacked.
// The fake GPU, threads stand for kernels.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <partita/device.cuh>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "support/errors.hpp"
#include "support/fake_gpu.hpp"
#include "support/gapped_message.hpp"
#include "support/job.hpp"
#include "support/random.hpp"

namespace partita::test {
namespace {

/// One transport partition may hold several partitions of the receive, or a part of one.
constexpr GappedMessage messages[] = {{1, 8, 8, 16}, {3, 12, 4, 24}, {2, 4, 12, 24}, {5, 1, 6, 6}, {400, 6, 9, 36}};

enum class By { host, kernel };

struct Scene {
  By marks, awaits;
  friend void PrintTo(const Scene& scene, std::ostream* out) {
    *out << (scene.marks == By::host ? "host" : "kernel") << " to " << (scene.awaits == By::host ? "host" : "kernel");
  }
};

class DeviceGaps : public testing::TestWithParam<Scene> {
 protected:
  void make(const GappedMessage& shape) {
    shape_ = shape;
    const std::size_t bytes = sizeof(int) * static_cast<std::size_t>(shape.all_ints());
    out_ = std::make_unique<FakeGpuBuffer>(mapped, bytes);
    in_ = std::make_unique<FakeGpuBuffer>(mapped, bytes);
    MPI_Datatype padded = shape.make_type();
    const int next = (rank() + 1) % ranks(), before = (rank() + ranks() - 1) % ranks();
    ASSERT_OK(Partita_Psend_init(out_->data(), shape.sent, shape.elements / shape.sent, padded, next, 3, MPI_COMM_WORLD,
                                 MPI_INFO_NULL, &send_));
    ASSERT_OK(Partita_Precv_init(in_->data(), shape.received, shape.elements / shape.received, padded, before, 3,
                                 MPI_COMM_WORLD, MPI_INFO_NULL, &recv_));
    MPI_Type_free(&padded);
  }
  void free() {
    EXPECT_OK(Partita_Request_free(&send_));
    EXPECT_OK(Partita_Request_free(&recv_));
    harness_barrier();  // nobody maps the buffers any more
  }

  int* ints(const std::unique_ptr<FakeGpuBuffer>& buffer) const { return reinterpret_cast<int*>(buffer->data()); }

  /// All of a partition of the receive, what is between its elements, too.
  void expect_partition(int epoch, int partition) const {
    const int size = shape_.ints_of_partition(shape_.received);
    const int sender = (rank() + ranks() - 1) % ranks();
    for (int at = size * partition; at < size * (partition + 1); ++at)
      ASSERT_EQ(ints(in_)[at], shape_.moves(at) ? GappedMessage::value(epoch, sender, at) : -epoch)
          << "int " << at << " of partition " << partition;
  }

  void mark(int partition) {
    if (GetParam().marks == By::host) {
      EXPECT_OK(Partita_Pready(partition, send_));
    } else {
      EXPECT_EQ(MPIX_Pready(partition, device_send_), PARTITA_DEVICE_SUCCESS);
    }
  }
  void write_and_mark(int epoch, const std::vector<int>& order) {
    const int size = shape_.ints_of_partition(shape_.sent);
    for (const int partition : order) {
      for (int at = size * partition; at < size * (partition + 1); ++at)
        ints(out_)[at] = GappedMessage::value(epoch, rank(), at);
      mark(partition);
    }
  }
  bool has_arrived(int partition) {
    int flag = 0;
    if (GetParam().awaits == By::host) {
      EXPECT_OK(Partita_Parrived(recv_, partition, &flag));
    } else {
      EXPECT_EQ(MPIX_Parrived(device_recv_, partition, &flag), PARTITA_DEVICE_SUCCESS);
    }
    return flag != 0;
  }
  void await_and_expect(int epoch, const std::vector<int>& order) {
    for (const int partition : order) {
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
      while (!has_arrived(partition)) {
        ASSERT_LT(std::chrono::steady_clock::now(), end) << "partition " << partition << " has not arrived";
        std::this_thread::yield();
      }
      expect_partition(epoch, partition);
    }
  }
  static std::vector<int> in_any_order(int partitions, Random& random) {
    std::vector<int> order(static_cast<std::size_t>(partitions));
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
    random.shuffle(order);
    return order;
  }

  GappedMessage shape_{};
  std::unique_ptr<FakeGpuBuffer> out_, in_;
  Partita_Request send_ = PARTITA_REQUEST_NULL, recv_ = PARTITA_REQUEST_NULL;
  MPIX_Prequest device_send_{}, device_recv_{};
};

TEST_P(DeviceGaps, arrive_where_they_belong_and_nothing_lands_between) {
  Random random(job_seed(), static_cast<std::uint64_t>(rank()));
  for (const GappedMessage& shape : messages) {
    step(std::to_string(shape.sent) + " to " + std::to_string(shape.received) + " partitions");
    make(shape);
    if (GetParam().marks == By::kernel) {
      ASSERT_OK(Partita_Prequest_create(&device_send_, send_));
    }
    if (GetParam().awaits == By::kernel) {
      ASSERT_OK(Partita_Prequest_create(&device_recv_, recv_));
    }
    for (int epoch = 1; epoch <= 4 && !HasFailure(); ++epoch) {
      std::fill_n(ints(in_), shape_.all_ints(), -epoch);
      ASSERT_OK(Partita_Start(&recv_));
      ASSERT_OK(Partita_Start(&send_));
      const std::vector<int> marks = in_any_order(shape.sent, random), awaited = in_any_order(shape.received, random);
      std::thread kernel([&] { write_and_mark(epoch, marks); });
      await_and_expect(epoch, awaited);
      kernel.join();
      ASSERT_OK(Partita_Wait(&send_, MPI_STATUS_IGNORE));
      ASSERT_OK(Partita_Wait(&recv_, MPI_STATUS_IGNORE));
      for (int partition = 0; partition < shape.received; ++partition) expect_partition(epoch, partition);
    }
    if (device_send_.life != 0) {
      EXPECT_OK(Partita_Prequest_free(&device_send_));
    }
    if (device_recv_.life != 0) {
      EXPECT_OK(Partita_Prequest_free(&device_recv_));
    }
    free();
  }
}

INSTANTIATE_TEST_SUITE_P(Sides, DeviceGaps,
                         testing::Values(Scene{By::kernel, By::host}, Scene{By::host, By::kernel},
                                         Scene{By::kernel, By::kernel}),
                         [](const auto& info) {
                           return std::string(info.param.marks == By::host ? "host_to_" : "kernel_to_") +
                                  (info.param.awaits == By::host ? "host" : "kernel");
                         });

class DeviceGapsMidway : public DeviceGaps {};

/// Kernels that come in an open epoch hear of what was unpacked before them.
TEST_P(DeviceGapsMidway, kernels_hear_of_what_was_there_before_them) {
  make({400, 8, 4, 24});  // each partition travels alone
  for (int epoch = 1; epoch <= 3 && !HasFailure(); ++epoch) {
    std::fill_n(ints(in_), shape_.all_ints(), -epoch);
    ASSERT_OK(Partita_Start(&recv_));
    ASSERT_OK(Partita_Start(&send_));
    write_and_mark(epoch, {0, 1, 2, 3});
    for (int flag = 0; flag == 0; std::this_thread::yield()) ASSERT_OK(Partita_Parrived(recv_, 1, &flag));
    ASSERT_OK(Partita_Prequest_create(&device_recv_, recv_));
    await_and_expect(epoch, {1, 0});
    EXPECT_FALSE(has_arrived(2)) << "nobody has marked it";
    harness_barrier();  // and nobody does until all have looked
    write_and_mark(epoch, {7, 6, 5, 4});
    await_and_expect(epoch, {3, 2, 1, 0});
    ASSERT_OK(Partita_Wait(&send_, MPI_STATUS_IGNORE));
    ASSERT_OK(Partita_Wait(&recv_, MPI_STATUS_IGNORE));
    EXPECT_OK(Partita_Prequest_free(&device_recv_));
  }
  free();
}

/// Its neighbour shares a transport partition with it, and waits for the next one.
TEST_P(DeviceGapsMidway, kernels_hear_of_a_partition_though_its_neighbour_is_late) {
  make({400, 2, 3, 12});
  ASSERT_OK(Partita_Prequest_create(&device_recv_, recv_));
  for (int epoch = 1; epoch <= 3 && !HasFailure(); ++epoch) {
    std::fill_n(ints(in_), shape_.all_ints(), -epoch);
    ASSERT_OK(Partita_Start(&recv_));
    ASSERT_OK(Partita_Start(&send_));
    write_and_mark(epoch, {0});
    await_and_expect(epoch, {0});
    EXPECT_FALSE(has_arrived(1)) << "a part of it is not marked";
    harness_barrier();
    write_and_mark(epoch, {1});
    await_and_expect(epoch, {2, 1});
    ASSERT_OK(Partita_Wait(&send_, MPI_STATUS_IGNORE));
    ASSERT_OK(Partita_Wait(&recv_, MPI_STATUS_IGNORE));
    EXPECT_TRUE(has_arrived(1)) << "kernels behind the wait see all";
  }
  EXPECT_OK(Partita_Prequest_free(&device_recv_));
  free();
}

/// What the host has marked a GPU packs: no kernel marks the rest.
TEST_P(DeviceGapsMidway, kernels_do_not_mark_where_the_host_has) {
  const ErrorsReturn errors(MPI_COMM_WORLD);
  make({400, 8, 4, 24});  // each partition travels alone
  ASSERT_OK(Partita_Start(&recv_));
  ASSERT_OK(Partita_Start(&send_));
  write_and_mark(1, {5});
  EXPECT_ERROR(Partita_Prequest_create(&device_send_, send_), MPI_ERR_REQUEST, "the host has marked partitions");
  write_and_mark(1, {0, 1, 2, 3, 4, 6, 7});
  ASSERT_OK(Partita_Wait(&send_, MPI_STATUS_IGNORE));
  ASSERT_OK(Partita_Wait(&recv_, MPI_STATUS_IGNORE));
  free();
}

/// They pack nothing, so that whoever demands that they move the bytes hears why they do not.
TEST_P(DeviceGapsMidway, kernels_do_not_copy) {
  const ErrorsReturn errors(MPI_COMM_WORLD);
  MPI_Datatype padded = MPI_DATATYPE_NULL;
  MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &padded);
  MPI_Type_commit(&padded);
  MPI_Info info = MPI_INFO_NULL;
  MPI_Info_create(&info);
  MPI_Info_set(info, "partita_gpu_copy", "kernel");
  const FakeGpuBuffer buffer(mapped, 64);
  Partita_Request requests[2] = {PARTITA_REQUEST_NULL, PARTITA_REQUEST_NULL};
  ASSERT_OK(Partita_Psend_init(buffer.data(), 2, 1, padded, rank(), 4, MPI_COMM_WORLD, info, &requests[0]));
  ASSERT_OK(
      Partita_Precv_init(buffer.data() + 32, 2, 1, padded, rank(), 4, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]));
  EXPECT_ERROR(Partita_Prequest_create(&device_send_, requests[0]), MPI_ERR_TYPE, "kernel", "has gaps");
  for (Partita_Request& request : requests) EXPECT_OK(Partita_Request_free(&request));
  MPI_Info_free(&info);
  MPI_Type_free(&padded);
}

INSTANTIATE_TEST_SUITE_P(Sides, DeviceGapsMidway, testing::Values(Scene{By::host, By::kernel}),
                         [](const auto&) { return std::string("host_to_kernel"); });

}  // namespace
}  // namespace partita::test
