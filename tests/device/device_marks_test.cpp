// What each call of the device API says to wrong arguments and at wrong moments, and that an epoch survives it.
#include <gtest/gtest.h>
#include <partita/device.cuh>

#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "support/device_pair.hpp"

namespace partita::test {
namespace {

constexpr Epoch first_epoch = 1;

struct MarkedPair : HostPairMemory, DevicePair {
  explicit MarkedPair(const PairShape& shape) : DevicePair(*this, shape) {}
};

/// The one recorded failure of a request.
void expect_failure(const Partita_Prequest& request, int code, int partition, Epoch epoch) {
  EXPECT_EQ(request.host->failure, static_cast<std::uint32_t>(code));
  EXPECT_EQ(request.host->failure_partition, partition);
  EXPECT_EQ(request.host->failure_epoch, epoch);
}

PairShape host_driven(int send_partitions, int transport_partitions) {
  PairShape shape;
  shape.send_partitions = send_partitions;
  shape.transport_partitions = transport_partitions;
  shape.total_bytes = 16 * send_partitions;
  return shape;
}

PairShape device_driven(int send_partitions, int transport_partitions) {
  PairShape shape = host_driven(send_partitions, transport_partitions);
  shape.send_device_driven = true;
  shape.recv_device_driven = true;
  return shape;
}

TEST(DeviceMarks, a_partition_out_of_range_is_refused_by_every_call_and_recorded) {
  for (const int wrong : {-1, 4, INT32_MAX, INT32_MIN}) {
    for (int call = 0; call < 5; ++call) {
      MarkedPair pair(host_driven(4, 1));
      pair.start_recv(first_epoch);
      pair.start_send(first_epoch);
      int code = 0;
      if (call == 0) code = MPIX_Pready(wrong, pair.send());
      if (call == 1) code = MPIX_Pready_thread(wrong, pair.send());
      if (call == 2) code = MPIX_Pready_warp(wrong, pair.send());
      if (call == 3) code = MPIX_Pready_block(wrong, pair.send());
      if (call == 4) code = MPIX_Pready_range(wrong, wrong, pair.send());
      EXPECT_EQ(code, PARTITA_DEVICE_ERR_PARTITION) << "call " << call << ", partition " << wrong;
      expect_failure(pair.send(), PARTITA_DEVICE_ERR_PARTITION, wrong, no_epoch);
    }
    MarkedPair pair(host_driven(4, 1));
    int flag = 7;
    EXPECT_EQ(MPIX_Parrived(pair.recv(), wrong, &flag), PARTITA_DEVICE_ERR_PARTITION);
    EXPECT_EQ(flag, 0);
    EXPECT_EQ(MPIX_Pbuffer(wrong, pair.send()), nullptr);
    expect_failure(pair.recv(), PARTITA_DEVICE_ERR_PARTITION, wrong, no_epoch);
    expect_failure(pair.send(), PARTITA_DEVICE_ERR_PARTITION, wrong, no_epoch);
  }
}

TEST(DeviceMarks, a_range_is_refused_whole_where_its_ends_are_wrong) {
  MarkedPair pair(host_driven(4, 1));
  pair.start_recv(first_epoch);
  pair.start_send(first_epoch);
  EXPECT_EQ(MPIX_Pready_range(2, 1, pair.send()), PARTITA_DEVICE_ERR_PARTITION);
  EXPECT_EQ(MPIX_Pready_range(0, 4, pair.send()), PARTITA_DEVICE_ERR_PARTITION);
  EXPECT_EQ(MPIX_Pready_range(0, 3, pair.send()), PARTITA_DEVICE_SUCCESS);
  EXPECT_TRUE(pair.send_is_decided(first_epoch));
}

TEST(DeviceMarks, a_range_marks_nothing_of_the_epoch_after_its_own) {
  MarkedPair pair(host_driven(4, 2));
  pair.start_recv(first_epoch);
  pair.start_send(first_epoch);
  ASSERT_EQ(MPIX_Pready_range(2, 3, pair.send()), PARTITA_DEVICE_SUCCESS);
  // As by hosts that go on as soon as the range has marked 0 and 1, and so completed the epoch.
  pair.start_recv(first_epoch + 1);
  pair.start_send(first_epoch + 1);
  EXPECT_EQ(MPIX_Pready_range(0, 3, pair.send()), PARTITA_DEVICE_ERR_TWICE);
  EXPECT_TRUE(pair.send_is_decided(first_epoch));
  expect_failure(pair.send(), PARTITA_DEVICE_ERR_TWICE, 2, first_epoch);
  EXPECT_EQ(MPIX_Pready_range(0, 3, pair.send()), PARTITA_DEVICE_SUCCESS);
  EXPECT_TRUE(pair.send_is_decided(first_epoch + 1));
}

TEST(DeviceMarks, a_call_of_the_other_side_is_refused) {
  MarkedPair pair(host_driven(4, 1));
  int flag = 7;
  EXPECT_EQ(MPIX_Pready(0, pair.recv()), PARTITA_DEVICE_ERR_SIDE);
  EXPECT_EQ(MPIX_Pready_range(0, 1, pair.recv()), PARTITA_DEVICE_ERR_SIDE);
  EXPECT_EQ(MPIX_Parrived(pair.send(), 0, &flag), PARTITA_DEVICE_ERR_SIDE);
  EXPECT_EQ(flag, 0);
  expect_failure(pair.recv(), PARTITA_DEVICE_ERR_SIDE, 0, no_epoch);
  expect_failure(pair.send(), PARTITA_DEVICE_ERR_SIDE, 0, no_epoch);
}

TEST(DeviceMarks, a_call_of_the_other_driver_is_refused) {
  MarkedPair pair(host_driven(4, 1));
  for (const Partita_Prequest* request : {&pair.send(), &pair.recv()}) {
    EXPECT_EQ(MPIX_Pstart(*request), PARTITA_DEVICE_ERR_DRIVER);
    EXPECT_EQ(MPIX_Pbuf_prepare(*request), PARTITA_DEVICE_ERR_DRIVER);
    expect_failure(*request, PARTITA_DEVICE_ERR_DRIVER, -1, no_epoch);
  }
  EXPECT_EQ(MPIX_Pwait(pair.send()), PARTITA_DEVICE_ERR_DRIVER);
}

TEST(DeviceMarks, a_second_mark_is_refused_and_the_epoch_still_completes_rightly) {
  for (const int transports : {1, 2, 4}) {
    MarkedPair pair(host_driven(4, transports));
    for (std::int64_t i = 0; i < pair.shape().total_bytes; ++i) {
      pair.send_buffer()[i] = DevicePair::expected(first_epoch, i);
    }
    pair.start_recv(first_epoch);
    pair.start_send(first_epoch);
    EXPECT_EQ(MPIX_Pready(1, pair.send()), PARTITA_DEVICE_SUCCESS);
    EXPECT_EQ(MPIX_Pready(1, pair.send()), PARTITA_DEVICE_ERR_TWICE);
    EXPECT_EQ(MPIX_Pready_block(1, pair.send()), PARTITA_DEVICE_ERR_TWICE);
    EXPECT_EQ(MPIX_Pready(0, pair.send()), PARTITA_DEVICE_SUCCESS);
    EXPECT_EQ(MPIX_Pready_range(0, 3, pair.send()), PARTITA_DEVICE_ERR_TWICE);  // 2 and 3 count
    expect_failure(pair.send(), PARTITA_DEVICE_ERR_TWICE, 1, first_epoch);
    EXPECT_TRUE(pair.send_is_decided(first_epoch));
    EXPECT_TRUE(pair.all_arrived(first_epoch));
    for (std::int64_t i = 0; i < pair.shape().total_bytes; ++i) {
      ASSERT_EQ(pair.recv_buffer()[i], DevicePair::expected(first_epoch, i)) << i;
    }
  }
}

/// What MPIX_Pready_block gives each thread of a block.
std::vector<int> codes_of_a_block(int threads, int partition, const Partita_Prequest& request) {
  device::CpuBlock block(static_cast<partita_u32>(threads));
  std::vector<int> codes(static_cast<std::size_t>(threads), -1);
  std::vector<std::thread> all;
  all.reserve(static_cast<std::size_t>(threads));
  for (int i = 0; i < threads; ++i) {
    all.emplace_back([&, i] {
      const device::CpuBlockThread self(block, static_cast<partita_u32>(i));
      codes[static_cast<std::size_t>(i)] = MPIX_Pready_block(partition, request);
    });
  }
  for (std::thread& thread : all) thread.join();
  return codes;
}

TEST(DeviceMarks, all_threads_of_a_block_that_hands_over_hear_one_code_and_it_counts_once) {
  for (const int transports : {1, 2, 3, 4}) {
    for (int threads = 1; threads <= 3; ++threads) {
      const auto each = [threads](int code) { return std::vector<int>(static_cast<std::size_t>(threads), code); };
      PairShape shape = host_driven(4, transports);
      shape.mapped = false;
      MarkedPair pair(shape);
      const auto mark = [&](int partition) { return codes_of_a_block(threads, partition, pair.send()); };
      pair.start_recv(first_epoch);
      pair.start_send(first_epoch);
      EXPECT_EQ(mark(4), each(PARTITA_DEVICE_ERR_PARTITION));
      EXPECT_EQ(mark(1), each(PARTITA_DEVICE_SUCCESS));
      EXPECT_EQ(mark(1), each(PARTITA_DEVICE_ERR_TWICE));
      for (const int partition : {0, 3}) EXPECT_EQ(mark(partition), each(PARTITA_DEVICE_SUCCESS));
      EXPECT_FALSE(pair.send_is_decided(first_epoch));
      EXPECT_EQ(mark(2), each(PARTITA_DEVICE_SUCCESS));
      EXPECT_TRUE(pair.send_is_decided(first_epoch));
      for (int t = 0; t < transports; ++t) EXPECT_TRUE(pair.handed_over(t, first_epoch)) << t;
      EXPECT_EQ(mark(2), each(PARTITA_DEVICE_SUCCESS)) << "of the epoch after it, which the host has not started";
      expect_failure(pair.send(), PARTITA_DEVICE_ERR_PARTITION, 4, no_epoch);
      pair.send().state->live = 0;
      EXPECT_EQ(mark(0), each(PARTITA_DEVICE_ERR_FREED));
    }
  }
}

TEST(DeviceMarks, kernels_find_the_transport_partitions_that_the_plan_tells) {
  for (int sends = 1; sends <= 24; ++sends) {
    for (int transports = 1; transports <= sends; ++transports) {
      Partita_Prequest request{};
      request.send_partitions = request.recv_partitions = sends;
      request.transport_partitions = transports;
      request.marks_each = device::marks_each(request);
      const device::Plan plan = device::plan_of(request);
      for (int p = 0; p < sends; ++p) {
        const device::Run run = device::run_of(p, request);
        ASSERT_EQ(run.t, plan.transport_of_send(p)) << sends << " sends, " << transports << " transport partitions";
        ASSERT_EQ(run.sends, plan.send_run(run.t)) << sends << " sends, " << transports << " transport partitions";
      }
    }
  }
}

/// As left by a request that has passed `rounds` epochs.
void set_rounds(const Partita_Prequest& send, std::uint32_t rounds, std::uint32_t complete) {
  send.state->round = rounds;
  send.state->decided = device::all_decided(complete, send.transport_partitions);
  for (int p = 0; p < send.send_partitions; ++p) device::marks(send.state, send.transport_partitions)[p] = complete;
}

TEST(DeviceMarks, counts_of_epochs_and_of_transport_partitions_may_pass_2_to_the_32) {
  for (const int transports : {1, 3, 6}) {
    MarkedPair kernels(device_driven(6, transports));
    set_rounds(kernels.send(), UINT32_MAX - 1, UINT32_MAX - 1);
    MarkedPair hosts(host_driven(6, transports));
    set_rounds(hosts.send(), UINT32_MAX - 1, UINT32_MAX - 2);
    for (Epoch epoch = 1; epoch <= 4; ++epoch) {
      EXPECT_EQ(MPIX_Pready(0, kernels.send()), PARTITA_DEVICE_ERR_TWICE) << "no epoch is open";
      ASSERT_EQ(MPIX_Pstart(kernels.recv()), 0);
      ASSERT_EQ(MPIX_Pstart(kernels.send()), 0);
      ASSERT_EQ(MPIX_Pbuf_prepare(kernels.send()), 0);
      EXPECT_EQ(MPIX_Pready_range(0, 4, kernels.send()), 0);
      EXPECT_EQ(MPIX_Pstart(kernels.send()), PARTITA_DEVICE_ERR_ACTIVE) << "epoch " << epoch;
      EXPECT_EQ(MPIX_Pready_block(5, kernels.send()), 0);
      EXPECT_EQ(MPIX_Pwait(kernels.send()), 0);
      EXPECT_EQ(MPIX_Pwait(kernels.recv()), 0);

      hosts.start_recv(epoch);
      hosts.start_send(epoch);
      EXPECT_EQ(MPIX_Pready_range(0, 4, hosts.send()), 0);
      EXPECT_FALSE(hosts.send_is_decided(epoch));
      EXPECT_EQ(MPIX_Pready_block(5, hosts.send()), 0);
      EXPECT_TRUE(hosts.send_is_decided(epoch));
      EXPECT_TRUE(hosts.all_arrived(epoch));
    }
  }
}

TEST(DeviceMarks, a_mark_before_the_host_has_started_is_refused_and_may_be_repeated) {
  MarkedPair pair(host_driven(2, 1));
  pair.start_recv(first_epoch);
  EXPECT_EQ(MPIX_Pready_warp(1, pair.send()), PARTITA_DEVICE_ERR_INACTIVE);
  expect_failure(pair.send(), PARTITA_DEVICE_ERR_INACTIVE, 1, first_epoch);
  pair.start_send(first_epoch);
  EXPECT_EQ(MPIX_Pready_range(0, 1, pair.send()), PARTITA_DEVICE_SUCCESS);
  EXPECT_TRUE(pair.all_arrived(first_epoch));
  // The next epoch is open for marks, but its Start is owed.
  EXPECT_EQ(MPIX_Pready(0, pair.send()), PARTITA_DEVICE_ERR_INACTIVE);
}

TEST(DeviceMarks, a_device_driven_send_takes_marks_in_a_prepared_epoch_only) {
  MarkedPair pair(device_driven(2, 1));
  EXPECT_EQ(MPIX_Pready(0, pair.send()), PARTITA_DEVICE_ERR_TWICE);
  EXPECT_EQ(MPIX_Pbuf_prepare(pair.send()), PARTITA_DEVICE_ERR_INACTIVE);
  expect_failure(pair.send(), PARTITA_DEVICE_ERR_TWICE, 0, no_epoch);

  EXPECT_EQ(MPIX_Pstart(pair.send()), PARTITA_DEVICE_SUCCESS);
  EXPECT_EQ(MPIX_Pready(0, pair.send()), PARTITA_DEVICE_ERR_UNPREPARED);
  EXPECT_EQ(MPIX_Pstart(pair.send()), PARTITA_DEVICE_ERR_ACTIVE);

  EXPECT_EQ(MPIX_Pstart(pair.recv()), PARTITA_DEVICE_SUCCESS);
  EXPECT_EQ(MPIX_Pbuf_prepare(pair.send()), PARTITA_DEVICE_SUCCESS);
  EXPECT_EQ(MPIX_Pready_range(0, 1, pair.send()), PARTITA_DEVICE_SUCCESS);
  EXPECT_EQ(MPIX_Pwait(pair.send()), PARTITA_DEVICE_SUCCESS);
  EXPECT_EQ(MPIX_Pready(0, pair.send()), PARTITA_DEVICE_ERR_TWICE);
  EXPECT_EQ(MPIX_Pstart(pair.recv()), PARTITA_DEVICE_ERR_ACTIVE);
  EXPECT_EQ(MPIX_Pwait(pair.recv()), PARTITA_DEVICE_SUCCESS);
  EXPECT_EQ(MPIX_Pwait(pair.recv()), PARTITA_DEVICE_SUCCESS);
  EXPECT_EQ(MPIX_Pstart(pair.recv()), PARTITA_DEVICE_SUCCESS);
}

TEST(DeviceMarks, a_freed_request_is_refused_and_leaves_its_host_record_alone) {
  MarkedPair pair(device_driven(2, 1));
  pair.send().state->live = 0;
  pair.recv().state->live = 0;
  int flag = 7;
  EXPECT_EQ(MPIX_Pready(0, pair.send()), PARTITA_DEVICE_ERR_FREED);
  EXPECT_EQ(MPIX_Pready_block(0, pair.send()), PARTITA_DEVICE_ERR_FREED);
  EXPECT_EQ(MPIX_Pstart(pair.send()), PARTITA_DEVICE_ERR_FREED);
  EXPECT_EQ(MPIX_Pbuf_prepare(pair.send()), PARTITA_DEVICE_ERR_FREED);
  EXPECT_EQ(MPIX_Pwait(pair.recv()), PARTITA_DEVICE_ERR_FREED);
  EXPECT_EQ(MPIX_Parrived(pair.recv(), 0, &flag), PARTITA_DEVICE_ERR_FREED);
  // What is wrong whatever the request's life is told, and recorded no more than that.
  EXPECT_EQ(MPIX_Pready(2, pair.send()), PARTITA_DEVICE_ERR_PARTITION);
  EXPECT_EQ(MPIX_Pready_block(2, pair.send()), PARTITA_DEVICE_ERR_PARTITION);
  EXPECT_EQ(MPIX_Pready_range(1, 2, pair.send()), PARTITA_DEVICE_ERR_PARTITION);
  EXPECT_EQ(MPIX_Pready(0, pair.recv()), PARTITA_DEVICE_ERR_SIDE);
  EXPECT_EQ(MPIX_Parrived(pair.recv(), 7, &flag), PARTITA_DEVICE_ERR_PARTITION);
  EXPECT_EQ(MPIX_Pwait_partition(7, pair.recv()), PARTITA_DEVICE_ERR_PARTITION);
  EXPECT_EQ(pair.failure(pair.send()), 0U);
  EXPECT_EQ(pair.failure(pair.recv()), 0U);
}

TEST(DeviceMarks, a_wait_for_packets_of_a_freed_request_leaves_its_words_alone) {
  PairShape shape = device_driven(4, 1);
  shape.packets = true;
  shape.recv_partitions = 4;
  MarkedPair pair(shape);
  const Partita_Prequest& recv = pair.recv();
  std::vector<unsigned char> words(device::state_bytes(recv.flags, 4, 4, 1), 0x5a);  // another request's
  std::memcpy(recv.state, words.data(), words.size());
  for (const std::uint32_t live : {0U, recv.life + 2, (recv.life + 2) | device::life_released}) {
    recv.state->live = live;
    std::memcpy(words.data(), recv.state, words.size());
    EXPECT_EQ(MPIX_Pwait_partition(1, recv), PARTITA_DEVICE_ERR_FREED);
    EXPECT_EQ(MPIX_Pwait(recv), PARTITA_DEVICE_ERR_FREED);
    EXPECT_EQ(std::memcmp(words.data(), recv.state, words.size()), 0);
  }
}

TEST(DeviceMarks, only_the_first_failure_is_recorded) {
  MarkedPair pair(host_driven(4, 1));
  pair.start_recv(first_epoch);
  pair.start_send(first_epoch);
  EXPECT_EQ(MPIX_Pready(9, pair.send()), PARTITA_DEVICE_ERR_PARTITION);
  EXPECT_EQ(MPIX_Pready(-3, pair.send()), PARTITA_DEVICE_ERR_PARTITION);
  EXPECT_EQ(MPIX_Pstart(pair.send()), PARTITA_DEVICE_ERR_DRIVER);
  expect_failure(pair.send(), PARTITA_DEVICE_ERR_PARTITION, 9, no_epoch);
}

TEST(DeviceMarks, pbuffer_is_the_receivers_memory_in_place_and_null_elsewhere) {
  PairShape shape = host_driven(4, 4);
  shape.in_place = true;
  MarkedPair pair(shape);
  EXPECT_EQ(MPIX_Pbuffer(1, pair.send()), nullptr);
  expect_failure(pair.send(), PARTITA_DEVICE_ERR_INACTIVE, 1, first_epoch);
  pair.start_send(first_epoch);
  EXPECT_EQ(MPIX_Pbuffer(1, pair.send()), nullptr);  // the receiver is not ready
  EXPECT_EQ(MPIX_Pready(1, pair.send()), PARTITA_DEVICE_ERR_UNPREPARED);
  pair.start_recv(first_epoch);
  for (int p = 0; p < 4; ++p) {
    void* const there = MPIX_Pbuffer(p, pair.send());
    ASSERT_EQ(there, pair.recv_buffer() + 16 * p);
    std::memset(there, 'a' + p, 16);
    EXPECT_EQ(MPIX_Pready(p, pair.send()), PARTITA_DEVICE_SUCCESS);
    EXPECT_TRUE(pair.host_sees_arrival(p, first_epoch));
  }
  EXPECT_EQ(pair.recv_buffer()[63], 'd');
  EXPECT_EQ(MPIX_Pbuffer(0, pair.recv()), pair.recv_buffer());

  MarkedPair copying(host_driven(4, 4));
  copying.start_recv(first_epoch);
  copying.start_send(first_epoch);
  EXPECT_EQ(MPIX_Pbuffer(1, copying.send()), nullptr);
  EXPECT_EQ(copying.failure(copying.send()), 0U);
}

TEST(DeviceMarks, pbuffer_is_null_between_epochs_that_kernels_open) {
  PairShape shape = device_driven(1, 1);
  shape.in_place = true;
  MarkedPair pair(shape);
  for (Epoch epoch = first_epoch; epoch < 3; ++epoch) {
    EXPECT_EQ(MPIX_Pbuffer(0, pair.send()), nullptr);
    ASSERT_EQ(MPIX_Pstart(pair.recv()), 0);
    ASSERT_EQ(MPIX_Pstart(pair.send()), 0);
    ASSERT_EQ(MPIX_Pbuf_prepare(pair.send()), 0);
    EXPECT_EQ(MPIX_Pbuffer(0, pair.send()), pair.recv_buffer());
    ASSERT_EQ(MPIX_Pready(0, pair.send()), 0);
    ASSERT_EQ(MPIX_Pwait(pair.send()), 0);
    ASSERT_EQ(MPIX_Pwait(pair.recv()), 0);
  }
}

TEST(DeviceMarks, a_late_look_at_the_hosts_word_does_not_bring_an_epoch_back) {
  MarkedPair pair(host_driven(1, 1));
  pair.start_recv(first_epoch);
  pair.start_send(first_epoch);
  ASSERT_EQ(MPIX_Pready(0, pair.send()), 0);
  const partita_u64 head = pair.send().state->head;
  EXPECT_EQ(device::low_half(head), next(first_epoch));
  // As by a thread in MPIX_Pbuffer that had read `head` before the mark.
  EXPECT_EQ(device::look_at_promise(pair.send(), first_epoch), device::Promise::ready);
  EXPECT_EQ(pair.send().state->head, head);
}

TEST(DeviceMarks, a_copy_of_a_request_whose_block_another_one_has_records_nothing_when_that_is_released) {
  MarkedPair pair(device_driven(2, 1));
  Partita_Prequest stale = pair.send();
  stale.life += 2;
  pair.send().state->live = pair.send().life | device::life_released;
  EXPECT_EQ(MPIX_Pready(0, stale), PARTITA_DEVICE_ERR_FREED);
  EXPECT_EQ(MPIX_Pstart(stale), PARTITA_DEVICE_ERR_FREED);
  EXPECT_EQ(MPIX_Pready(7, stale), PARTITA_DEVICE_ERR_PARTITION);
  EXPECT_EQ(pair.failure(pair.send()), 0U);
  EXPECT_EQ(MPIX_Pready(0, pair.send()), PARTITA_DEVICE_ERR_ABORTED);
  EXPECT_EQ(pair.failure(pair.send()), std::uint32_t{PARTITA_DEVICE_ERR_ABORTED});
}

TEST(DeviceMarks, the_names_with_the_own_prefix_are_the_same_calls) {
  MarkedPair pair(device_driven(6, 2));
  int flag = 7;
  EXPECT_EQ(Partita_Pstart(pair.recv()), 0);
  EXPECT_EQ(Partita_Pstart(pair.send()), 0);
  EXPECT_EQ(Partita_Pbuf_prepare(pair.send()), 0);
  EXPECT_EQ(Partita_Pready(0, pair.send()), 0);
  EXPECT_EQ(Partita_Pready_thread(1, pair.send()), 0);
  EXPECT_EQ(Partita_Pready_warp(2, pair.send()), 0);
  EXPECT_EQ(Partita_Parrived(pair.recv(), 0, &flag), 0);
  EXPECT_EQ(flag, 0);
  EXPECT_EQ(Partita_Pready_block(3, pair.send()), 0);
  EXPECT_EQ(Partita_Pready_range(4, 5, pair.send()), 0);
  EXPECT_EQ(Partita_Parrived(pair.recv(), 0, &flag), 0);
  EXPECT_EQ(flag, 1);
  EXPECT_EQ(Partita_Pbuffer(0, pair.recv()), pair.recv_buffer());
  EXPECT_EQ(Partita_Pwait(pair.send()), 0);
  EXPECT_EQ(Partita_Pwait(pair.recv()), 0);
}

}  // namespace
}  // namespace partita::test
