// In place of everything else in this folder, in a build without CUDA.
#include <stdexcept>

#include "apps/bce/gpu/trainer.hpp"

namespace bce::gpu {
namespace {

constexpr const char* reason = "--device gpu needs a program that was built with CUDA (cmake -DPARTITA_CUDA=ON)";

}  // namespace

class Trainer::Implementation {};

std::optional<std::string> Trainer::choose_device(MPI_Comm /*world*/) {
  return reason;
}
Trainer::Trainer(MPI_Comm /*comm*/, const Problem& /*problem*/, const Samples& /*samples*/, int /*parts*/,
                 const std::string& /*nccl_path*/) {
  throw std::logic_error(reason);
}
Trainer::~Trainer() = default;
std::string Trainer::describe() const {
  return reason;
}
std::optional<std::string> Trainer::problem_with(std::string_view /*mode*/) const {
  return reason;
}
Run Trainer::run(std::string_view /*mode*/, int /*steps*/) {
  throw std::logic_error(reason);
}

}  // namespace bce::gpu
