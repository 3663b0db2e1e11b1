// In place of everything else in this folder, in a build without CUDA.
#include <stdexcept>

#include "apps/fft/gpu/device.hpp"

namespace fft::gpu {
namespace {

constexpr const char* reason = "--device gpu needs a program that was built with CUDA (cmake -DPARTITA_CUDA=ON)";

}  // namespace

std::optional<std::string> choose_device(MPI_Comm /*comm*/, const std::string& /*path*/) {
  return reason;
}

std::string describe_device(MPI_Comm /*comm*/) {
  throw std::logic_error(reason);
}

std::optional<Shortage> find_shortage(MPI_Comm /*comm*/, const std::string& /*path*/,
                                      const std::vector<Hop>& /*hops*/) {
  throw std::logic_error(reason);
}

WorkMaker work_maker(const std::string& /*path*/) {
  throw std::logic_error(reason);
}

}  // namespace fft::gpu
