// GPU memory that takes the place of freed memory, of which the sender has a request and a mapping still: the driver
// maps no two allocations at one place. Threads stand for kernels.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <partita/device.cuh>

#include <cstdint>

#include "support/fake_gpu.hpp"
#include "support/job.hpp"
#include "support/pattern.hpp"
#include "support/told.hpp"

namespace partita::test {
namespace {

/// Rank 0 sends to rank 1, from the same buffer and into the same place.
class DevicePlace : public testing::Test {
 protected:
  static constexpr int partitions = 4;
  static constexpr std::int64_t partition_bytes = 3000;  // more than travels in packets
  static constexpr std::int64_t total_bytes = partitions * partition_bytes;

  void TearDown() override { harness_barrier(); }

  static bool sends() { return rank() == 0; }

  Partita_Request inactive(int tag, MPI_Info info = MPI_INFO_NULL) {
    Partita_Request request = PARTITA_REQUEST_NULL;
    const int code = sends() ? Partita_Psend_init(buffer_.data(), partitions, partition_bytes, MPI_BYTE, 1, tag,
                                                  MPI_COMM_WORLD, info, &request)
                             : Partita_Precv_init(buffer_.data(), partitions, partition_bytes, MPI_BYTE, 0, tag,
                                                  MPI_COMM_WORLD, info, &request);
    EXPECT_EQ(code, MPI_SUCCESS);
    return request;
  }
  Partita_Request made(int tag) {
    Partita_Request request = inactive(tag);
    EXPECT_EQ(Partita_Start(&request), MPI_SUCCESS);
    return request;
  }
  void mark(std::uint64_t round, Partita_Request request) {
    write_pattern(buffer_.data(), round, 0, total_bytes);
    EXPECT_EQ(Partita_Pready_range(0, partitions - 1, request), MPI_SUCCESS);
  }
  void complete(std::uint64_t round, Partita_Request request) {
    ASSERT_EQ(Partita_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);
    EXPECT_EQ(first_off_pattern(buffer_.data(), round, 0, total_bytes), total_bytes) << "round " << round;
  }
  void exchange(std::uint64_t round, Partita_Request request) {
    if (sends()) mark(round, request);
    complete(round, request);
  }
  /// The receiver's program frees its buffer, and gets another one that lies there.
  void replace_buffer() {
    ASSERT_FALSE(sends());
    FakeGpu::instance().replace(buffer_.data());
    write_pattern(buffer_.data(), 99, 0, total_bytes);
  }
  static void free(Partita_Request request) { EXPECT_EQ(Partita_Request_free(&request), MPI_SUCCESS); }
  /// Returns once something was in the way of `request`, a send, which does not fail by it.
  void wait_for_obstacle(Partita_Request request, std::uint64_t refused_before) {
    while (FakeGpu::instance().refused_places() == refused_before) {
      int flag = 0;
      ASSERT_EQ(Partita_Test(&request, &flag, MPI_STATUS_IGNORE), MPI_SUCCESS);
      ASSERT_EQ(flag, 0);
    }
  }

  FakeGpuBuffer buffer_{mapped, static_cast<std::size_t>(total_bytes)};
};

TEST_F(DevicePlace, is_received_into_while_the_sender_keeps_its_inactive_request) {
  Partita_Request kept = made(1);
  exchange(1, kept);
  for (std::uint64_t round = 2; round <= 5; ++round) {
    Partita_Request used = kept;
    if (sends()) {
      used = made(static_cast<int>(round));
    } else {
      free(kept);
      replace_buffer();
      used = kept = made(static_cast<int>(round));
    }
    exchange(round, used);
    if (sends() && round % 2 == 0) {
      free(used);
    } else if (sends()) {
      free(kept);
      kept = used;
    }
  }
  free(kept);
}

/// Both sends are completed by one call, the older one's device request stays.
TEST_F(DevicePlace, is_received_into_while_the_epoch_is_open_in_which_kernels_have_marked_all) {
  Partita_Request old = made(1);
  MPIX_Prequest device{};
  ASSERT_EQ(Partita_Prequest_create(&device, old), MPI_SUCCESS);
  harness_barrier();
  if (sends()) {
    write_pattern(buffer_.data(), 1, 0, total_bytes);
    EXPECT_EQ(MPIX_Pready_range(0, partitions - 1, device), PARTITA_DEVICE_SUCCESS);
    harness_barrier();  // the buffer is written again
    Partita_Request both[] = {old, made(2)};
    mark(2, both[1]);
    EXPECT_EQ(Partita_Waitall(2, both, MPI_STATUSES_IGNORE), MPI_SUCCESS);
    free(both[1]);
  } else {
    complete(1, old);
    harness_barrier();
    EXPECT_EQ(Partita_Prequest_free(&device), MPI_SUCCESS);
    free(old);
    replace_buffer();
    Partita_Request next = made(2);
    exchange(2, next);
    free(next);
  }
  if (!sends()) return;
  EXPECT_EQ(Partita_Prequest_free(&device), MPI_SUCCESS);
  free(old);
}

/// A mistake of the receiver's: its epoch is given up, and kernels may mark more of it.
TEST_F(DevicePlace, is_received_into_once_a_send_is_freed_whose_kernels_may_store_there) {
  PMPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  Partita_Request old = made(1);
  MPIX_Prequest device{};
  ASSERT_EQ(Partita_Prequest_create(&device, old), MPI_SUCCESS);
  if (sends()) {
    ASSERT_EQ(Partita_Pbuf_prepare(old), MPI_SUCCESS);
  }
  harness_barrier();
  const std::uint64_t refused_before = FakeGpu::instance().refused_places();
  if (sends()) {
    EXPECT_EQ(MPIX_Pready(0, device), PARTITA_DEVICE_SUCCESS);
    harness_barrier();
    Partita_Request next = made(2);
    wait_for_obstacle(next, refused_before);
    EXPECT_EQ(MPIX_Pready(1, device), PARTITA_DEVICE_SUCCESS);
    EXPECT_NE(Partita_Wait(&old, MPI_STATUS_IGNORE), MPI_SUCCESS);
    EXPECT_EQ(Partita_Prequest_free(&device), MPI_SUCCESS);
    free(old);
    exchange(2, next);
    free(next);
  } else {
    EXPECT_EQ(MPIX_Pready(0, device), PARTITA_DEVICE_ERR_SIDE);
    EXPECT_NE(Partita_Wait(&old, MPI_STATUS_IGNORE), MPI_SUCCESS);
    EXPECT_EQ(Partita_Prequest_free(&device), MPI_SUCCESS);
    free(old);
    harness_barrier();
    replace_buffer();
    Partita_Request next = made(2);
    exchange(2, next);
    free(next);
  }
  PMPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

TEST_F(DevicePlace, is_received_into_while_a_device_driven_send_stays) {
  MPI_Info info = MPI_INFO_NULL;
  PMPI_Info_create(&info);
  PMPI_Info_set(info, "partita_driver", "device");
  Partita_Request old = inactive(1, info);
  PMPI_Info_free(&info);
  MPIX_Prequest device{};
  ASSERT_EQ(Partita_Prequest_create(&device, old), MPI_SUCCESS);
  EXPECT_EQ(MPIX_Pstart(device), PARTITA_DEVICE_SUCCESS);
  EXPECT_EQ(MPIX_Pbuf_prepare(device), PARTITA_DEVICE_SUCCESS);
  if (sends()) {
    write_pattern(buffer_.data(), 1, 0, total_bytes);
    EXPECT_EQ(MPIX_Pready_range(0, partitions - 1, device), PARTITA_DEVICE_SUCCESS);
  }
  EXPECT_EQ(MPIX_Pwait(device), PARTITA_DEVICE_SUCCESS);
  EXPECT_EQ(first_off_pattern(buffer_.data(), 1, 0, total_bytes), total_bytes);
  harness_barrier();
  if (!sends()) {
    EXPECT_EQ(Partita_Prequest_free(&device), MPI_SUCCESS);
    free(old);
    replace_buffer();
  }
  Partita_Request next = made(2);
  exchange(2, next);
  free(next);
  if (!sends()) return;
  EXPECT_EQ(Partita_Prequest_free(&device), MPI_SUCCESS);
  free(old);
}

TEST_F(DevicePlace, is_received_into_once_the_receiver_has_freed_its_older_request_too) {
  Partita_Request old = made(1);
  exchange(1, old);
  harness_barrier();
  const std::uint64_t refused_before = FakeGpu::instance().refused_places();
  if (!sends()) replace_buffer();
  Partita_Request next = made(2);
  if (sends()) wait_for_obstacle(next, refused_before);
  harness_barrier();
  if (!sends()) free(old);
  exchange(2, next);
  free(next);
  if (sends()) free(old);
}

class DevicePlaceTimeout : public DevicePlace {};

TEST_F(DevicePlaceTimeout, that_stays_taken_fails_both_sides_with_the_reason) {
  PMPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  Partita_Request old = made(1);
  exchange(1, old);
  harness_barrier();
  if (!sends()) replace_buffer();
  Partita_Request next = made(2);
  if (sends()) mark(2, next);
  const int code = Partita_Wait(&next, MPI_STATUS_IGNORE);
  ASSERT_NE(code, MPI_SUCCESS);
  const std::string sentence = told_by(code);
  EXPECT_NE(sentence.find("already mapped"), std::string::npos) << sentence;
  free(next);
  free(old);
  PMPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

}  // namespace
}  // namespace partita::test
