// The program partita: run it under mpirun or srun like any MPI program.
#include <fmt/format.h>
#include <mpi.h>

#include <array>
#include <exception>
#include <string_view>

#include "apps/support/revision.hpp"
#include "program/command.hpp"
#include "program/end_job.hpp"
#ifdef PARTITA_HAVE_BENCH
#include "bench/command.hpp"
#include "bench/report.hpp"
#include "bench/tune/command.hpp"
#include "program/fig10.hpp"
#include "program/fig8.hpp"
#include "program/life_steps.hpp"
#endif

namespace partita::program {
namespace {

#ifdef PARTITA_HAVE_BENCH
int bench_command(int argc, char** argv) {
  return bench::command(
      argc, argv,
      {fig8_benchmark(), fig10_benchmark(), fig11_benchmark(), queue_fig6_benchmark(), queue_fig8_benchmark()});
}
#endif

constexpr std::array commands{
    Command{"run", "APP [options]", "runs an app", run_command},
#ifdef PARTITA_HAVE_BENCH
    Command{"bench", "NAME [options]", "measures", bench_command},
    Command{"tune", "[options]", "measures which algorithm moves each collective fastest here, for PARTITA_TUNING",
            bench::tune::command},
    Command{"report", "FILES [options]", "draws, summarises and compares what bench --json wrote", bench::report},
#endif
    Command{"info", "", "what this job has, and which link each pair of ranks uses and why", info_command},
};

int call(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--version") {
    say(fmt::format("partita {} (revision {})\n", PARTITA_VERSION, apps::revision()));
    return 0;
  }
  return dispatch("partita", "partita: partitioned MPI communication. Usage: mpirun -n RANKS partita COMMAND", commands,
                  argc, argv);
}

}  // namespace
}  // namespace partita::program

int main(int argc, char** argv) {
  int level = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  int code = 1;
  try {
    code = partita::program::call(argc, argv);
  } catch (const std::exception& error) {
    partita::program::end_job(error);
  }
  MPI_Finalize();
  return code;
}
