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

  DevicePlace() { FakeGpu::instance().tell_places_apart(true); }
  ~DevicePlace() override { FakeGpu::instance().tell_places_apart(false); }
  void TearDown() override { meet(); }

  static bool sends() { return rank() == 0; }
  /// As harness_barrier(), and the other rank goes on meanwhile where no thread takes the steps.
  static void meet() {
    MPI_Request barrier = MPI_REQUEST_NULL;
    PMPI_Ibarrier(MPI_COMM_WORLD, &barrier);
    for (int done = 0; done == 0;) {
      int pending = 0;
      EXPECT_EQ(Partita_Progress(&pending), MPI_SUCCESS);
      PMPI_Test(&barrier, &done, MPI_STATUS_IGNORE);
    }
  }

  static Partita_Request inactive(int tag, void* data, std::int64_t bytes, MPI_Info info = MPI_INFO_NULL) {
    Partita_Request request = PARTITA_REQUEST_NULL;
    const int code =
        sends() ? Partita_Psend_init(data, partitions, bytes, MPI_BYTE, 1, tag, MPI_COMM_WORLD, info, &request)
                : Partita_Precv_init(data, partitions, bytes, MPI_BYTE, 0, tag, MPI_COMM_WORLD, info, &request);
    EXPECT_EQ(code, MPI_SUCCESS);
    return request;
  }
  Partita_Request made(int tag) {
    Partita_Request request = inactive(tag, buffer_.data(), partition_bytes);
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
    while (FakeGpu::instance().held_in_the_way() == refused_before) {
      int flag = 0;
      ASSERT_EQ(Partita_Test(&request, &flag, MPI_STATUS_IGNORE), MPI_SUCCESS);
      ASSERT_EQ(flag, 0);
    }
  }

  static Partita_Request device_driven(int tag, void* data, std::int64_t bytes = partition_bytes) {
    MPI_Info info = MPI_INFO_NULL;
    PMPI_Info_create(&info);
    PMPI_Info_set(info, "partita_driver", "device");
    Partita_Request request = inactive(tag, data, bytes, info);
    PMPI_Info_free(&info);
    return request;
  }
  Partita_Request device_driven() { return device_driven(1, buffer_.data()); }
  static MPIX_Prequest started(Partita_Request request) {
    MPIX_Prequest device{};
    EXPECT_EQ(Partita_Prequest_create(&device, request), MPI_SUCCESS);
    EXPECT_EQ(MPIX_Pstart(device), PARTITA_DEVICE_SUCCESS);
    EXPECT_EQ(MPIX_Pbuf_prepare(device), PARTITA_DEVICE_SUCCESS);
    return device;
  }
  void mark_all(const MPIX_Prequest& device) {
    write_pattern(buffer_.data(), 1, 0, total_bytes);
    EXPECT_EQ(MPIX_Pready_range(0, partitions - 1, device), PARTITA_DEVICE_SUCCESS);
  }
  /// Its kernels see an epoch through, whatever they move.
  static void pass(const MPIX_Prequest& device) {
    if (sends()) {
      EXPECT_EQ(MPIX_Pready_range(0, partitions - 1, device), PARTITA_DEVICE_SUCCESS);
    }
    EXPECT_EQ(MPIX_Pwait(device), PARTITA_DEVICE_SUCCESS);
  }
  static void free_both(MPIX_Prequest& device, Partita_Request request) {
    EXPECT_EQ(Partita_Prequest_free(&device), MPI_SUCCESS);
    free(request);
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
  meet();
  if (sends()) {
    write_pattern(buffer_.data(), 1, 0, total_bytes);
    EXPECT_EQ(MPIX_Pready_range(0, partitions - 1, device), PARTITA_DEVICE_SUCCESS);
    meet();  // the buffer is written again
    Partita_Request both[] = {old, made(2)};
    mark(2, both[1]);
    EXPECT_EQ(Partita_Waitall(2, both, MPI_STATUSES_IGNORE), MPI_SUCCESS);
    free(both[1]);
  } else {
    complete(1, old);
    meet();
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
  meet();
  const std::uint64_t refused_before = FakeGpu::instance().held_in_the_way();
  if (sends()) {
    EXPECT_EQ(MPIX_Pready(0, device), PARTITA_DEVICE_SUCCESS);
    meet();
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
    meet();
    replace_buffer();
    Partita_Request next = made(2);
    exchange(2, next);
    free(next);
  }
  PMPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/// Between its epochs the host does not see whether kernels wait for this process.
TEST_F(DevicePlace, is_received_into_beside_the_device_driven_send_that_had_the_older_buffer) {
  Partita_Request old = device_driven();
  MPIX_Prequest device = started(old);
  if (sends()) mark_all(device);
  EXPECT_EQ(MPIX_Pwait(device), PARTITA_DEVICE_SUCCESS);
  EXPECT_EQ(first_off_pattern(buffer_.data(), 1, 0, total_bytes), total_bytes);
  meet();
  if (!sends()) {
    free_both(device, old);
    replace_buffer();
  }
  Partita_Request next = made(2);
  exchange(2, next);
  free(next);
  if (sends()) free_both(device, old);
}

TEST_F(DevicePlace, is_received_into_beside_other_device_driven_requests) {
  const FakeGpuBuffer elsewhere(mapped, static_cast<std::size_t>(total_bytes));
  Partita_Request idle = device_driven(1, elsewhere.data());
  MPIX_Prequest device = started(idle);
  pass(device);
  Partita_Request old = made(2);
  exchange(2, old);
  free(old);
  meet();
  if (!sends()) replace_buffer();
  Partita_Request next = made(3);
  exchange(3, next);
  free(next);
  free_both(device, idle);
}

/// No buffer is mapped of what travels in packets.
TEST_F(DevicePlace, that_words_take_is_waited_for_on_both_sides) {
  const FakeGpuBuffer elsewhere(mapped, static_cast<std::size_t>(total_bytes));
  Partita_Request idle = device_driven(1, elsewhere.data());
  MPIX_Prequest device = started(idle);
  pass(device);
  meet();
  FakeGpu::instance().occupy();
  meet();
  Partita_Request next = device_driven(2, buffer_.data(), 8);
  MPIX_Prequest next_device = started(next);
  pass(next_device);
  free_both(next_device, next);
  free_both(device, idle);
}

/// As MPIX_Parrived says it, all has come, and nothing is given up: what a receiver has given up its sender holds.
TEST_F(DevicePlace, is_let_go_of_where_no_kernel_has_waited_for_what_has_arrived) {
  Partita_Request old = device_driven();
  MPIX_Prequest device = started(old);
  if (sends()) {
    mark_all(device);
    EXPECT_EQ(MPIX_Pwait(device), PARTITA_DEVICE_SUCCESS);
  } else {
    for (int p = 0; p < partitions; ++p) {
      for (int flag = 0; flag == 0;) ASSERT_EQ(MPIX_Parrived(device, p, &flag), PARTITA_DEVICE_SUCCESS);
    }
    free_both(device, old);
    replace_buffer();
  }
  meet();
  Partita_Request next = made(2);
  exchange(2, next);
  free(next);
  if (sends()) free_both(device, old);
}

TEST_F(DevicePlace, is_received_into_once_the_receiver_has_freed_its_older_request_too) {
  Partita_Request old = made(1);
  exchange(1, old);
  meet();
  const std::uint64_t refused_before = FakeGpu::instance().held_in_the_way();
  if (!sends()) replace_buffer();
  Partita_Request next = made(2);
  if (sends()) wait_for_obstacle(next, refused_before);
  meet();
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
  meet();
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
