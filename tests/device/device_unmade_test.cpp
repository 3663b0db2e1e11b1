// Calls on device requests that nothing is behind, and on arrays of requests some of which are such.
#include <gtest/gtest.h>
#include <partita/device.cuh>

#include <cstring>
#include <thread>
#include <vector>

#include "support/device_pair.hpp"
#include "support/unmade_calls.hpp"

namespace partita::test {
namespace {

Partita_Prequest filled_with(unsigned char byte) {
  Partita_Prequest request;
  std::memset(&request, byte, sizeof request);
  return request;
}

Partita_Prequest to_nobody(partita_u32 flags) {
  Partita_Prequest request{};
  request.flags = PARTITA_PREQUEST_NOBODY | flags;
  request.life = device::first_life;
  return request;
}

/// By one thread, and by all threads of a block.
void expect_all_calls(const Partita_Prequest& request, int code, bool nobody) {
  for (int call = 0; call < device_calls; ++call) {
    for (const int partition : {0, 3, -1}) {
      EXPECT_EQ(code_of(static_cast<DeviceCall>(call), partition, request, nobody), code)
          << "call " << call << ", partition " << partition;
    }
  }
  for (int call = 0; call < device_collectives; ++call) {
    EXPECT_EQ(code_of(static_cast<DeviceCollective>(call), request), code) << "collective " << call;
  }
  constexpr partita_u32 threads = 3;
  device::CpuBlock block(threads);
  std::vector<std::thread> running;
  for (partita_u32 t = 0; t < threads; ++t) {
    running.emplace_back([&, t] {
      const device::CpuBlockThread joined(block, t);
      for (int call = 0; call < device_calls; ++call) {
        EXPECT_EQ(code_of(static_cast<DeviceCall>(call), 0, request, nobody), code) << "call " << call;
      }
      for (int call = 0; call < device_collectives; ++call) {
        EXPECT_EQ(code_of(static_cast<DeviceCollective>(call), request), code) << "collective " << call;
      }
    });
  }
  for (auto& thread : running) thread.join();
}

TEST(DeviceUnmade, a_cleared_request_is_freed_for_every_call) {
  expect_all_calls(Partita_Prequest{}, PARTITA_DEVICE_ERR_FREED, false);
}

/// What lies on a stack, or in memory that nobody has written.
TEST(DeviceUnmade, a_request_that_was_never_made_is_freed_for_every_call) {
  for (const unsigned char byte : {0xff, 0x01, 0xcd, 0x55}) {
    expect_all_calls(filled_with(byte), PARTITA_DEVICE_ERR_FREED, false);
  }
}

TEST(DeviceUnmade, with_nobody_every_call_succeeds_and_does_nothing) {
  for (const partita_u32 side : {PARTITA_PREQUEST_SEND, PARTITA_PREQUEST_RECV}) {
    for (const partita_u32 driver : {0, int{PARTITA_PREQUEST_DEVICE_DRIVEN}}) {
      expect_all_calls(to_nobody(side | driver), PARTITA_DEVICE_SUCCESS, true);
    }
  }
}

/// As at the edge of a grid of ranks: some neighbours are there, some are nobody, and one kernel serves them all.
TEST(DeviceUnmade, an_array_of_requests_has_each_kind) {
  PairShape shape;
  shape.send_partitions = 2;
  shape.transport_partitions = 2;
  shape.total_bytes = 64;
  struct Pair : HostPairMemory, DevicePair {
    explicit Pair(const PairShape& pair_shape) : DevicePair(*this, pair_shape) {}
  };
  Pair first(shape);
  Pair last(shape);
  const std::vector<MPIX_Prequest> sends = {first.send(), to_nobody(0), MPIX_Prequest{}, last.send()};
  const std::vector<int> expected = {PARTITA_DEVICE_SUCCESS, PARTITA_DEVICE_SUCCESS, PARTITA_DEVICE_ERR_FREED,
                                     PARTITA_DEVICE_SUCCESS};
  for (Pair* pair : {&first, &last}) {
    pair->start_recv(1);
    pair->start_send(1);
  }
  for (std::size_t i = 0; i < sends.size(); ++i) {
    EXPECT_EQ(MPIX_Pready(1, sends[i]), expected[i]);
    EXPECT_EQ(MPIX_Pready_block(0, sends[i]), expected[i]);
  }
  for (const Pair* pair : {&first, &last}) EXPECT_EQ(pair->send().host->failure, 0u);
}

}  // namespace
}  // namespace partita::test
