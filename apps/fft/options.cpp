#include "apps/fft/options.hpp"

#include <CLI/CLI.hpp>

#include "apps/fft/modes.hpp"
#include "apps/support/command_line.hpp"

namespace fft {
namespace {

constexpr int most_cells_a_side = 1 << 20;
constexpr int most_iterations = 1'000'000'000;
constexpr int most_slices = 4096;

std::vector<std::string> names_with_all() {
  std::vector<std::string> names{exchange_names.begin(), exchange_names.end()};
  names.emplace_back("all");
  return names;
}

std::vector<std::string> chosen(const std::string& exchange, bool staged) {
  std::vector<std::string> names{exchange};
  if (exchange == "all") names.assign(exchange_names.begin(), exchange_names.end());
  if (!staged) return names;
  std::vector<std::string> pairs;
  for (const std::string& name : names) pairs.insert(pairs.end(), {name + std::string(staged_suffix), name});
  return pairs;
}

}  // namespace

std::variant<Options, Exit> read_options(int argc, const char* const* argv) {
  Options options;
  std::vector<std::int64_t> size{options.problem.size.begin(), options.problem.size.end()};
  std::string exchange = "all", device = "cpu", decomposition = "slab";
  bool no_verify = false, staged = false;

  CLI::App app(
      "Transforms a grid of complex numbers by Fourier, forward and inverse, whose lines the ranks transform one axis "
      "after the other, and compares the ways in which they exchange the cells between.",
      "partita run fft");
  partita::apps::add_device(app, device, "Where the cells lie and are transformed: by FFTW, or by cuFFT");
  app.add_option("--size", size, "Cells along x, y and z; any numbers, also fewer than ranks")
      ->expected(3)
      ->check(CLI::Range(1, most_cells_a_side))
      ->capture_default_str();
  app.add_option("--decomposition", decomposition,
                 "slab: ranks have planes, and exchange once a transform, all with all; pencil: they have lines, and "
                 "exchange twice, within rows and within columns of the ranks")
      ->check(CLI::IsMember(std::vector<std::string>{decomposition_names.begin(), decomposition_names.end()}))
      ->capture_default_str();
  app.add_option(
         "--exchange", exchange,
         "alltoall: blocks padded to one size; alltoallv: of their sizes; partitioned: in slices, each of which "
         "travels while the next ones are transformed; all compares them")
      ->check(CLI::IsMember(names_with_all()))
      ->capture_default_str();
  app.add_flag("--staged", staged,
               "Run each exchange without peer memory, too, as its yardstick NAME-staged: its collectives on a "
               "communicator that Partita does not know, its slices over link mpi; a note says where the two cannot "
               "differ");
  app.add_option("--slices", options.problem.slices,
                 "Into how many slices, at most, a rank's cells are cut before an exchange: the partitions; the other "
                 "exchanges wait for all of them")
      ->check(CLI::Range(1, most_slices))
      ->capture_default_str();
  app.add_option("--iterations", options.iterations, "Forward and inverse transforms that are timed; one comes before")
      ->check(CLI::Range(1, most_iterations))
      ->capture_default_str();
  partita::apps::add_repeat(app, options.repeat, "exchange", "each one's run of median time");
  partita::apps::add_order_seed(app, options.order_seed);
  app.add_option("--cufft", options.cufft,
                 "The path of cuFFT, for --device gpu; without it $CUFFT_LIBRARY, else libcufft.so.12 or .11 where the "
                 "loader looks");
  app.add_option("--output", options.output, "PREFIX of the file PREFIX.json")
      ->type_name("PREFIX")
      ->check(partita::apps::problem_with_prefix)
      ->capture_default_str();
  app.add_flag("--json", options.json, "Write every run to PREFIX.json");
  app.add_flag("--no-verify", no_verify,
               "Compare neither the spectrum with the right one nor the inverse transform with the input");
  if (auto exit = partita::apps::parse(app, "fft", argc, argv)) return *std::move(exit);

  options.gpu = device == "gpu";
  if (!options.gpu && app.count("--cufft") > 0) return partita::apps::refused("fft", "--cufft needs --device gpu");
  options.verify = !no_verify;
  options.problem.size = {size[0], size[1], size[2]};
  options.problem.decomposition = decomposition == "slab" ? Decomposition::slab : Decomposition::pencil;
  options.exchanges = chosen(exchange, staged);
  return options;
}

}  // namespace fft
