// What two-sided and channel.* compare, on the fake GPU: that every row on GPU memory delivers what was sent, by the
// drop-in, by a program's own copies, and in parts.
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdint>
#include <string>
#include <vector>

#include "bench/two_sided.hpp"
#include "core/mpi_takes_gpu.hpp"
#include "support/fake_gpu.hpp"
#include "support/gpu_memory.hpp"
#include "support/job.hpp"

namespace partita::bench {
namespace {

const StagingMemory gpu{
    [](std::size_t size_bytes) { return Buffer(test::gpu_allocate(size_bytes), size_bytes, test::gpu_free); },
    plain_buffer, test::gpu_copy};

Options few_messages() {
  Options options;
  options.window = 3;
  return options;
}

std::vector<std::string> names(const std::vector<Contender>& contenders) {
  std::vector<std::string> all;
  for (const Contender& contender : contenders) all.push_back(contender.name);
  return all;
}

/// How many copies of an operation Partita makes on this rank, where a message in GPU memory has `each`.
std::uint64_t copies_by_partita(const std::string& name, std::uint64_t each) {
  if (name == "host-device") return test::rank() == 0 ? 0 : each;
  return name == "device" || name == "device:own" ? each : 0;
}

/// Two epochs of two operations each.
void expect_right_data(Job& job, const std::vector<Contender>& contenders, std::uint64_t copies_each) {
  for (const Contender& contender : contenders) {
    test::step(contender.name);
    for (const std::uint64_t epoch : {0U, 1U}) {
      contender.measurement->prepare(epoch);
      job.barrier();
      const std::uint64_t copies_before = test::FakeGpu::instance().copies();
      contender.measurement->sample({epoch, 2});
      EXPECT_EQ(test::FakeGpu::instance().copies() - copies_before, 2 * copies_by_partita(contender.name, copies_each))
          << contender.name;
      job.barrier();
      EXPECT_TRUE(contender.measurement->compare(epoch)) << contender.name << ", epoch " << epoch;
    }
  }
}

class TwoSided : public testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override {
    if (mpi_takes_cuda_memory().value_or(false)) GTEST_SKIP() << "the MPI would be handed memory of the fake GPU";
  }

  Job job{MPI_COMM_WORLD, few_messages()};
  Case messages{GetParam(), 1};
};

const std::vector<std::string> rows{"mpi-host", "host", "by-hand", "device", "host-device"};

TEST_P(TwoSided, round_trips_in_gpu_memory_deliver_what_was_sent) {
  const auto contenders = compare_round_trips(job, messages, &gpu);
  EXPECT_EQ(names(contenders), rows);
  expect_right_data(job, contenders, 2);
}

TEST_P(TwoSided, windows_in_gpu_memory_deliver_what_was_sent) {
  const auto contenders = compare_windows(job, messages, &gpu);
  EXPECT_EQ(names(contenders), rows);
  expect_right_data(job, contenders, static_cast<std::uint64_t>(job.options.window));
}

TEST_P(TwoSided, parts_of_a_message_are_measured_of_messages_that_arrive) {
  const auto contenders = split_round_trips(job, messages, &gpu);
  EXPECT_EQ(names(contenders), (std::vector<std::string>{"c-api", "c-api:mpi", "c-api:own", "device", "device:mpi",
                                                         "device:copies", "device:own"}));
  expect_right_data(job, contenders, 2);
}

TEST_P(TwoSided, a_wrong_byte_in_gpu_memory_is_noticed) {
  static bool spoils = false;
  StagingMemory spoiling = gpu;
  spoiling.copy = [](void* to, const void* from, std::size_t size_bytes) {
    test::gpu_copy(to, from, size_bytes);
    if (spoils) static_cast<std::byte*>(to)[size_bytes - 1] ^= std::byte{1};
  };
  const auto contenders = compare_round_trips(job, messages, &spoiling);
  ASSERT_EQ(names(contenders), rows);
  const Measurement& by_hand = *contenders[2].measurement;
  contenders[2].measurement->prepare(0);
  contenders[2].measurement->sample({0, 1});
  EXPECT_TRUE(by_hand.compare(0));
  spoils = true;
  testing::internal::CaptureStderr();
  EXPECT_FALSE(by_hand.compare(0)) << "its copy is wrong";
  spoils = false;
  EXPECT_NE(testing::internal::GetCapturedStderr().find("wrong data: rank"), std::string::npos);
}

TEST_P(TwoSided, the_mpis_own_row_is_left_out_with_its_reason_once) {
  compare_round_trips(job, messages, &gpu);
  compare_windows(job, messages, &gpu);
  ASSERT_EQ(job.notes.size(), 1U);
  EXPECT_TRUE(job.notes[0].starts_with("mpi-device is left out: the MPI ")) << job.notes[0];
}

INSTANTIATE_TEST_SUITE_P(Sizes, TwoSided, testing::Values(1, 1000, 1 << 16));

}  // namespace
}  // namespace partita::bench
