#include "bench/tune/command.hpp"

#include <fmt/format.h>
#include <mpi.h>
#include <partita/partita.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "apps/support/gpu_origin.hpp"
#include "apps/support/origin.hpp"
#include "apps/support/revision.hpp"
#include "bench/clock.hpp"
#include "bench/failure.hpp"
#include "bench/gpu/benchmarks.hpp"
#include "bench/owned.hpp"
#include "bench/results.hpp"
#include "bench/tune/contest.hpp"
#include "bench/tune/decision.hpp"
#include "bench/tune/options.hpp"
#include "collective/tuning_file.hpp"

namespace partita::bench::tune {

namespace {

using collective::MeasuredRule;
using collective::MovedBy;
using collective::Rule;

constexpr int ok = 0;
constexpr int failed = 1;
constexpr int wrong_options = 2;

int rank_in_world() {
  int rank = 0;
  check(PMPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
  return rank;
}

/// By one rank; all have come to the same.
int end_with(int status, std::string_view text) {
  if (rank_in_world() == 0) fmt::print(status == ok ? stdout : stderr, "{}", text);
  return status;
}

/// Partita on a communicator whose errors come back as codes.
class Session {
 public:
  Session() : comm_(duplicate(MPI_COMM_WORLD)) {
    check(Partita_Init(MPI_COMM_WORLD), "Partita_Init");
    check(PMPI_Comm_set_errhandler(comm_.get(), MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(Partita_Comm_register(comm_.get()), "Partita_Comm_register");
    check(PMPI_Comm_size(comm_.get(), &ranks_), "MPI_Comm_size");
  }
  ~Session() { Partita_Finalize(); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  MPI_Comm comm() const { return comm_.get(); }
  int ranks() const { return ranks_; }

 private:
  OwnedComm comm_;
  int ranks_ = 1;
};

/// Better before the measurements than behind them. What is there stays until then, and nothing stays that was not
/// there: an empty file has no rules, which PARTITA_TUNING refuses.
void check_file(const std::string& file) {
  if (file.empty()) return;
  const bool was_there = std::filesystem::exists(file);
  std::FILE* const out = std::fopen(file.c_str(), "a");
  if (out == nullptr) throw Failure("{} cannot be written: {}", file, std::strerror(errno));
  std::fclose(out);
  if (!was_there) std::filesystem::remove(file);
}

/// The rules of one collective, from the smallest size on: the first holds for all that is smaller, too.
void add_rules(const Session& session, const TunedCollective& collective, MovedBy by, const Memory& memory,
               const TuneOptions& options, std::vector<MeasuredRule>& rules) {
  bool is_first = true;
  for (const std::int64_t size : sizes_of(options)) {
    const Outcome outcome = hold({collective, by, size}, session.comm(), memory, options);
    if (rank_in_world() == 0) {
      for (const std::string& failure : outcome.failures) fmt::print(stderr, "partita tune: left out: {}\n", failure);
    }
    if (outcome.medians_us.empty()) continue;
    Rule rule{collective.kind, by, session.ranks(), is_first ? 0 : size, ""};
    const Rule* built_in = collective::built_in_tuning().find({rule.kind, by, rule.ranks, size});
    rule.algorithm = decide(outcome.medians_us, built_in == nullptr ? "" : built_in->algorithm);
    rules.push_back({rule, outcome.medians_us});
    is_first = false;
  }
}

std::vector<MeasuredRule> measure(const Session& session, const TuneOptions& options) {
  const Memory& memory = options.on_gpu ? gpu_memory() : host_memory();
  std::vector<MeasuredRule> rules;
  for (const TunedCollective& collective : tuned_collectives()) {
    if (std::ranges::find(options.collectives, name_of(collective.kind)) == options.collectives.end()) continue;
    add_rules(session, collective, MovedBy::host, memory, options, rules);
    const bool in_kernels = options.on_gpu && session.ranks() <= collective::most_ranks_of(MovedBy::device) &&
                            !collective::algorithm_names(collective.kind, MovedBy::device, session.ranks()).empty();
    if (in_kernels) add_rules(session, collective, MovedBy::device, memory, options, rules);
  }
  return rules;
}

std::vector<std::string> notes_of(const Session& session, const TuneOptions& options, const std::string& date) {
  apps::Machine machine = apps::describe_machine();
  if (options.on_gpu) apps::describe_gpu(machine);
  const char* link = std::getenv("PARTITA_LINK");
  std::vector<std::string> notes = {
      fmt::format("date: {}", date),
      fmt::format("revision: {}", apps::revision()),
      fmt::format("machine: {}, {} cores", machine.cpu.empty() ? "unknown processor" : machine.cpu, machine.cores),
      fmt::format("mpi: {}", machine.mpi),
      fmt::format("ranks: {}", session.ranks()),
      fmt::format("memory: {}", options.on_gpu ? gpu_memory().name : host_memory().name),
      fmt::format("link: {}", link == nullptr ? "auto" : link),
      fmt::format("command: {}", options.command),
      "medians_us: microseconds of a collective and a barrier behind it, on the slowest rank",
  };
  if (!machine.gpu.empty()) notes.insert(notes.begin() + 3, fmt::format("gpu: {}", machine.gpu));
  return notes;
}

void write(const std::string& text, const TuneOptions& options, std::size_t rules) {
  if (options.file.empty()) {
    fmt::print("{}", text);
  } else {
    write_file(options.file, text);
    fmt::print("{} has {} rules; PARTITA_TUNING={} takes them\n", options.file, rules, options.file);
  }
}

void tune(const TuneOptions& options) {
  unsetenv("PARTITA_TUNING");  // each algorithm is asked for by its name
  if (rank_in_world() == 0) check_file(options.file);
  if (options.on_gpu) gpu::set_up(MPI_COMM_WORLD, Options{});
  const Session session;
  const std::string date = apps::utc_now();
  const std::vector<MeasuredRule> rules = measure(session, options);
  if (rank_in_world() == 0) {
    write(collective::write_tuning(notes_of(session, options, date), rules), options, rules.size());
  }
}

}  // namespace

int command(int argc, char** argv) {
  TuneOptions options;
  try {
    const std::vector<std::string> words(argv + 1, argv + argc);
    options = parse_tune_options(words);
  } catch (const HelpWanted& wanted) {
    return end_with(ok, wanted.text());
  } catch (const OptionError& error) {
    return end_with(wrong_options, fmt::format("partita tune: {}\n", error.what()));
  }
  int ranks = 1;
  check(PMPI_Comm_size(MPI_COMM_WORLD, &ranks), "MPI_Comm_size");
  if (ranks < 2) {
    return end_with(failed,
                    "partita tune: one rank has nothing to choose; start it with mpirun -n and as many ranks as "
                    "the communicators of your program have.\n");
  }
  tune(options);
  return ok;
}

}  // namespace partita::bench::tune
