// partita run APP: the apps.
#include <array>

#include "apps/bce/bce.hpp"
#include "apps/cg/cg.hpp"
#include "apps/fft/fft.hpp"
#include "apps/jacobi2d/jacobi2d.hpp"
#include "apps/life/life.hpp"
#include "program/command.hpp"

namespace partita::program {
namespace {

constexpr std::array apps{
    Command{"bce", "[options]", "a training by binary cross-entropy, the gradient summed in three ways", bce::command},
    Command{"cg", "[options]", "Poisson's equation by conjugate gradients, in streams and graphs on GPUs", cg::command},
    Command{"fft", "[options]", "Fourier transforms of a three-dimensional grid, the cells exchanged in three ways",
            fft::command},
    Command{"jacobi2d", "[options]", "Laplace's equation on a plate, the halo exchanged in three ways",
            jacobi2d::command},
    Command{"life", "[options]", "the Game of Life, the halo exchanged by plain MPI, in queues and in partitions",
            life::command},
};

}  // namespace

int run_command(int argc, char** argv) {
  return dispatch("partita run", "partita run APP: whole applications, each in plain MPI and with Partita.", apps, argc,
                  argv);
}

}  // namespace partita::program
