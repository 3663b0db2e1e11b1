// What the device API costs, printed: ready to arrived, one way; bandwidth inside a kernel; the granularities of
// Pready. Medians. A figure is checked for being there at all, not for its size: docs/measurements/ has the runs that
// count.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

#include "gpu_pair.cuh"

namespace partita::test {
namespace {

/// Clock cycles of iterations, and how long a cycle is.
struct Samples {
  std::uint64_t* cycles;
  std::uint64_t* span_cycles;
  std::uint64_t* span_ns;
};

class SharedSamples {
 public:
  SharedSamples(PairMemory& memory, int count) : count_(count) {
    samples_.cycles =
        reinterpret_cast<std::uint64_t*>(memory.allocate(Spot::host, 8 * static_cast<std::size_t>(count)));
    samples_.span_cycles = reinterpret_cast<std::uint64_t*>(memory.allocate(Spot::host, 16));
    samples_.span_ns = samples_.span_cycles + 1;
  }
  Samples get() const { return samples_; }
  double median_us() const {
    std::vector<std::uint64_t> sorted(samples_.cycles, samples_.cycles + count_);
    std::sort(sorted.begin(), sorted.end());
    const double us_per_cycle =
        1e-3 * static_cast<double>(*samples_.span_ns) / static_cast<double>(*samples_.span_cycles);
    return static_cast<double>(sorted[sorted.size() / 2]) * us_per_cycle;
  }

 private:
  int count_;
  Samples samples_{};
};

struct Span {
  std::uint64_t cycles;
  std::uint64_t ns;
  __device__ static Span now() { return {static_cast<std::uint64_t>(clock64()), device::now_ns()}; }
};

__device__ void store_span(const Samples& samples, Span begin) {
  const Span end = Span::now();
  *samples.span_cycles = end.cycles - begin.cycles;
  *samples.span_ns = end.ns - begin.ns;
}

/// Marks all partitions of `send`, one after the other.
__device__ void mark_all(const Partita_Prequest& send, Findings* findings) {
  for (int p = 0; p < send.send_partitions; ++p) failed(MPIX_Pready_block(p, send), findings);
}

/// Opens the next epoch of both, so that the partner's mark finds everything prepared: its receive last.
__device__ bool arm(const Partita_Prequest& send, const Partita_Prequest& recv, bool recv_first, Findings* findings) {
  if (failed(MPIX_Pwait(send), findings)) return false;
  if (recv_first && failed(MPIX_Pstart(recv), findings)) return false;
  if (failed(MPIX_Pstart(send), findings) || failed(MPIX_Pbuf_prepare(send), findings)) return false;
  return recv_first || !failed(MPIX_Pstart(recv), findings);
}

/// One block on each GPU. The time from a mark to the answer's arrival is two ways; arming lies outside it.
__global__ void __launch_bounds__(1024)
    ping(MPIX_Prequest send, MPIX_Prequest recv, int warmup, int iterations, Samples samples, Findings* findings) {
  Span begin{};
  for (int i = -warmup; i < iterations; ++i) {
    if (i == 0) begin = Span::now();
    if (!arm(send, recv, true, findings)) return;
    __syncthreads();
    const std::uint64_t since = static_cast<std::uint64_t>(clock64());
    mark_all(send, findings);
    if (failed(MPIX_Pwait(recv), findings)) return;
    const std::uint64_t until = static_cast<std::uint64_t>(clock64());
    if (i >= 0 && threadIdx.x == 0) samples.cycles[i] = until - since;
  }
  if (threadIdx.x == 0) store_span(samples, begin);
  failed(MPIX_Pwait(send), findings);
}

__global__ void __launch_bounds__(1024)
    pong(MPIX_Prequest send, MPIX_Prequest recv, int iterations, Findings* findings) {
  for (int i = 0; i < iterations; ++i) {
    if (!arm(send, recv, false, findings)) return;
    if (failed(MPIX_Pwait(recv), findings)) return;
    mark_all(send, findings);
  }
  failed(MPIX_Pwait(send), findings);
}

PairShape device_driven(int send_partitions, int transport_partitions, std::int64_t total_bytes, bool packets) {
  PairShape shape;
  shape.send_partitions = send_partitions;
  shape.transport_partitions = transport_partitions;
  shape.total_bytes = total_bytes;
  shape.send_device_driven = shape.recv_device_driven = true;
  shape.packets = packets;
  shape.limit_ns = 5'000'000'000;
  return shape;
}

double one_way_us(const PairShape& shape, int threads) {
  constexpr int warmup = 200;
  constexpr int iterations = 2000;
  GpuPair there(shape);
  GpuPair back(shape, true);
  SharedFindings findings;
  SharedSamples samples(there, iterations);
  GpuStream a(there.sender());
  GpuStream b(there.receiver());
  const auto block = static_cast<unsigned>(threads);
  pong<<<1, block, 0, b.use()>>>(back.send(), there.recv(), warmup + iterations, findings.get());
  ping<<<1, block, 0, a.use()>>>(there.send(), back.recv(), warmup, iterations, samples.get(), findings.get());
  CHECK_CUDA(cudaGetLastError());
  a.wait();
  b.wait();
  findings.expect_none(shape.text());
  return samples.median_us() / 2;
}

TEST(DeviceGpuMeasure, ready_to_arrived_one_way) {
  std::printf("ready to arrived, one way, us (block of 32, 128, 512, 1024)\n");
  for (const bool packets : {true, false}) {
    for (const std::int64_t bytes : {8, 64, 512, 1024, 4096, 16384, 65536}) {
      std::printf("  %-20s %6lld B ", packets ? "packets" : "plain", static_cast<long long>(bytes));
      for (const int threads : {32, 128, 512, 1024}) {
        const double us = one_way_us(device_driven(1, 1, bytes, packets), threads);
        std::printf(" %7.2f", us);
        EXPECT_GT(us, 0);
        if (testing::Test::HasFailure()) return;
      }
      std::printf("\n");
    }
  }
  std::printf("  four partitions of one transfer, 1 KiB in all, by one block of 128: packets %.2f, plain %.2f\n",
              one_way_us(device_driven(4, 1, 1024, true), 128), one_way_us(device_driven(4, 1, 1024, false), 128));
}

// ---- Host-driven: ready in a kernel to seen by the receiver's host -------------------------------------------------

/// Answers each epoch's host word with a mark and times until the host's answer comes back: kernel, host, kernel.
__global__ void __launch_bounds__(1024)
    mark_and_await_host(MPIX_Prequest send, volatile std::uint32_t* go, volatile std::uint32_t* answer, Epoch before,
                        int iterations, Samples samples, Findings* findings) {
  Epoch epoch = before;
  const Span begin = Span::now();
  for (int i = 0; i < iterations; ++i) {
    epoch = next(epoch);
    bool late = false;
    if (threadIdx.x == 0) {
      const std::uint64_t since = device::now_ns();
      while (*go != epoch && !late) late = device::now_ns() - since > spin_limit_ns;
    }
    if (__syncthreads_or(late)) break;
    const std::uint64_t since = static_cast<std::uint64_t>(clock64());
    for (int p = 0; p < send.send_partitions; ++p) {
      if (failed(MPIX_Pready_block(p, send), findings)) return;
    }
    if (threadIdx.x == 0) {
      const std::uint64_t from = device::now_ns();
      while (*answer != epoch && !late) late = device::now_ns() - from > spin_limit_ns;
      samples.cycles[i] = static_cast<std::uint64_t>(clock64()) - since;
    }
    if (__syncthreads_or(late)) break;
  }
  if (threadIdx.x == 0) store_span(samples, begin);
}

/// The way of a word between a kernel and a host, both ways.
__global__ void word_and_await_host(volatile std::uint32_t* word, volatile std::uint32_t* answer, int iterations,
                                    Samples samples) {
  const Span begin = Span::now();
  bool late = false;
  for (std::uint32_t i = 1; i <= static_cast<std::uint32_t>(iterations) && !late; ++i) {
    const std::uint64_t since = static_cast<std::uint64_t>(clock64());
    const std::uint64_t from = device::now_ns();
    *word = i;
    while (*answer != i && !late) late = device::now_ns() - from > spin_limit_ns;
    samples.cycles[i - 1] = static_cast<std::uint64_t>(clock64()) - since;
  }
  store_span(samples, begin);
}

TEST(DeviceGpuMeasure, ready_in_a_kernel_to_the_receivers_host) {
  constexpr int iterations = 1000;
  GpuPairMemory memory;
  auto* const word = reinterpret_cast<std::uint32_t*>(memory.allocate(Spot::host, 4));
  auto* const answer = reinterpret_cast<std::uint32_t*>(memory.allocate(Spot::host, 4));
  SharedSamples words(memory, iterations);
  GpuStream stream(memory.sender());
  word_and_await_host<<<1, 1, 0, stream.use()>>>(word, answer, iterations, words.get());
  CHECK_CUDA(cudaGetLastError());
  for (std::uint32_t i = 1; i <= iterations; ++i) {
    while (load_word(word) != i && !stream.idle()) continue;
    store_word(answer, i);
  }
  stream.wait();
  const double word_us = words.median_us();
  std::printf("a word kernel -> host -> kernel: %.2f us\n", word_us);
  for (const int partitions : {1, 4}) {
    PairShape shape = device_driven(partitions, 1, 1024, false);
    shape.send_device_driven = shape.recv_device_driven = false;
    GpuPair pair(shape);
    SharedFindings findings;
    SharedSamples samples(pair, iterations);
    auto* const go = reinterpret_cast<std::uint32_t*>(pair.allocate(Spot::host, 4));
    auto* const back = reinterpret_cast<std::uint32_t*>(pair.allocate(Spot::host, 4));
    GpuStream marking(pair.sender());
    mark_and_await_host<<<1, 128, 0, marking.use()>>>(pair.send(), go, back, shape.before, iterations, samples.get(),
                                                      findings.get());
    CHECK_CUDA(cudaGetLastError());
    Epoch epoch = shape.before;
    for (int i = 0; i < iterations; ++i) {
      epoch = next(epoch);
      pair.start_recv(epoch);
      pair.start_send(epoch);
      store_word(go, epoch);
      while (!pair.all_arrived(epoch) && !marking.idle()) continue;
      store_word(back, epoch);
      while (!pair.send_is_decided(epoch) && !marking.idle()) continue;
    }
    marking.wait();
    findings.expect_none(shape.text());
    const double us = samples.median_us();
    EXPECT_GT(us, 0);
    std::printf(
        "host-driven, 1 KiB in %d partitions of one transfer: mark to the answer of the receiver's host %.2f us, less "
        "the answer's way %.2f us\n",
        partitions, us, us - word_us / 2);
  }
}

// ---- Bandwidth -----------------------------------------------------------------------------------------------------

/// All blocks mark, each its share. Timed: from the barrier before the marks to the end of the send, when all bytes are
/// fenced behind the flag.
__global__ void __launch_bounds__(1024) send_much(MPIX_Prequest send, int warmup, int iterations,
                                                  std::uint32_t* grid_word, Samples samples, Findings* findings) {
  std::uint32_t turn = 0;
  Span begin{};
  for (int i = -warmup; i < iterations; ++i) {
    if (i == 0) begin = Span::now();
    if (blockIdx.x == 0 && (failed(MPIX_Pstart(send), findings) || failed(MPIX_Pbuf_prepare(send), findings))) return;
    if (!grid_barrier(grid_word, &turn, findings)) return;
    const std::uint64_t since = static_cast<std::uint64_t>(clock64());
    for (int p = blockIdx.x; p < send.send_partitions; p += gridDim.x) {
      failed(MPIX_Pready_block(p, send), findings);
    }
    if (blockIdx.x == 0) {
      if (failed(MPIX_Pwait(send), findings)) return;
      if (i >= 0 && threadIdx.x == 0) samples.cycles[i] = static_cast<std::uint64_t>(clock64()) - since;
    }
    if (!grid_barrier(grid_word, &turn, findings)) return;
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) store_span(samples, begin);
}

__global__ void __launch_bounds__(1024) receive_much(MPIX_Prequest recv, int iterations, Findings* findings) {
  for (int i = 0; i < iterations; ++i) {
    if (failed(MPIX_Pstart(recv), findings) || failed(MPIX_Pwait(recv), findings)) return;
  }
}

template <int depth>
__global__ void __launch_bounds__(1024)
    copy_all(unsigned char* to, const unsigned char* from, std::int64_t size_bytes) {
  const std::int64_t begin = size_bytes / 16 * blockIdx.x / gridDim.x * 16;
  const std::int64_t end = size_bytes / 16 * (blockIdx.x + 1) / gridDim.x * 16;
  device::copy<depth>(to + begin, from + begin, end - begin, {threadIdx.x, blockDim.x});
}

template <int depth>
double launched_copy_us(GpuPair& pair, std::int64_t bytes, int blocks, int threads) {
  constexpr int launches = 20;
  GpuStream stream(pair.sender());
  cudaEvent_t events[launches + 1];
  stream.use();
  for (cudaEvent_t& event : events) CHECK_CUDA(cudaEventCreate(&event));
  CHECK_CUDA(cudaEventRecord(events[0], stream.use()));
  for (int i = 0; i < launches; ++i) {
    copy_all<depth><<<static_cast<unsigned>(blocks), static_cast<unsigned>(threads), 0, stream.use()>>>(
        pair.recv_buffer(), pair.send_buffer(), bytes);
    CHECK_CUDA(cudaEventRecord(events[i + 1], stream.use()));
  }
  stream.wait();
  std::vector<float> ms(launches);
  for (int i = 0; i < launches; ++i) CHECK_CUDA(cudaEventElapsedTime(&ms[i], events[i], events[i + 1]));
  for (cudaEvent_t& event : events) CHECK_CUDA(cudaEventDestroy(event));
  std::sort(ms.begin(), ms.end());
  return 1e3 * ms[launches / 2];
}

TEST(DeviceGpuMeasure, bandwidth_inside_a_kernel) {
  constexpr int warmup = 3;
  constexpr int iterations = 40;
  cudaDeviceProp properties{};
  CHECK_CUDA(cudaGetDeviceProperties(&properties, sender_device()));
  std::printf(
      "bandwidth, GB/s: marked inside a kernel to the end of the send, against a plain launched copy with 2, 4, 8\n"
      "16-byte loads a thread in flight\n");
  for (const std::int64_t bytes :
       {std::int64_t{1} << 20, std::int64_t{4} << 20, std::int64_t{16} << 20, std::int64_t{256} << 20}) {
    for (const int threads : {512, 1024}) {
      // Both kernels fit even where there is one GPU: a block of 1024 threads takes up half a multiprocessor.
      const int room = properties.multiProcessorCount * (threads == 512 ? 3 : 1);
      for (const int blocks : {64, 128, 256}) {
        if (blocks > room) continue;
        GpuPair pair(device_driven(blocks, 1, bytes, false));
        SharedFindings findings;
        SharedSamples samples(pair, iterations);
        auto* const grid_word = reinterpret_cast<std::uint32_t*>(pair.allocate(Spot::sender_gpu, 4));
        GpuStream sending(pair.sender());
        GpuStream receiving(pair.receiver());
        receive_much<<<1, 32, 0, receiving.use()>>>(pair.recv(), warmup + iterations, findings.get());
        send_much<<<static_cast<unsigned>(blocks), static_cast<unsigned>(threads), 0, sending.use()>>>(
            pair.send(), warmup, iterations, grid_word, samples.get(), findings.get());
        CHECK_CUDA(cudaGetLastError());
        sending.wait();
        receiving.wait();
        findings.expect_none(pair.shape().text());
        const double us = samples.median_us();
        const auto rate = [bytes](double duration_us) { return 1e-3 * static_cast<double>(bytes) / duration_us; };
        std::printf("  %4lld MiB, %3d blocks of %4d: marked %6.1f (%.2f us); launched %6.1f %6.1f %6.1f\n",
                    static_cast<long long>(bytes >> 20), blocks, threads, rate(us), us,
                    rate(launched_copy_us<2>(pair, bytes, blocks, threads)),
                    rate(launched_copy_us<4>(pair, bytes, blocks, threads)),
                    rate(launched_copy_us<8>(pair, bytes, blocks, threads)));
        EXPECT_GT(us, 0);
        if (testing::Test::HasFailure()) return;
      }
    }
  }
}

// ---- The granularities of Pready -----------------------------------------------------------------------------------

enum class Way { thread, warp, block, aggregated };

/// One block; every thread has 8 bytes. `thread` and `aggregated`: a partition a thread; warp: one a warp; block: one.
__global__ void __launch_bounds__(1024)
    mark_each_way(MPIX_Prequest send, Way way, int iterations, Samples samples, Findings* findings) {
  const Span begin = Span::now();
  for (int i = 0; i < iterations; ++i) {
    if (failed(MPIX_Pstart(send), findings) || failed(MPIX_Pbuf_prepare(send), findings)) return;
    __syncthreads();
    const std::uint64_t since = static_cast<std::uint64_t>(clock64());
    const int thread = static_cast<int>(threadIdx.x);
    if (way == Way::thread) failed(MPIX_Pready_thread(thread, send), findings);
    if (way == Way::aggregated) failed(MPIX_Pready(thread, send), findings);
    if (way == Way::warp) failed(MPIX_Pready_warp(thread / 32, send), findings);
    if (way == Way::block) failed(MPIX_Pready_block(0, send), findings);
    __syncthreads();
    if (threadIdx.x == 0) samples.cycles[i] = static_cast<std::uint64_t>(clock64()) - since;
    if (failed(MPIX_Pwait(send), findings)) return;
  }
  if (threadIdx.x == 0) store_span(samples, begin);
}

double marks_us(Way way, int threads, int transport_partitions) {
  constexpr int iterations = 400;
  const int partitions = way == Way::block ? 1 : way == Way::warp ? threads / 32 : threads;
  GpuPair pair(device_driven(partitions, std::min(transport_partitions, partitions), std::int64_t{8} * threads, false));
  SharedFindings findings;
  SharedSamples samples(pair, iterations);
  GpuStream sending(pair.sender());
  GpuStream receiving(pair.receiver());
  receive_much<<<1, 32, 0, receiving.use()>>>(pair.recv(), iterations, findings.get());
  mark_each_way<<<1, static_cast<unsigned>(threads), 0, sending.use()>>>(pair.send(), way, iterations, samples.get(),
                                                                         findings.get());
  CHECK_CUDA(cudaGetLastError());
  sending.wait();
  receiving.wait();
  findings.expect_none(pair.shape().text());
  return samples.median_us();
}

TEST(DeviceGpuMeasure, pready_by_thread_warp_block_and_the_default_call) {
  std::printf(
      "Pready by a whole block, 8 bytes a thread, us: block, default, warp, thread; one transfer in all, and the\n"
      "thread and warp calls also with a transfer for each mark\n");
  for (const int threads : {32, 256, 1024}) {
    std::printf("  %4d threads: %7.2f %7.2f %7.2f %7.2f; %7.2f %7.2f\n", threads, marks_us(Way::block, threads, 1),
                marks_us(Way::aggregated, threads, 1), marks_us(Way::warp, threads, 1),
                marks_us(Way::thread, threads, 1), marks_us(Way::warp, threads, threads),
                marks_us(Way::thread, threads, threads));
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace partita::test
