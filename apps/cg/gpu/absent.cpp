// In place of everything else in this folder, in a build without CUDA.
#include <stdexcept>

#include "apps/cg/gpu/device.hpp"

namespace cg::gpu {
namespace {

constexpr const char* reason = "--device gpu needs a program that was built with CUDA (cmake -DPARTITA_CUDA=ON)";

}  // namespace

std::optional<std::string> choose_device(MPI_Comm /*comm*/) {
  return reason;
}

std::unique_ptr<Machine> make_device(const Share& /*share*/, const std::string& /*sums*/) {
  throw std::logic_error(reason);
}

}  // namespace cg::gpu
