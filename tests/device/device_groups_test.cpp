// Marks of neighbours that come together: who announces them, when, and that nobody is forgotten.
#include <gtest/gtest.h>
#include <partita/device.cuh>

#include <atomic>
#include <thread>
#include <vector>

#include "support/device_pair.hpp"

namespace partita::test {
namespace {

constexpr int partitions = 48;  // two groups

PairShape group_shape(int send_partitions, int transport_partitions) {
  PairShape shape;
  shape.send_partitions = send_partitions;
  shape.transport_partitions = transport_partitions;
  shape.total_bytes = 16 * send_partitions;
  return shape;
}

/// Takes the place of marks that are under way.
struct GroupPair : HostPairMemory, DevicePair {
  explicit GroupPair(const PairShape& shape) : DevicePair(*this, shape) {}

  void open(Epoch epoch) {
    start_recv(epoch);
    start_send(epoch);
  }
  void enter(int partition) const { device::enter_group(partition, send()); }
  void leave(int partition) const { device::leave_group(send(), partition, 1, 0, false); }
  partita_u64& word(int t) const { return *device::group_word(send(), t); }
};

TEST(DeviceGroups, are_made_where_there_are_many_small_transport_partitions) {
  const auto together = [](const PairShape& shape) { return device::announces_together(GroupPair(shape).send()); };
  EXPECT_TRUE(together(group_shape(partitions, partitions)));
  EXPECT_TRUE(together(group_shape(2 * partitions, partitions)));
  EXPECT_FALSE(together(group_shape(partitions, 31)));
  EXPECT_FALSE(together(group_shape(partitions, 33))) << "not as many marks in each";
  PairShape large = group_shape(partitions, partitions);
  large.total_bytes = partitions * std::int64_t{40000};
  EXPECT_FALSE(together(large)) << "others would wait for the copy";
  large.in_place = true;
  EXPECT_TRUE(together(large));
}

TEST(DeviceGroups, a_lone_mark_is_announced_at_once) {
  for (const bool mapped : {true, false}) {
    PairShape shape = group_shape(partitions, partitions);
    shape.mapped = mapped;
    GroupPair pair(shape);
    pair.open(1);
    for (const int p : {5, 23, 24, 47}) {
      ASSERT_EQ(MPIX_Pready_block(p, pair.send()), 0);
      EXPECT_EQ(mapped ? pair.host_sees_arrival(p, 1) : pair.handed_over(p, 1), true) << p;
      EXPECT_EQ(pair.word(p), 0U);
    }
    EXPECT_EQ(pair.send().state->decided, 4U);
  }
}

TEST(DeviceGroups, marks_wait_for_a_neighbour_inside_and_come_with_it) {
  GroupPair pair(group_shape(partitions, partitions));
  pair.open(1);
  pair.enter(6);
  for (const int p : {5, 9, 10, 11, 12, 13, 14, 15, 16}) {
    ASSERT_EQ(MPIX_Pready(p, pair.send()), 0);
    EXPECT_FALSE(pair.host_sees_arrival(p, 1)) << p;
  }
  ASSERT_EQ(MPIX_Pready(30, pair.send()), 0);
  EXPECT_TRUE(pair.host_sees_arrival(30, 1)) << "of another group";
  EXPECT_EQ(pair.send().state->decided, 1U);
  pair.leave(6);
  for (int p = 0; p < partitions; ++p) {
    EXPECT_EQ(pair.host_sees_arrival(p, 1), p == 5 || p == 30 || (p >= 9 && p <= 16)) << p;
    EXPECT_EQ(load_word(pair.send().arrival_device + p), Epoch{pair.host_sees_arrival(p, 1)}) << p;
  }
  EXPECT_EQ(pair.send().state->decided, 10U);
  EXPECT_EQ(pair.word(6), 0U);
}

TEST(DeviceGroups, of_two_that_see_nobody_inside_one_announces) {
  GroupPair pair(group_shape(partitions, partitions));
  pair.open(1);
  pair.word(0) = device::bit_in_group(3, false);  // of a mark that has left and not claimed
  ASSERT_EQ(MPIX_Pready(4, pair.send()), 0);
  EXPECT_TRUE(pair.host_sees_arrival(3, 1));
  EXPECT_TRUE(pair.host_sees_arrival(4, 1));
  pair.enter(0);
  pair.leave(0);
  EXPECT_EQ(pair.send().state->decided, 2U);
}

TEST(DeviceGroups, a_refused_mark_that_is_the_last_one_out_announces_the_others) {
  GroupPair pair(group_shape(partitions, partitions));
  pair.open(1);
  pair.enter(6);
  ASSERT_EQ(MPIX_Pready_block(5, pair.send()), 0);
  EXPECT_EQ(MPIX_Pready_block(5, pair.send()), PARTITA_DEVICE_ERR_TWICE);
  EXPECT_EQ(MPIX_Pready_range(4, 5, pair.send()), PARTITA_DEVICE_ERR_TWICE);
  EXPECT_FALSE(pair.host_sees_arrival(5, 1));
  pair.word(6) -= device::one_inside;
  EXPECT_EQ(MPIX_Pready_block(5, pair.send()), PARTITA_DEVICE_ERR_TWICE);
  EXPECT_TRUE(pair.host_sees_arrival(4, 1));
  EXPECT_TRUE(pair.host_sees_arrival(5, 1));
  EXPECT_EQ(pair.word(5), 0U);

  GroupPair unstarted(group_shape(partitions, partitions));
  EXPECT_EQ(MPIX_Pready_block(5, unstarted.send()), PARTITA_DEVICE_ERR_INACTIVE);
  EXPECT_EQ(MPIX_Pready(5, unstarted.send()), PARTITA_DEVICE_ERR_INACTIVE);
  EXPECT_EQ(unstarted.word(5), 0U);
}

TEST(DeviceGroups, a_group_has_transport_partitions_that_were_put_and_some_for_the_engine) {
  GroupPair pair(group_shape(partitions, partitions));
  pair.start_send(1);
  pair.enter(6);
  ASSERT_EQ(MPIX_Pready(0, pair.send()), 0);
  pair.start_recv(1);
  ASSERT_EQ(MPIX_Pready(1, pair.send()), 0);
  EXPECT_NE(pair.send().host->newest_hand_over, 1U);
  pair.leave(6);
  EXPECT_TRUE(pair.handed_over(0, 1));
  EXPECT_FALSE(pair.host_sees_arrival(0, 1));
  EXPECT_FALSE(pair.handed_over(1, 1));
  EXPECT_TRUE(pair.host_sees_arrival(1, 1));
  EXPECT_EQ(pair.send().host->newest_hand_over, 1U);
  EXPECT_EQ(MPIX_Pready_range(2, partitions - 1, pair.send()), 0);
  EXPECT_TRUE(pair.send_is_decided(1));
}

TEST(DeviceGroups, one_that_leaves_late_announces_for_the_epoch_that_is_open) {
  GroupPair pair(group_shape(2 * partitions, partitions));
  pair.open(1);
  EXPECT_EQ(MPIX_Pready_range(0, 2 * partitions - 1, pair.send()), 0);
  ASSERT_TRUE(pair.send_is_decided(1));
  pair.enter(0);  // of epoch 1, counted and not the last of its transport partition
  pair.open(2);
  EXPECT_EQ(MPIX_Pready_range(2, 3, pair.send()), 0);
  EXPECT_FALSE(pair.host_sees_arrival(1, 2));
  pair.leave(0);
  EXPECT_TRUE(pair.host_sees_arrival(1, 2));
}

/// Blocks of two threads, single threads and ranges mark at the same time; each byte that is seen arrived is looked at.
TEST(DeviceGroups, with_many_marks_at_a_time_everything_arrives_once_and_rightly) {
  constexpr int markers = 4;
  constexpr int epochs = 30;
  for (const int transports : {48, 72, 144}) {
    for (const bool device_driven : {false, true}) {
      PairShape shape = group_shape(144, transports);
      shape.before = 0xffffffffu - 20;
      shape.send_device_driven = device_driven;
      shape.recv_device_driven = device_driven;
      GroupPair pair(shape);
      std::atomic<Epoch> opened{shape.before};
      std::atomic<int> wrong{0};
      std::vector<std::thread> threads;
      for (int m = 0; m < markers; ++m) {
        threads.emplace_back([&, m] {
          Epoch epoch = shape.before;
          for (int e = 0; e < epochs; ++e) {
            epoch = next(epoch);
            while (opened.load(std::memory_order_acquire) != epoch) std::this_thread::yield();
            for (int p = m; p < shape.send_partitions; p += markers) {
              const int code = p % 3 == 0   ? MPIX_Pready_block(p, pair.send())
                               : p % 3 == 1 ? MPIX_Pready_thread(p, pair.send())
                                            : MPIX_Pready_range(p, p, pair.send());
              if (code != 0) ++wrong;
            }
          }
        });
      }
      Epoch epoch = shape.before;
      for (int e = 0; e < epochs; ++e) {
        epoch = next(epoch);
        for (std::int64_t i = 0; i < shape.total_bytes; ++i) pair.send_buffer()[i] = DevicePair::expected(epoch, i);
        if (device_driven) {
          wrong += MPIX_Pstart(pair.recv()) + MPIX_Pstart(pair.send()) + MPIX_Pbuf_prepare(pair.send());
        } else {
          pair.open(epoch);
        }
        opened.store(epoch, std::memory_order_release);
        for (int t = 0; t < transports; ++t) {
          while (load_word(pair.recv().arrival_device + t) != epoch) std::this_thread::yield();
          const device::Range bytes = pair.plan().bytes(t);
          for (std::int64_t i = bytes.begin; i < bytes.end; ++i) {
            if (pair.recv_buffer()[i] != DevicePair::expected(epoch, i)) ++wrong;
          }
        }
        if (device_driven) {
          wrong += MPIX_Pwait(pair.send()) + MPIX_Pwait(pair.recv());
        } else {
          while (!pair.send_is_decided(epoch) || !pair.all_arrived(epoch)) std::this_thread::yield();
        }
      }
      for (std::thread& thread : threads) thread.join();
      EXPECT_EQ(wrong, 0) << shape.text();
      for (int t = 0; t < transports; ++t) EXPECT_EQ(pair.word(t), 0U);
      EXPECT_EQ(pair.failure(pair.send()), 0U);
    }
  }
}

}  // namespace
}  // namespace partita::test
