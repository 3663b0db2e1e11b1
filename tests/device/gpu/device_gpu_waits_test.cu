// In kernels: what calls say to wrong arguments and moments, and that waits end.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "gpu_pair.cuh"

namespace partita::test {
namespace {

enum class Call {
  pready,
  pready_thread,
  pready_warp,
  pready_block,
  pready_range,
  pstart,
  pbuf_prepare,
  pwait,
  parrived
};

/// Every thread calls, and all must hear `expected`.
__global__ void call(Call what, int partition, MPIX_Prequest request, int expected, Findings* findings) {
  int code = 0;
  int flag = 0;
  switch (what) {
    case Call::pready:
      code = MPIX_Pready(partition, request);
      break;
    case Call::pready_thread:
      code = MPIX_Pready_thread(partition, request);
      break;
    case Call::pready_warp:
      code = MPIX_Pready_warp(partition, request);
      break;
    case Call::pready_block:
      code = MPIX_Pready_block(partition, request);
      break;
    case Call::pready_range:
      code = MPIX_Pready_range(partition, partition, request);
      break;
    case Call::pstart:
      code = MPIX_Pstart(request);
      break;
    case Call::pbuf_prepare:
      code = MPIX_Pbuf_prepare(request);
      break;
    case Call::pwait:
      code = MPIX_Pwait(request);
      break;
    case Call::parrived:
      code = MPIX_Parrived(request, partition, &flag);
      break;
  }
  if (code != expected && atomicAdd_system(&findings->wrong_codes, 1U) == 0) findings->first_code = code;
}

struct Kernels {
  explicit Kernels(const PairShape& shape) : pair(shape), stream(pair.sender()), receiving(pair.receiver()) {}

  void expect(Call what, int partition, bool of_send, int code, int threads = 64) {
    GpuStream& where = of_send ? stream : receiving;
    call<<<1, static_cast<unsigned>(threads), 0, where.use()>>>(what, partition, of_send ? pair.send() : pair.recv(),
                                                                code, findings.get());
    CHECK_CUDA(cudaGetLastError());
    where.wait();
    findings.expect_none("call " + std::to_string(static_cast<int>(what)) + " on partition " +
                         std::to_string(partition) + ", expected " + std::to_string(code));
    *findings.get() = Findings{};
  }

  GpuPair pair;
  GpuStream stream;
  GpuStream receiving;
  SharedFindings findings;
};

PairShape shape_of(bool device_driven, bool packets, std::uint64_t limit_ns) {
  PairShape shape;
  shape.send_partitions = 2;
  shape.transport_partitions = 2;
  shape.total_bytes = 64;
  shape.send_device_driven = shape.recv_device_driven = device_driven;
  shape.packets = packets;
  shape.limit_ns = limit_ns;
  return shape;
}

constexpr std::uint64_t limit_ns = 50'000'000;

TEST(DeviceGpuWaits, wrong_arguments_are_refused_in_every_thread) {
  Kernels k(shape_of(false, false, limit_ns));
  k.pair.start_recv(1);
  k.pair.start_send(1);
  for (const Call what :
       {Call::pready, Call::pready_thread, Call::pready_warp, Call::pready_block, Call::pready_range}) {
    k.expect(what, 2, true, PARTITA_DEVICE_ERR_PARTITION);
    k.expect(what, -1, true, PARTITA_DEVICE_ERR_PARTITION);
    k.expect(what, 0, false, PARTITA_DEVICE_ERR_SIDE);
  }
  EXPECT_EQ(k.pair.failure(k.pair.send()), std::uint32_t{PARTITA_DEVICE_ERR_PARTITION});
  EXPECT_EQ(k.pair.send().host->failure_partition, 2);
  EXPECT_EQ(k.pair.failure(k.pair.recv()), std::uint32_t{PARTITA_DEVICE_ERR_SIDE});
  k.expect(Call::parrived, 7, false, PARTITA_DEVICE_ERR_PARTITION);
  k.expect(Call::parrived, 0, true, PARTITA_DEVICE_ERR_SIDE);
  for (const Call what : {Call::pstart, Call::pbuf_prepare, Call::pwait}) {
    k.expect(what, 0, true, PARTITA_DEVICE_ERR_DRIVER);
    // A host-driven receive may be awaited.
    k.expect(what, 0, false, what == Call::pwait ? PARTITA_DEVICE_ERR_TIMEOUT : PARTITA_DEVICE_ERR_DRIVER);
  }
}

TEST(DeviceGpuWaits, wrong_moments_are_refused) {
  Kernels host(shape_of(false, false, limit_ns));
  host.expect(Call::pready_block, 0, true, PARTITA_DEVICE_ERR_INACTIVE);
  host.pair.start_recv(1);
  host.pair.start_send(1);
  host.expect(Call::pready_block, 0, true, PARTITA_DEVICE_SUCCESS);
  host.expect(Call::pready_block, 0, true, PARTITA_DEVICE_ERR_TWICE);
  host.expect(Call::pready_warp, 0, true, PARTITA_DEVICE_ERR_TWICE);
  host.expect(Call::pready_warp, 1, true, PARTITA_DEVICE_SUCCESS, 32);
  EXPECT_TRUE(host.pair.send_is_decided(1));
  EXPECT_TRUE(host.pair.all_arrived(1));

  Kernels device(shape_of(true, false, limit_ns));
  device.expect(Call::pready_block, 0, true, PARTITA_DEVICE_ERR_TWICE);
  device.expect(Call::pbuf_prepare, 0, true, PARTITA_DEVICE_ERR_INACTIVE);
  device.expect(Call::pwait, 0, true, PARTITA_DEVICE_SUCCESS);
  device.expect(Call::pstart, 0, true, PARTITA_DEVICE_SUCCESS);
  device.expect(Call::pstart, 0, true, PARTITA_DEVICE_ERR_ACTIVE);
  device.expect(Call::pready_block, 0, true, PARTITA_DEVICE_ERR_UNPREPARED);

  const std::uint32_t dead = 0;
  device.pair.copy(&device.pair.send().state->live, &dead, sizeof dead);
  device.expect(Call::pready_block, 0, true, PARTITA_DEVICE_ERR_FREED);
  device.expect(Call::pstart, 0, true, PARTITA_DEVICE_ERR_FREED);
}

TEST(DeviceGpuWaits, waits_end_at_the_time_limit) {
  for (const bool packets : {false, true}) {
    Kernels k(shape_of(true, packets, limit_ns));
    k.expect(Call::pstart, 0, true, PARTITA_DEVICE_SUCCESS);
    k.expect(Call::pbuf_prepare, 0, true, PARTITA_DEVICE_ERR_TIMEOUT);
    k.expect(Call::pwait, 0, true, PARTITA_DEVICE_ERR_TIMEOUT);
    k.expect(Call::pstart, 0, false, PARTITA_DEVICE_SUCCESS);
    k.expect(Call::pwait, 0, false, PARTITA_DEVICE_ERR_TIMEOUT);
    EXPECT_EQ(k.pair.failure(k.pair.send()), std::uint32_t{PARTITA_DEVICE_ERR_TIMEOUT});
    EXPECT_EQ(k.pair.failure(k.pair.recv()), std::uint32_t{PARTITA_DEVICE_ERR_TIMEOUT});
    // What was late may still come.
    k.expect(Call::pbuf_prepare, 0, true, PARTITA_DEVICE_SUCCESS);
    k.expect(Call::pready_block, 0, true, PARTITA_DEVICE_SUCCESS);
    k.expect(Call::pready_block, 1, true, PARTITA_DEVICE_SUCCESS);
    k.expect(Call::pwait, 0, true, PARTITA_DEVICE_SUCCESS);
    k.expect(Call::pwait, 0, false, PARTITA_DEVICE_SUCCESS);
  }
}

TEST(DeviceGpuWaits, the_host_releases_waiting_kernels) {
  constexpr std::uint64_t long_limit_ns = 20'000'000'000;
  for (const auto& [packets, where] : {std::pair(false, Release::gpu_memory), std::pair(false, Release::host_memory),
                                       std::pair(true, Release::gpu_memory), std::pair(true, Release::host_memory)}) {
    Kernels k(shape_of(true, packets, long_limit_ns));
    k.expect(Call::pstart, 0, true, PARTITA_DEVICE_SUCCESS);
    k.expect(Call::pstart, 0, false, PARTITA_DEVICE_SUCCESS);
    call<<<1, 64, 0, k.stream.use()>>>(Call::pwait, 0, k.pair.send(), PARTITA_DEVICE_ERR_ABORTED, k.findings.get());
    call<<<1, 64, 0, k.receiving.use()>>>(Call::pwait, 0, k.pair.recv(), PARTITA_DEVICE_ERR_ABORTED, k.findings.get());
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    EXPECT_FALSE(k.stream.idle());
    EXPECT_FALSE(k.receiving.idle());
    const auto since = std::chrono::steady_clock::now();
    k.pair.release_kernels(where);
    k.stream.wait();
    k.receiving.wait();
    const auto took = std::chrono::steady_clock::now() - since;
    EXPECT_LT(took, std::chrono::seconds(1));
    std::printf("released %s, by a word in %s memory: two kernels ended after %.0f us\n", packets ? "packets" : "plain",
                where == Release::gpu_memory ? "GPU" : "host", std::chrono::duration<double, std::micro>(took).count());
    k.findings.expect_none("released");
    EXPECT_EQ(k.pair.failure(k.pair.recv()), std::uint32_t{PARTITA_DEVICE_ERR_ABORTED});
  }
}

}  // namespace
}  // namespace partita::test
