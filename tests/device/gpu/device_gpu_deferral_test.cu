// Readiness that comes at any moment of a marking kernel: what each transport partition was moved by, that all of it
// arrives, and that every way was taken.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "gpu_marking.cuh"
#include "gpu_pair.cuh"
#include "support/random.hpp"

namespace partita::test {
namespace {

using Clock = std::chrono::steady_clock;

/// How many transport partitions of a run were moved by kernels alone; by the engine alone; and by the engine, after
/// kernels had copied a part of them already.
struct Counts {
  int kernel = 0;
  int engine = 0;
  int mixed = 0;
};

/// When the receiver opens an epoch.
struct Moment {
  enum class At { before_the_launch, behind_the_launch, behind_the_last_mark } at;
  std::chrono::nanoseconds delay;  ///< behind the launch
};

Moment random_moment(Random& random) {
  if (random.one_in(10)) return {Moment::At::before_the_launch, {}};
  if (random.one_in(10)) return {Moment::At::behind_the_last_mark, {}};
  return {Moment::At::behind_the_launch, std::chrono::nanoseconds(random.integer(0, 40'000))};
}

class Deferral {
 public:
  Deferral(const PairShape& shape, Granularity granularity)
      : pair_(shape), sending_(pair_.sender()), received_(static_cast<std::size_t>(shape.total_bytes)) {
    work_ = {granularity, shape.before, 0, most_delay_ns, nullptr, findings_.get()};
    // Few threads with several marks each, so that an epoch's marks lie microseconds apart.
    const bool by_block = granularity == Granularity::block;
    const bool by_warp = granularity == Granularity::warp;
    blocks_ = by_block ? 12 : 3;
    threads_ = by_block || by_warp ? 96 : 16;
  }

  /// False where the epoch does not end, which fails the case.
  bool run_epoch(Epoch epoch, const Moment& moment, Counts& counts) {
    const auto begin = Clock::now();
    const auto in_time = [&] { return Clock::now() - begin < std::chrono::seconds(20); };
    if (moment.at == Moment::At::before_the_launch) pair_.start_recv(epoch);
    pair_.start_send(epoch);
    send_one_epoch<<<static_cast<unsigned>(blocks_), static_cast<unsigned>(threads_), 0, sending_.use()>>>(
        pair_.send(), work_, epoch);
    CHECK_CUDA(cudaGetLastError());
    if (moment.at == Moment::At::behind_the_launch) {
      const auto launched = Clock::now();
      while (Clock::now() - launched < moment.delay) continue;
      pair_.start_recv(epoch);
    }
    while (!pair_.send_is_decided(epoch) && in_time()) continue;
    count(epoch, counts);
    if (moment.at == Moment::At::behind_the_last_mark) pair_.start_recv(epoch);
    while (!pair_.all_arrived(epoch) && in_time()) pair_.progress(epoch);
    const bool ended = pair_.all_arrived(epoch);
    if (!ended) pair_.release_kernels();
    sending_.wait();
    EXPECT_TRUE(ended) << "epoch " << epoch << " did not end";
    return ended && arrived_whole(epoch);
  }

  void expect_no_failure(const std::string& where) {
    findings_.expect_none(where);
    EXPECT_EQ(pair_.failure(pair_.send()), 0U) << where;
  }

 private:
  static constexpr std::uint32_t most_delay_ns = 12'000;

  /// Once all is decided and before the engine moves anything: what lies there now kernels have copied.
  void count(Epoch epoch, Counts& counts) {
    const device::Plan plan = pair_.plan();
    for (int t = 0; t < pair_.shape().transport_partitions; ++t) {
      if (!pair_.handed_over(t, epoch)) {
        ++counts.kernel;
        continue;
      }
      const device::Range bytes = plan.bytes(t);
      pair_.copy(received_.data(), pair_.recv_buffer() + bytes.begin, static_cast<std::size_t>(bytes.size()));
      const std::int64_t partition_bytes = plan.send_partition_bytes();
      bool some_copied = false;
      for (std::int64_t at = 0; at < bytes.size() && !some_copied; at += partition_bytes) {
        some_copied = holds(epoch, bytes.begin + at, partition_bytes, received_.data() + at);
      }
      ++(some_copied ? counts.mixed : counts.engine);
    }
  }

  static bool holds(Epoch epoch, std::int64_t first, std::int64_t size_bytes, const unsigned char* bytes) {
    for (std::int64_t i = 0; i < size_bytes; ++i) {
      if (bytes[i] != DevicePair::expected(epoch, first + i)) return false;
    }
    return true;
  }

  bool arrived_whole(Epoch epoch) {
    pair_.copy(received_.data(), pair_.recv_buffer(), received_.size());
    const bool whole = holds(epoch, 0, pair_.shape().total_bytes, received_.data());
    EXPECT_TRUE(whole) << "epoch " << epoch;
    return whole;
  }

  GpuPair pair_;
  SharedFindings findings_;
  GpuStream sending_;
  Work work_;
  int blocks_;
  int threads_;
  std::vector<unsigned char> received_;
};

void run(int transport_partitions) {
  const char* const shortened = std::getenv("PARTITEST_EPOCHS");
  const int epochs = shortened == nullptr ? 1000 : std::atoi(shortened);
  for (const Granularity granularity : granularities) {
    PairShape shape;
    shape.send_partitions = 96;
    shape.recv_partitions = 1;
    shape.transport_partitions = transport_partitions;
    shape.total_bytes = 96 * 64;
    shape.before = 0xffffffffU - 500;
    const std::string where = shape.text() + ", granularity " + name_of(granularity);
    SCOPED_TRACE(where);
    Deferral deferral(shape, granularity);
    Random random(20261122, static_cast<std::uint64_t>(granularity));
    Counts counts;
    Epoch epoch = shape.before;
    for (int e = 0; e < epochs; ++e) {
      epoch = next(epoch);
      if (!deferral.run_epoch(epoch, random_moment(random), counts)) return;
    }
    deferral.expect_no_failure(where);
    std::printf("%s: %d by kernels, %d by the engine, %d by both\n", where.c_str(), counts.kernel, counts.engine,
                counts.mixed);
    if (shortened != nullptr) continue;  // too few for every way to be taken
    EXPECT_GT(counts.kernel, 0);
    EXPECT_GT(counts.engine, 0);
    EXPECT_GT(counts.mixed, 0);
  }
}

TEST(DeviceGpuDeferral, a_transport_partition_of_all_marks_arrives_whole_whenever_the_receiver_is_ready) {
  run(1);
}

TEST(DeviceGpuDeferral, transport_partitions_of_an_epoch_take_different_ways) {
  run(4);
}

}  // namespace
}  // namespace partita::test
