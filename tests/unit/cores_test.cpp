#include "core/cores.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>
#include <vector>

namespace partita {
namespace {

CoreShare on(std::initializer_list<int> cores, CpuQuota quota = {}) {
  CoreShare share{{}, quota};
  for (const int core : cores) share.mask[static_cast<std::size_t>(core / 64)] |= std::uint64_t{1} << (core % 64);
  return share;
}

int together(const std::vector<CoreShare>& shares) {
  return cores_together(shares);
}

TEST(Cores, of_ranks_that_are_bound_to_different_ones_add_up) {
  EXPECT_EQ(4, together({on({0, 1}), on({2, 3})}));
  EXPECT_EQ(3, together({on({0, 1}), on({1, 70})}));
}

TEST(Cores, of_ranks_in_one_mask_count_once) {
  EXPECT_EQ(1, together({on({5}), on({5})}));
  EXPECT_EQ(2, together({on({0, 1}), on({0, 1}), on({0, 1}), on({0, 1})}));
}

TEST(Cores, are_no_more_than_the_quota_of_their_group) {
  EXPECT_EQ(2, together({on({0, 1, 2, 3}, {2.5, 7}), on({0, 1, 2, 3}, {2.5, 7})}));
  EXPECT_EQ(1, together({on({0, 1}, {0.5, 7}), on({0, 1}, {0.5, 7})}));
}

TEST(Cores, of_groups_with_quotas_of_their_own_add_up) {
  EXPECT_EQ(3, together({on({0, 1, 2, 3}, {1.5, 7}), on({0, 1, 2, 3}, {1.5, 8})}));
  EXPECT_EQ(4, together({on({0, 1, 2, 3}, {1, 7}), on({0, 1, 2, 3})}));
}

TEST(Cores, of_this_process_are_some) {
  const CoreShare own = own_core_share();
  EXPECT_GE(cores_together({&own, 1}), 1);
}

TEST(CpuMax, is_quota_by_period) {
  EXPECT_EQ(0.5, parse_cpu_max("50000 100000\n"));
  EXPECT_EQ(2, parse_cpu_max("200000 100000"));
}

TEST(CpuMax, without_a_number_is_no_limit) {
  for (const char* text : {"max 100000\n", "-1 100000", "", " ", "100000", "soon 1", "1 0"}) {
    EXPECT_TRUE(std::isinf(parse_cpu_max(text))) << text;
  }
}

class Quota : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove_all(root_); }
  void write(const std::string& file, const std::string& text) {
    std::filesystem::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  std::filesystem::path root_ = testing::TempDir() + "partita_cores_" + std::to_string(getpid());
};

TEST_F(Quota, is_the_least_on_the_way_up) {
  write("job/cpu.max", "150000 100000\n");
  write("job/step/cpu.max", "max 100000\n");
  write("cpu.max", "400000 100000\n");
  EXPECT_EQ(1.5, quota_of("0::/job/step\n", root_).cores);
  EXPECT_EQ(4, quota_of("0::/other\n", root_).cores);
  EXPECT_EQ(quota_of("0::/job/step\n", root_).group, quota_of("0::/job/other\n", root_).group);
}

TEST_F(Quota, is_read_in_version_1_too) {
  write("cpu,cpuacct/docker/cpu.cfs_quota_us", "200000\n");
  write("cpu,cpuacct/docker/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(2, quota_of("4:memory:/docker\n3:cpu,cpuacct:/docker\n0::/\n", root_).cores);
}

TEST_F(Quota, is_none_where_nothing_is_said) {
  EXPECT_TRUE(std::isinf(quota_of("0::/a/b\n", root_).cores));
  EXPECT_TRUE(std::isinf(quota_of("nonsense", root_).cores));
}

}  // namespace
}  // namespace partita
