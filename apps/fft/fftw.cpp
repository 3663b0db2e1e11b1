#include "apps/fft/fftw.hpp"

#include <fftw3.h>

#include <stdexcept>

namespace fft {
namespace {

int sign_of(Direction direction) {
  return direction == Direction::forward ? FFTW_FORWARD : FFTW_BACKWARD;
}

fftw_complex* as_fftw(Complex* cells) {
  return reinterpret_cast<fftw_complex*>(cells);
}

/// A plan holds for memory of the alignment that it was made with, which planes differ in where FFTW knows of more
/// than a cell has.
unsigned flags_for(Complex* memory) {
  const auto alignment = [](Complex* cells) { return fftw_alignment_of(reinterpret_cast<double*>(cells)); };
  return FFTW_ESTIMATE | (alignment(memory) == alignment(memory + 1) ? 0U : FFTW_UNALIGNED);
}

fftw_plan checked(fftw_plan plan) {
  if (plan == nullptr) throw std::runtime_error("fft: FFTW has no plan for lines of these lengths.");
  return plan;
}

}  // namespace

std::optional<std::string> problem_with_fftw() {
  return std::nullopt;
}

std::optional<std::string> loaded_fftw() {
  return fftw_version;
}

PlaneTransform::PlaneTransform(std::int64_t lines, std::int64_t length, int transformed, Direction direction,
                               Complex* memory) {
  if (lines == 0 || length == 0) return;
  const int rows = static_cast<int>(lines), columns = static_cast<int>(length);
  fftw_complex* const cells = as_fftw(memory);
  if (transformed == 2) {
    plan_ = checked(fftw_plan_dft_2d(rows, columns, cells, cells, sign_of(direction), flags_for(memory)));
  } else {
    plan_ = checked(fftw_plan_many_dft(1, &columns, rows, cells, nullptr, 1, columns, cells, nullptr, 1, columns,
                                       sign_of(direction), flags_for(memory)));
  }
}

PlaneTransform::~PlaneTransform() {
  if (plan_ != nullptr) fftw_destroy_plan(plan_);
}

void PlaneTransform::run(Complex* plane) const {
  if (plan_ != nullptr) fftw_execute_dft(plan_, as_fftw(plane), as_fftw(plane));
}

void transform_whole(const Extents& size, Direction direction, Complex* cells) {
  const fftw_plan plan =
      checked(fftw_plan_dft_3d(static_cast<int>(size[0]), static_cast<int>(size[1]), static_cast<int>(size[2]),
                               as_fftw(cells), as_fftw(cells), sign_of(direction), FFTW_ESTIMATE));
  fftw_execute(plan);
  fftw_destroy_plan(plan);
}

}  // namespace fft
