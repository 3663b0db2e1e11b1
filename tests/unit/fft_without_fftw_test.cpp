// A build without FFTW says what it lacks.
#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "apps/fft/fftw.hpp"

namespace fft {
namespace {

TEST(FftWithoutFftw, says_what_is_missing_and_transforms_nothing) {
  const auto problem = problem_with_fftw();
  ASSERT_TRUE(problem.has_value());
  EXPECT_NE(problem->find("libfftw3-dev"), std::string::npos) << *problem;
  EXPECT_FALSE(loaded_fftw().has_value());
  std::vector<Complex> cells(8);
  EXPECT_THROW(PlaneTransform(2, 4, 1, Direction::forward, cells.data()), std::logic_error);
  EXPECT_THROW(transform_whole({2, 2, 2}, Direction::forward, cells.data()), std::logic_error);
}

}  // namespace
}  // namespace fft
