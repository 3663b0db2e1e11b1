// Transforms by FFTW 3, of a build that has it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "apps/fft/problem.hpp"

struct fftw_plan_s;  // FFTW's

namespace fft {

/// Why there are no transforms on the host; nothing where there are.
std::optional<std::string> problem_with_fftw();
/// The FFTW that this process has loaded, as it calls itself; nothing in a build without it.
std::optional<std::string> loaded_fftw();

/// Transforms planes of equal size in place, none of which is scaled. By the same steps for each of them, whatever
/// planes are transformed before: by an estimate (FFTW_ESTIMATE), not by what was fastest in a trial.
class PlaneTransform {
 public:
  /// A plane has `lines` x `length` cells, `length` the fastest. transformed: 1, each line by itself; 2, both axes. All
  /// planes lie in the memory at `memory`, which is left as it is. A plane may be empty.
  PlaneTransform(std::int64_t lines, std::int64_t length, int transformed, Direction direction, Complex* memory);
  ~PlaneTransform();
  PlaneTransform(const PlaneTransform&) = delete;
  PlaneTransform& operator=(const PlaneTransform&) = delete;

  void run(Complex* plane) const;

 private:
  [[maybe_unused]] fftw_plan_s* plan_ = nullptr;  // stays nothing in a build without FFTW
};

/// Transforms the whole grid in place, z fastest, by one three-dimensional plan.
void transform_whole(const Extents& size, Direction direction, Complex* cells);

}  // namespace fft
