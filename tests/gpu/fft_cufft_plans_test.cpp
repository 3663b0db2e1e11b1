// cuFFT's plans share one work area. With a stand-in for cuFFT (fake_cufft.cpp), so without a GPU.
#include <gtest/gtest.h>

#include <stdexcept>

#include "apps/fft/gpu/cufft.hpp"
#include "apps/support/shared_library.hpp"
#include "fake_cufft.hpp"

namespace fft::gpu {
namespace {

class CufftPlansTest : public testing::Test {
 protected:
  CufftPlansTest() {
    partita::apps::SharedLibrary("the test", {PARTITEST_FAKE_CUFFT}).take("fake_cufft", of_fake_);
    fake() = {};
  }
  FakeCufft& fake() const { return *of_fake_(); }

  CufftLibrary library_{PARTITEST_FAKE_CUFFT};

 private:
  decltype(fake_cufft)* of_fake_ = nullptr;
};

constexpr CufftPlans::Planes lines{3, 4, 5, 1}, planes{2, 10, 7, 2}, nothing{0, 4, 5, 1};

TEST_F(CufftPlansTest, share_an_area_of_the_size_of_the_largest) {
  CufftPlans plans(library_, nullptr);
  EXPECT_EQ(plans.work_bytes(), 0U);
  for (const auto& each : {lines, planes, lines, nothing}) plans.prepare(each);
  EXPECT_EQ(plans.work_bytes(), 140U);
  ASSERT_EQ(fake().plans.size(), 2U);
  int area = 0;
  plans.work_in(&area);
  for (const FakePlan& plan : fake().plans) {
    EXPECT_TRUE(plan.made);
    EXPECT_FALSE(plan.allocates);
    EXPECT_EQ(plan.area, &area);
  }
}

TEST_F(CufftPlansTest, are_made_before_they_are_used) {
  CufftPlans plans(library_, nullptr);
  plans.prepare(lines);
  double2 cells{};
  plans.transform(lines, Direction::forward, &cells);
  plans.transform(nothing, Direction::forward, &cells);
  EXPECT_THROW(plans.transform(planes, Direction::forward, &cells), std::out_of_range);
  ASSERT_EQ(fake().plans.size(), 1U);
  EXPECT_EQ(fake().plans.front().transforms, 1);
}

TEST_F(CufftPlansTest, end_with_their_owner) {
  {
    CufftPlans plans(library_, nullptr);
    plans.prepare(lines);
    plans.prepare(planes);
  }
  EXPECT_EQ(fake().destroyed, 2);
}

}  // namespace
}  // namespace fft::gpu
