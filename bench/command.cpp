#include "bench/command.hpp"

#include <fmt/format.h>
#include <mpi.h>
#include <partita/partita.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "apps/support/shown_command.hpp"
#include "bench/gpu/benchmarks.hpp"
#include "bench/run.hpp"
#include "bench/subjects.hpp"

namespace partita::bench {

namespace {

constexpr int ok = 0;
constexpr int failed = 1;
constexpr int wrong_options = 2;

std::string list(const std::vector<Benchmark>& known) {
  std::string text = "usage: mpirun -n 2 partita bench NAME [options]; partita bench NAME --help lists its options\n\n";
  for (const Benchmark& benchmark : known) {
    text += fmt::format("  {:<22} {}{}\n", benchmark.name, benchmark.what,
                        benchmark.unavailable.empty() ? "" : " (not in this build)");
  }
  return text;
}

const Benchmark* find(const std::string& name, const std::vector<Benchmark>& known) {
  for (const Benchmark& benchmark : known) {
    if (benchmark.name == name) return &benchmark;
  }
  return nullptr;
}

/// MPI for the time of the command, where the program has not started it. The standard names, so that a loaded drop-in
/// takes part.
class MpiSession {
 public:
  MpiSession() {
    int running = 0;
    check(PMPI_Initialized(&running), "MPI_Initialized");
    owns_ = running == 0;
    int level = MPI_THREAD_SINGLE;
    if (owns_) check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level), "MPI_Init_thread");
    check(PMPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
  }
  ~MpiSession() {
    if (owns_) MPI_Finalize();
  }
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  int rank() const { return rank_; }

 private:
  bool owns_ = false;
  int rank_ = 0;
};

/// Marking from several threads needs an MPI that allows calls from them.
void require_thread_level(const Options& options) {
  int level = MPI_THREAD_SINGLE;
  check(PMPI_Query_thread(&level), "MPI_Query_thread");
  if (options.threads > 1 && level < MPI_THREAD_MULTIPLE) {
    throw Failure("--threads {}: this MPI does not give MPI_THREAD_MULTIPLE.", options.threads);
  }
}

/// Partita for the time of a benchmark; a no-op where the drop-in has started it.
class PartitaSession {
 public:
  PartitaSession() {
    int running = 0;
    check(Partita_Initialized(&running), "Partita_Initialized");
    if (running != 0) return;
    check(Partita_Init(MPI_COMM_WORLD), "Partita_Init");
    owns_ = true;
  }
  ~PartitaSession() {
    if (owns_) Partita_Finalize();
  }
  PartitaSession(const PartitaSession&) = delete;
  PartitaSession& operator=(const PartitaSession&) = delete;

 private:
  bool owns_ = false;
};

void write(const Results& results) {
  fmt::print("{}", to_table(results));
  if (!results.options.csv_file.empty()) write_file(results.options.csv_file, to_csv(results));
  if (!results.options.json_file.empty()) write_file(results.options.json_file, to_json(results).dump() + "\n");
}

/// Whether all ranks can. Where one cannot, the results of the job say so.
bool can_use_gpus(Job& job) {
  const std::string missing = gpu::what_is_missing();
  if (job.on_both(missing.empty())) return true;
  job.note(fmt::format("rows on GPU memory are left out: {}", missing.empty() ? "another rank has no GPU" : missing));
  return false;
}

void measure_and_write(const Benchmark& benchmark, const Options& options) {
  Job job(MPI_COMM_WORLD, options, benchmark.ranks);
  job.on_gpu = benchmark.on_gpu || (benchmark.also_on_gpu && can_use_gpus(job));
  if (job.on_gpu) gpu::set_up(job.comm, options);
  const PartitaSession partita;
  Subjects subjects;
  if (benchmark.compares_subjects) subjects = make_subjects(options, job.comm);
  const Results results = run(benchmark, job, subjects);
  if (job.is_first()) write(results);
}

Options read_options(const Benchmark& benchmark, std::span<char*> arguments) {
  Options defaults;
  defaults.benchmark = benchmark.name;
  benchmark.set_defaults(defaults);
  const std::vector<std::string> words(arguments.begin(), arguments.end());
  Options options = parse_options(words, defaults,
                                  {benchmark.what, benchmark.lacks, benchmark.on_gpu || benchmark.also_on_gpu,
                                   benchmark.unavailable, benchmark.can_split, benchmark.follows_close_epochs});
  options.command = fmt::format("partita bench {} {}", benchmark.name, apps::shown_command(words));
  if (words.empty()) options.command.pop_back();
  return options;
}

/// Options are read again by every rank and answered by one.
int refuse(const MpiSession& mpi, std::string_view sentence) {
  if (mpi.rank() == 0) fmt::print(stderr, "partita bench: {}\n", sentence);
  return wrong_options;
}

/// Ends the job: the other rank may wait for this one for ever. Mostly both have come to the same end, so rank 0 speaks
/// and the other one only if it is still there after a while.
[[noreturn]] void abandon(const MpiSession& mpi, const std::string& benchmark, std::string_view sentence) {
  if (mpi.rank() != 0) std::this_thread::sleep_for(std::chrono::seconds(1));
  fmt::print(stderr, "partita bench {}: rank {}: {}\n", benchmark, mpi.rank(), sentence);
  std::fflush(nullptr);
  // MPICH's launcher may end a job before it has passed on what was said last.
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  PMPI_Abort(MPI_COMM_WORLD, failed);
  std::abort();
}

}  // namespace

int command(int argc, char** argv, const std::vector<Benchmark>& more) {
  std::vector<Benchmark> known = benchmarks();
  known.insert(known.end(), more.begin(), more.end());
  const std::span<char*> arguments(argv, static_cast<std::size_t>(argc));
  const std::string name = argc > 1 ? arguments[1] : "";
  const bool wants_list = name.empty() || name == "--help" || name == "-h";
  const Benchmark* benchmark = find(name, known);

  Options options;
  std::string help;
  std::string complaint;
  if (wants_list) {
    help = list(known);
  } else if (benchmark == nullptr) {
    complaint = fmt::format("there is no benchmark '{}'\n{}", name, list(known));
  } else {
    try {
      options = read_options(*benchmark, arguments.subspan(2));
    } catch (const HelpWanted& wanted) {
      help = wanted.text();
    } catch (const OptionError& error) {
      complaint = error.what();
    }
  }

  const MpiSession mpi;
  if (benchmark != nullptr && !benchmark->unavailable.empty() && complaint.empty() && help.empty()) {
    if (mpi.rank() == 0) fmt::print(stderr, "partita bench {}: {}\n", name, benchmark->unavailable);
    return failed;
  }
  if (!complaint.empty()) return refuse(mpi, complaint);
  if (!help.empty()) {
    if (mpi.rank() == 0) fmt::print("{}", help);
    return ok;
  }
  try {
    require_thread_level(options);
    measure_and_write(*benchmark, options);
    return ok;
  } catch (const std::exception& error) {
    abandon(mpi, name, error.what());
  }
}

}  // namespace partita::bench
