// In place of everything else in this folder, in a build without CUDA.
#include <stdexcept>

#include "apps/jacobi2d/gpu/solver.hpp"

namespace jacobi2d::gpu {
namespace {

constexpr const char* reason = "--device gpu needs a program that was built with CUDA (cmake -DPARTITA_CUDA=ON)";

}  // namespace

class Solver::Implementation {};

std::optional<std::string> Solver::choose_device(MPI_Comm /*world*/) {
  return reason;
}
Solver::Solver(Plate& /*plate*/, const std::string& /*nccl_path*/) {
  throw std::logic_error(reason);
}
Solver::~Solver() = default;
std::string Solver::describe() const {
  return reason;
}
std::optional<std::string> Solver::problem_with(std::string_view /*mode*/) const {
  return reason;
}
Outcome Solver::solve(std::string_view /*mode*/, const Limits& /*limits*/) {
  throw std::logic_error(reason);
}

class Reference::Implementation {};

Reference::Reference(const Division& /*division*/, const Problem& /*problem*/) {
  throw std::logic_error(reason);
}
Reference::~Reference() = default;
const Field& Reference::after(int /*iterations*/) {
  throw std::logic_error(reason);
}

}  // namespace jacobi2d::gpu
