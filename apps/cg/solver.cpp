#include "apps/cg/solver.hpp"

#include <fmt/format.h>

#include <cmath>
#include <functional>

#include "apps/cg/host_work.hpp"
#include "apps/support/clock.hpp"
#include "apps/support/progress.hpp"

namespace cg {
namespace {

using partita::apps::Clock;
using partita::apps::Progress;
using partita::apps::seconds_since;

/// What a rank tells the others where there are none.
class Alone final : public Exchange {
 public:
  explicit Alone(Numbers& numbers) : numbers_(numbers) {}
  void halo() override {}
  void sum(Product product) override {
    const auto which = static_cast<std::size_t>(product);
    numbers_.all[which] = numbers_.own[which];
  }
  void finish() override {}

 private:
  Numbers& numbers_;
};

/// A stream ends only where the exchange has been waited for, and what went wrong in a graph tells when the stream has
/// ended.
double residual_of(Work& work, Exchange& exchange) {
  exchange.finish();
  work.finish();
  exchange.finish();
  return std::sqrt(work.residual_square());
}

/// `start` was run. Batches until the residual is small enough, or there have been enough; `first` is that of x = 0.
void run_batches(Work& work, Exchange& exchange, const std::function<void()>& batch, const Limits& limits, double first,
                 Progress& progress, std::string_view name, Outcome& outcome) {
  outcome.converged = first == 0;
  while (!outcome.converged && outcome.iterations < limits.iterations) {
    batch();
    outcome.iterations += limits.batch;
    outcome.residuals.push_back(residual_of(work, exchange) / first);
    outcome.converged = outcome.residuals.back() <= limits.tolerance;
    if (progress.due()) {
      Progress::say(name, fmt::format("iteration {}, residual {:.2e}", outcome.iterations, outcome.residuals.back()));
    }
  }
}

}  // namespace

partita::apps::Division divide(const Problem& problem, int ranks) {
  return {problem.rows, problem.columns, ranks, 1};
}

Share share_of(MPI_Comm comm, const Problem& problem) {
  int rank = 0, ranks = 1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  const partita::apps::Block block = partita::apps::block_of(divide(problem, ranks), rank);
  return {comm,
          problem,
          block.first_row,
          block.rows,
          {rank > 0 ? rank - 1 : MPI_PROC_NULL, rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL}};
}

Outcome run(Machine& machine, const Share& share, std::string_view mode, const Limits& limits) {
  int rank = 0;
  MPI_Comm_rank(share.comm, &rank);
  Outcome outcome;
  Work& work = machine.work();
  MPI_Barrier(share.comm);
  auto begin = Clock::now();
  const std::unique_ptr<Exchange> exchange = machine.make_exchange(mode);
  start(work, *exchange);
  const double first = residual_of(work, *exchange);
  const std::function<void()> batch = machine.make_batch(mode, *exchange, limits.batch);
  outcome.setup_s = seconds_since(begin);
  outcome.residuals.push_back(first > 0 ? 1.0 : 0.0);

  Progress progress(rank == 0);
  MPI_Barrier(share.comm);
  begin = Clock::now();
  run_batches(work, *exchange, batch, limits, first, progress, mode, outcome);
  MPI_Barrier(share.comm);
  outcome.time_s = seconds_since(begin);
  outcome.solution = work.solution();
  return outcome;
}

Outcome run_alone(const Problem& problem, const Limits& limits) {
  Outcome outcome;
  HostWork work(problem, 0, problem.rows);
  Alone exchange(*work.vectors().numbers);
  start(work, exchange);
  const double first = residual_of(work, exchange);
  outcome.residuals.push_back(first > 0 ? 1.0 : 0.0);
  Progress progress(true);
  run_batches(work, exchange, one_by_one(work, exchange, limits.batch), limits, first, progress, "one rank", outcome);
  outcome.solution = work.solution();
  return outcome;
}

}  // namespace cg
