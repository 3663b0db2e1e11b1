// In place of everything else in this folder, in a build without CUDA.
#include <stdexcept>

#include "apps/life/gpu/player.hpp"

namespace life::gpu {
namespace {

constexpr const char* reason = "--device gpu needs a program that was built with CUDA (cmake -DPARTITA_CUDA=ON)";

}  // namespace

class Player::Implementation {};

std::optional<std::string> Player::choose_device(MPI_Comm /*world*/) {
  return reason;
}
Player::Player(MPI_Comm /*comm*/, const partita::halo_shape& /*shape*/) {
  throw std::logic_error(reason);
}
Player::~Player() = default;
std::string Player::describe() const {
  return reason;
}
std::optional<std::string> Player::problem_with(std::string_view /*mode*/) const {
  return reason;
}
Outcome Player::play(std::string_view /*mode*/, const Game& /*game*/, const partita::apps::Block& /*block*/,
                     int /*generations*/) {
  throw std::logic_error(reason);
}
void Player::copy_last(const Field& /*to*/) const {
  throw std::logic_error(reason);
}

}  // namespace life::gpu
