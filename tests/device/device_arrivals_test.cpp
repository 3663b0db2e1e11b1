// Receives with a front, by which a sender's host announces any number of the first transport partitions at once:
// kernels hear of arrivals by it or by a transport partition's own flag, whichever tells of it.
#include <gtest/gtest.h>
#include <partita/device.cuh>

#include <thread>
#include <vector>

#include "support/device_pair.hpp"

namespace partita::test {
namespace {

struct ArrivingPair : HostPairMemory, DevicePair {
  explicit ArrivingPair(const PairShape& shape) : DevicePair(*this, shape) {}

  void open(Epoch epoch) {
    if (shape().recv_device_driven) {
      ASSERT_EQ(MPIX_Pstart(recv()), PARTITA_DEVICE_SUCCESS);
    } else {
      start_recv(epoch);
    }
  }
  bool has_arrived(int partition) const {
    int flag = 0;
    EXPECT_EQ(MPIX_Parrived(recv(), partition, &flag), PARTITA_DEVICE_SUCCESS);
    return flag != 0;
  }
  void expect_arrived(std::vector<bool> expected) const {
    for (int p = 0; p < shape().recv_partitions; ++p) {
      EXPECT_EQ(has_arrived(p), expected[static_cast<std::size_t>(p)]) << "partition " << p;
    }
  }
};

PairShape shape_with_front(bool recv_device_driven) {
  PairShape shape;
  shape.send_partitions = shape.transport_partitions = 6;
  shape.recv_partitions = 3;
  shape.total_bytes = 6 * 16;
  shape.recv_device_driven = recv_device_driven;
  shape.has_front = true;
  return shape;
}

/// A block whose threads all make `call`, and what they get.
template <class Call>
class Block {
 public:
  Block(int threads, const Call& call) : block_(static_cast<partita_u32>(threads)) {
    for (int i = 0; i < threads; ++i) {
      running_.emplace_back([this, call, i] {
        const device::CpuBlockThread self(block_, static_cast<partita_u32>(i));
        EXPECT_EQ(call(), PARTITA_DEVICE_SUCCESS);
      });
    }
  }
  ~Block() {
    for (std::thread& thread : running_) thread.join();
  }

 private:
  device::CpuBlock block_;
  std::vector<std::thread> running_;
};

class DeviceArrivals : public testing::TestWithParam<bool> {
 protected:
  PairShape shape() const { return shape_with_front(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(By, DeviceArrivals, testing::Bool(),
                         [](const auto& driver) { return driver.param ? "device" : "host"; });

TEST_P(DeviceArrivals, of_all_are_told_by_one_word) {
  ArrivingPair pair(shape());
  for (Epoch epoch = 1; epoch <= 3; ++epoch) {
    ASSERT_NO_FATAL_FAILURE(pair.open(epoch));
    pair.expect_arrived({false, false, false});
    pair.advance_front_to_end(epoch);
    pair.expect_arrived({true, true, true});
    ASSERT_EQ(MPIX_Pwait(pair.recv()), PARTITA_DEVICE_SUCCESS);
  }
}

TEST_P(DeviceArrivals, of_one_partition_come_before_those_of_its_neighbours) {
  ArrivingPair pair(shape());
  ASSERT_NO_FATAL_FAILURE(pair.open(1));
  pair.raise(2, 1);
  pair.expect_arrived({false, false, false});
  pair.raise(3, 1);
  pair.expect_arrived({false, true, false});
  ASSERT_EQ(MPIX_Pwait_partition(1, pair.recv()), PARTITA_DEVICE_SUCCESS);
  pair.advance_front_to_end(1);
  pair.expect_arrived({true, true, true});
  ASSERT_EQ(MPIX_Pwait(pair.recv()), PARTITA_DEVICE_SUCCESS);
}

/// The 3 partitions are made of 2 transport partitions each.
TEST_P(DeviceArrivals, of_the_first_ones_are_told_by_a_count) {
  ArrivingPair pair(shape());
  for (Epoch epoch = 1; epoch <= 3; ++epoch) {
    ASSERT_NO_FATAL_FAILURE(pair.open(epoch));
    pair.expect_arrived({false, false, false});
    pair.advance_front(1, epoch);
    pair.expect_arrived({false, false, false});
    pair.advance_front(2, epoch);
    pair.expect_arrived({true, false, false});
    ASSERT_EQ(MPIX_Pwait_partition(0, pair.recv()), PARTITA_DEVICE_SUCCESS);
    pair.advance_front(3, epoch);
    pair.expect_arrived({true, false, false});
    pair.raise(3, epoch);
    pair.expect_arrived({true, true, false});
    ASSERT_EQ(MPIX_Pwait_partition(1, pair.recv()), PARTITA_DEVICE_SUCCESS);
    pair.raise(5, epoch);
    pair.expect_arrived({true, true, false});
    pair.raise(4, epoch);
    pair.expect_arrived({true, true, true});
    ASSERT_EQ(MPIX_Pwait(pair.recv()), PARTITA_DEVICE_SUCCESS);
  }
}

/// The host's word is far: it is asked where the front, or a flag, tells of the partition that is looked for.
TEST(DeviceArrivalsOfOthers, ask_no_host) {
  ArrivingPair pair(shape_with_front(false));
  ASSERT_NO_FATAL_FAILURE(pair.open(1));
  pair.advance_front_to_end(1);
  ASSERT_EQ(MPIX_Pwait(pair.recv()), PARTITA_DEVICE_SUCCESS);
  ASSERT_NO_FATAL_FAILURE(pair.open(2));
  pair.advance_front(2, 2);
  for (const int p : {1, 2}) {
    EXPECT_FALSE(pair.has_arrived(p));
    EXPECT_EQ(load_word(&pair.recv().state->started), 1U);
  }
  EXPECT_TRUE(pair.has_arrived(0));
  EXPECT_EQ(load_word(&pair.recv().state->started), 2U);
}

/// While a block waits for all, the count goes on and stops where flags go on.
TEST_P(DeviceArrivals, by_a_count_that_grows_and_by_flags_end_the_waits_of_blocks) {
  for (const int threads : {1, 4, 9}) {
    ArrivingPair pair(shape());
    for (Epoch epoch = 1; epoch <= 60; ++epoch) {
      ASSERT_NO_FATAL_FAILURE(pair.open(epoch));
      const Block waiting(threads, [&] { return MPIX_Pwait(pair.recv()); });
      const int counted = static_cast<int>(epoch % 7);
      for (int count = 1; count <= counted; ++count) pair.advance_front(count, epoch);
      for (int t = counted; t < 6; ++t) pair.raise(t, epoch);
    }
  }
}

/// Fewer threads than flags, and more.
TEST_P(DeviceArrivals, end_the_waits_of_blocks_for_one_and_for_all) {
  for (const int threads : {1, 4, 9}) {
    ArrivingPair pair(shape());
    for (Epoch epoch = 1; epoch <= 60; ++epoch) {
      ASSERT_NO_FATAL_FAILURE(pair.open(epoch));
      const bool one = epoch % 2 == 0;
      {
        const Block waiting(threads,
                            [&] { return one ? MPIX_Pwait_partition(1, pair.recv()) : MPIX_Pwait(pair.recv()); });
        if (epoch % 3 == 0) pair.raise(static_cast<int>(epoch % 6), epoch);
        pair.advance_front_to_end(epoch);
      }
      if (one && GetParam()) {
        ASSERT_EQ(MPIX_Pwait(pair.recv()), PARTITA_DEVICE_SUCCESS);
      }
    }
  }
}

TEST_P(DeviceArrivals, of_the_epoch_before_are_not_those_of_this_one_across_the_wrap) {
  PairShape from_the_end = shape();
  from_the_end.before = 0xffffffffU - 5;
  ArrivingPair pair(from_the_end);
  Epoch epoch = from_the_end.before;
  for (int count = 0; count < 20; ++count) {
    epoch = next(epoch);
    ASSERT_NO_FATAL_FAILURE(pair.open(epoch));
    pair.expect_arrived({false, false, false});
    if (count % 3 == 0) {
      for (int t = 0; t < 6; ++t) pair.raise(t, epoch);
    } else {
      pair.advance_front_to_end(epoch);
    }
    pair.expect_arrived({true, true, true});
    ASSERT_EQ(MPIX_Pwait(pair.recv()), PARTITA_DEVICE_SUCCESS);
  }
}

/// They are a device-driven receive's; a host sets its own back itself.
TEST(DeviceArrivalsOfOld, are_forgotten_before_their_epoch_comes_again) {
  for (const Epoch before : {0x7ffffffeU, 0xfffffffeU}) {
    for (const bool by_front : {false, true}) {
      PairShape shape = shape_with_front(true);
      shape.before = before;
      ArrivingPair pair(shape);
      const Epoch last = next(before);
      ASSERT_NO_FATAL_FAILURE(pair.open(last));
      for (int t = 0; t < 6; ++t) pair.raise(t, last);
      ASSERT_EQ(MPIX_Pwait(pair.recv()), PARTITA_DEVICE_SUCCESS);
      // As epochs have left them that were 2^32 ago, the one that is opened now and the one behind it.
      const Epoch again = next(last);
      if (by_front) {
        pair.advance_front_to_end(again);
      } else {
        pair.raise(0, again), pair.raise(1, again), pair.raise(2, next(again)), pair.raise(3, next(again));
      }
      for (const Epoch epoch : {again, next(again)}) {
        ASSERT_NO_FATAL_FAILURE(pair.open(epoch));
        pair.expect_arrived({false, false, false});
        pair.advance_front_to_end(epoch);
        ASSERT_EQ(MPIX_Pwait(pair.recv()), PARTITA_DEVICE_SUCCESS);
      }
    }
  }
}

}  // namespace
}  // namespace partita::test
