// What ipc.fig4 and ipc.fig5 compare, on the fake GPU: that every protocol delivers what was sent, that each goes the
// way of its name, and that parts are those of a whole. The job was started with PARTITA_PEER_COLLECTIVES=0, but
// AlltoallOfSmallCalls.
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "apps/support/order.hpp"
#include "bench/alltoall.hpp"
#include "core/mpi_takes_gpu.hpp"
#include "support/fake_gpu.hpp"
#include "support/gpu_memory.hpp"
#include "support/job.hpp"

namespace partita::bench {
namespace {

/// The fake GPU's memory is the host's in truth. What is written last may be spoilt.
class WholeMapping final : public CpuMapping {
 public:
  explicit WholeMapping(std::byte* memory) : memory_(memory) {}
  void read(void* to, std::size_t size_bytes) const override { std::memcpy(to, memory_, size_bytes); }
  void write(const void* from, std::size_t size_bytes) const override {
    std::memcpy(memory_, from, size_bytes);
    if (spoils) memory_[size_bytes - 1] ^= std::byte{1};
  }

  static inline bool spoils = false;

 private:
  std::byte* memory_;
};

CpuMapped map_all(std::byte* memory) {
  return {std::make_unique<WholeMapping>(memory), ""};
}
CpuMapped map_none(std::byte*) {
  return {nullptr, "there is no such driver"};
}
CpuMapped map_on_first_rank(std::byte* memory) {
  return test::rank() == 0 ? map_all(memory) : map_none(memory);
}

AlltoallGpu fake_gpu(MapForCpu map) {
  return {{[](std::size_t size_bytes) { return Buffer(test::gpu_allocate(size_bytes), size_bytes, test::gpu_free); },
           plain_buffer, test::gpu_copy},
          map};
}

Options options_to(std::int64_t max_bytes) {
  Options options;
  options.max_bytes = max_bytes;
  return options;
}

using Names = std::vector<std::string>;

Names names(const std::vector<Contender>& contenders) {
  Names all;
  for (const Contender& contender : contenders) all.push_back(contender.name);
  return all;
}

Measurement& named(const std::vector<Contender>& contenders, const std::string& name) {
  for (const Contender& contender : contenders) {
    if (contender.name == name) return *contender.measurement;
  }
  throw Failure("there is no {}", name);
}

/// What the streams of Partita's were asked for.
struct Asked {
  std::uint64_t copies = test::FakeGpu::instance().copies();
  std::uint64_t with_host = test::FakeGpu::instance().copies_with_host();
  std::uint64_t imports = test::FakeGpu::instance().imports();

  Asked since(const Asked& before) const {
    Asked made;
    made.copies = copies - before.copies;
    made.with_host = with_host - before.with_host;
    made.imports = imports - before.imports;
    return made;
  }
};

class DropinGpuAlltoall : public testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override {
    if (mpi_takes_cuda_memory().value_or(false)) GTEST_SKIP() << "the MPI would be handed memory of the fake GPU";
  }

  /// One sample, of contents that are compared.
  Asked sample(const Contender& contender, std::uint64_t epoch, int batch) {
    test::step(contender.name);
    contender.measurement->prepare(epoch);
    job.barrier();
    const Asked before;
    last_us = contender.measurement->sample({epoch, batch});
    const Asked made = Asked().since(before);
    job.barrier();
    EXPECT_TRUE(contender.measurement->compare(epoch)) << contender.name << ", epoch " << epoch;
    return made;
  }

  Job job{MPI_COMM_WORLD, options_to(1 << 16), Ranks::any};
  Case blocks{GetParam(), 1};
  double last_us = 0;
};

TEST_P(DropinGpuAlltoall, every_protocol_delivers_what_was_sent_and_goes_its_way) {
  const auto contenders = compare_protocols(job, blocks, fake_gpu(map_all));
  const bool by_cpu = blocks.size_bytes * job.ranks <= cpu_mapped_bytes;
  EXPECT_EQ(names(contenders),
            by_cpu ? (Names{"by-hand", "fast-copies", "staged", "peers"}) : (Names{"by-hand", "staged", "peers"}));
  for (const Contender& contender : contenders) {
    EXPECT_EQ(contender.reference, "by-hand");
    for (const std::uint64_t epoch : {0U, 1U}) {
      const Asked made = sample(contender, epoch, 3);
      EXPECT_GT(last_us, 0) << contender.name;
      const auto ranks = static_cast<std::uint64_t>(job.ranks);
      const bool is_staged = contender.name == "staged";
      EXPECT_EQ(made.copies, is_staged ? 6 : contender.name == "peers" ? 3 * ranks : 0) << contender.name;
      EXPECT_EQ(made.with_host, is_staged ? 6U : 0U) << contender.name;
    }
  }
  EXPECT_TRUE(job.notes.empty());
}

TEST_P(DropinGpuAlltoall, parts_are_those_of_the_calls_of_the_whole) {
  const auto contenders = split_protocols(job, blocks, fake_gpu(map_all));
  Names expected;
  const auto expect = [&](const std::string& whole, const Names& parts) {
    expected.push_back(whole);
    for (const std::string& part : parts) expected.push_back(whole + part);
  };
  const Names of_copies{":to-host", ":mpi", ":to-gpu"};
  const Names of_peers{":begin", ":agreement", ":naming", ":mapping", ":copies", ":end"};
  expect("by-hand", of_copies);
  if (blocks.size_bytes * job.ranks <= cpu_mapped_bytes) expect("fast-copies", of_copies);
  expect("peers", of_peers);
  expect("peers-first", of_peers);
  ASSERT_EQ(names(contenders), expected);

  const auto ranks = static_cast<std::uint64_t>(job.ranks);
  for (const std::uint64_t epoch : {1U, 2U}) {
    std::map<std::string, double> whole_us;
    std::map<std::string, double> parts_us;
    for (const Contender& contender : contenders) {
      const Asked made = sample(contender, epoch, 5);
      const bool is_whole = contender.name == contender.reference;
      const bool is_first = contender.reference == "peers-first";
      const bool by_peers = contender.reference.starts_with("peers");
      EXPECT_EQ(made.copies, is_whole && by_peers ? (is_first ? ranks : 5 * ranks) : 0) << contender.name;
      EXPECT_EQ(made.with_host, 0U);
      const std::uint64_t imports_each = is_first ? ranks - 1 : 5 * (ranks - 1);
      EXPECT_EQ(made.imports, is_whole && by_peers ? imports_each : 0) << contender.name;
      if (test::rank() != 0) {
        EXPECT_EQ(last_us, std::numeric_limits<double>::lowest()) << contender.name;
        continue;
      }
      EXPECT_GT(last_us, 0) << contender.name;
      (is_whole ? whole_us : parts_us)[contender.reference] += last_us;
    }
    for (const auto& [name, us] : whole_us) {
      if (name.starts_with("peers")) {
        EXPECT_NEAR(parts_us[name], us, us * 1e-6) << name;
      } else {
        EXPECT_LE(parts_us[name], us) << name;
      }
    }
  }
}

/// As the harness draws them: what one row has received is no other's to spoil.
TEST_P(DropinGpuAlltoall, rows_deliver_in_any_order_of_a_round) {
  const auto contenders = split_protocols(job, blocks, fake_gpu(map_all));
  for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
    for (const std::size_t index : apps::draw_order(contenders.size(), 1, epoch)) sample(contenders[index], epoch, 2);
  }
}

/// Which the harness times one by one.
TEST_P(DropinGpuAlltoall, in_epoch_0_each_part_makes_calls_of_its_own) {
  const auto contenders = split_protocols(job, blocks, fake_gpu(map_none));
  for (const char* name : {"peers", "peers:mapping", "peers"}) {
    const Asked before;
    named(contenders, name).sample({0, 2});
    EXPECT_EQ(Asked().since(before).copies, 2 * static_cast<std::uint64_t>(job.ranks)) << name;
  }
}

/// Memory that no peer has mapped is mapped in each of them, and no call after it.
TEST_P(DropinGpuAlltoall, first_calls_are_on_memory_that_is_new) {
  if (job.ranks == 1) GTEST_SKIP() << "has no peers";
  const auto contenders = split_protocols(job, blocks, fake_gpu(map_none));
  for (std::uint64_t epoch = 3; epoch < 100; ++epoch) {
    named(contenders, "peers-first").sample({epoch, 1});
    named(contenders, "peers").sample({epoch, 2});
  }
  named(contenders, "peers-first").prepare(200);
  named(contenders, "peers-first").sample({200, 1});
  EXPECT_TRUE(named(contenders, "peers-first").compare(200));
}

TEST_P(DropinGpuAlltoall, where_the_cpu_cannot_map_the_gpu_a_note_says_so) {
  for (const MapForCpu map : {map_none, map_on_first_rank}) {
    if (map == &map_on_first_rank && job.ranks == 1) continue;
    Job of_map(MPI_COMM_WORLD, options_to(blocks.size_bytes), Ranks::any);
    const Names all = names(compare_protocols(of_map, blocks, fake_gpu(map)));
    EXPECT_EQ(all, (Names{"by-hand", "staged", "peers"}));
    compare_protocols(of_map, blocks, fake_gpu(map));
    const bool maps_here = map == &map_on_first_rank && test::rank() == 0;
    EXPECT_EQ(of_map.notes, (Names{std::string("fast-copies is left out: the CPU cannot map GPU memory: ") +
                                   (maps_here ? "not on another rank" : "there is no such driver")}));
  }
}

TEST_P(DropinGpuAlltoall, a_wrong_byte_is_noticed) {
  if (blocks.size_bytes * job.ranks > cpu_mapped_bytes) GTEST_SKIP() << "the CPU does not copy so much";
  const auto contenders = compare_protocols(job, blocks, fake_gpu(map_all));
  Measurement& by_cpu = named(contenders, "fast-copies");
  by_cpu.prepare(1);
  WholeMapping::spoils = true;
  by_cpu.sample({1, 1});
  WholeMapping::spoils = false;
  testing::internal::CaptureStderr();
  EXPECT_FALSE(by_cpu.compare(1));
  EXPECT_NE(testing::internal::GetCapturedStderr().find("fast-copies"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Sizes, DropinGpuAlltoall, testing::Values(1, 1000, 1 << 16));

/// PARTITA_PEER_COLLECTIVES is 1 MiB here.
TEST(AlltoallOfSmallCalls, peers_are_left_out_where_calls_do_not_go_so) {
  if (mpi_takes_cuda_memory().value_or(false)) GTEST_SKIP() << "the MPI would be handed memory of the fake GPU";
  Job job(MPI_COMM_WORLD, options_to(1 << 20), Ranks::any);
  const AlltoallGpu gpu = fake_gpu(map_all);
  EXPECT_EQ(names(compare_protocols(job, {8, 1}, gpu)), (Names{"by-hand", "fast-copies", "staged"}));
  ASSERT_EQ(job.notes.size(), 1U);
  EXPECT_NE(job.notes[0].find("PARTITA_PEER_COLLECTIVES=0"), std::string::npos) << job.notes[0];
  EXPECT_EQ(names(compare_protocols(job, {1 << 20, 1}, gpu)), (Names{"by-hand", "staged", "peers"}));
  EXPECT_EQ(split_protocols(job, {8, 1}, gpu).size(), 8U);
  EXPECT_EQ(job.notes.size(), 2U);
}

}  // namespace
}  // namespace partita::bench
