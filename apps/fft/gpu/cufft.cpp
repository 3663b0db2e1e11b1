#include "apps/fft/gpu/cufft.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "apps/support/shared_library.hpp"

namespace fft::gpu {
namespace {

constexpr int success = 0;
constexpr int complex_doubles = 0x69;  // CUFFT_Z2Z
constexpr int to_spectrum = -1, from_spectrum = 1;

}  // namespace

CufftLibrary::CufftLibrary(const std::string& path) {
  const partita::apps::SharedLibrary library(
      "--device gpu needs cuFFT (--cufft or CUFFT_LIBRARY gives the path of the library)",
      partita::apps::libraries_to_try(path, "CUFFT_LIBRARY", {"libcufft.so.12", "libcufft.so.11", "libcufft.so"}));
  library.take("cufftCreate", create);
  library.take("cufftMakePlanMany64", make_plan_many);
  library.take("cufftSetAutoAllocation", set_auto_allocation);
  library.take("cufftSetWorkArea", set_work_area);
  library.take("cufftSetStream", set_stream);
  library.take("cufftExecZ2Z", exec);
  library.take("cufftDestroy", destroy);
}

void CufftLibrary::check(int code, const char* call) {
  if (code != success) throw std::runtime_error(fmt::format("{} failed: cufftResult {}.", call, code));
}

CufftPlans::~CufftPlans() {
  for (const auto& [planes, plan] : plans_) library_.destroy(plan);
}

void CufftPlans::transform(const Planes& planes, Direction direction, double2* cells) {
  if (planes.cells() == 0) return;
  const int sign = direction == Direction::forward ? to_spectrum : from_spectrum;
  CufftLibrary::check(library_.exec(plans_.at(planes), cells, cells, sign), "cufftExecZ2Z");
}

void CufftPlans::prepare(const Planes& planes) {
  if (planes.cells() == 0 || plans_.contains(planes)) return;
  const bool whole_planes = planes.transformed == 2;
  std::array<long long, 2> extents{planes.lines, planes.length};
  long long* const transformed = whole_planes ? extents.data() : &extents[1];
  const long long apart = whole_planes ? planes.lines * planes.length : planes.length;
  const long long batch = whole_planes ? planes.planes : planes.planes * planes.lines;
  int plan = 0;
  CufftLibrary::check(library_.create(&plan), "cufftCreate");
  plans_.emplace(planes, plan);
  CufftLibrary::check(library_.set_auto_allocation(plan, 0), "cufftSetAutoAllocation");
  std::size_t work_bytes = 0;
  CufftLibrary::check(library_.make_plan_many(plan, planes.transformed, transformed, nullptr, 1, apart, nullptr, 1,
                                              apart, complex_doubles, batch, &work_bytes),
                      "cufftMakePlanMany64");
  CufftLibrary::check(library_.set_stream(plan, stream_), "cufftSetStream");
  work_bytes_ = std::max(work_bytes_, work_bytes);
}

void CufftPlans::work_in(void* area) {
  for (const auto& [planes, plan] : plans_) {
    CufftLibrary::check(library_.set_work_area(plan, area), "cufftSetWorkArea");
  }
}

}  // namespace fft::gpu
