#include "apps/fft/run.hpp"

#include <fmt/format.h>

#include "apps/support/clock.hpp"
#include "apps/support/progress.hpp"

namespace fft {
namespace {

using partita::apps::Clock;
using partita::apps::Progress;
using partita::apps::seconds_since;

}  // namespace

Outcome run(MPI_Comm comm, const Problem& problem, std::string_view name, Spacing spacing, const WorkMaker& make_work,
            const ExchangeMaker& make_exchange, const Runs& runs) {
  Outcome outcome;
  MPI_Barrier(comm);
  auto begin = Clock::now();
  Transform transform(comm, problem, spacing, make_work, make_exchange);
  outcome.setup_s = seconds_since(begin);
  const Route& first = transform.hops().first();
  const Route& last = transform.hops().last();
  transform.work().load(input_of(problem.size, first.before, first.from.order));

  // Connections and first touches are not what the exchanges differ in.
  transform.forward();
  if (runs.verify) {
    outcome.checked = true;
    outcome.spectrum_error = spectrum_error(comm, problem.size, runs.against, first.before, last.after, last.to.order,
                                            transform.work().cells(last.after.cells()));
  }
  transform.inverse();
  transform.exchange_s();

  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  Progress progress(rank == 0);
  MPI_Barrier(comm);
  begin = Clock::now();
  for (outcome.iterations = 0; outcome.iterations < runs.iterations; ++outcome.iterations) {
    transform.forward();
    transform.inverse();
    if (progress.due()) Progress::say(name, fmt::format("iteration {}", outcome.iterations + 1));
  }
  MPI_Barrier(comm);
  outcome.time_s = seconds_since(begin);
  outcome.exchange_s = transform.exchange_s();
  outcome.links = transform.links();
  if (runs.verify) {
    outcome.input_error =
        input_error(comm, problem.size, first.before, first.from.order, transform.work().cells(first.before.cells()));
  }
  return outcome;
}

}  // namespace fft
