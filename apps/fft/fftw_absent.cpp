// In place of fftw.cpp, in a build without FFTW.
#include <stdexcept>

#include "apps/fft/fftw.hpp"

namespace fft {
namespace {

constexpr const char* reason =
    "--device cpu needs a program that was built with FFTW 3 (Debian's libfftw3-dev; CMake's PARTITA_FFTW)";

}  // namespace

std::optional<std::string> problem_with_fftw() {
  return reason;
}

std::optional<std::string> loaded_fftw() {
  return std::nullopt;
}

PlaneTransform::PlaneTransform(std::int64_t /*lines*/, std::int64_t /*length*/, int /*transformed*/,
                               Direction /*direction*/, Complex* /*memory*/) {
  throw std::logic_error(reason);
}
PlaneTransform::~PlaneTransform() {}  // NOLINT(performance-trivially-destructible): the other one is not
void PlaneTransform::run(Complex* /*plane*/) const {}

void transform_whole(const Extents& /*size*/, Direction /*direction*/, Complex* /*cells*/) {
  throw std::logic_error(reason);
}

}  // namespace fft
