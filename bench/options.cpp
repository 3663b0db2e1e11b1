#include "bench/options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <map>
#include <optional>
#include <tuple>

#include "link/names.hpp"

namespace partita::bench {

std::string_view name(Memory memory) {
  return memory == Memory::plain ? "plain" : "alloc";
}

std::string PeerLibrary::shown(const std::string& file) const {
  std::string text = file;
  for (const auto& [key, value] : info) text += fmt::format("?{}={}", key, value);
  return text;
}

PeerLibrary parse_peer_library(const std::string& peer) {
  constexpr std::string_view library = "library:";
  const auto refuse = [&] {
    throw OptionError(
        fmt::format("--peer {} is unknown: expected native, isend, library:PATH or library:PATH?KEY=VALUE with info "
                    "keys for its requests",
                    peer));
  };
  if (!peer.starts_with(library)) refuse();
  const std::size_t path_end = std::min(peer.find('?'), peer.size());
  PeerLibrary found{peer.substr(library.size(), path_end - library.size()), {}};
  if (found.path.empty()) refuse();
  for (std::size_t begin = path_end; begin < peer.size();) {
    const std::size_t end = std::min(peer.find('?', begin + 1), peer.size());
    const std::string pair = peer.substr(begin + 1, end - begin - 1);
    const std::size_t equals = pair.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == pair.size()) refuse();
    found.info.emplace_back(pair.substr(0, equals), pair.substr(equals + 1));
    begin = end;
  }
  return found;
}

namespace {

/// A persistent send counts bytes in an int.
constexpr std::int64_t largest_message = std::numeric_limits<int>::max();
constexpr int most_partitions = 65536;
constexpr int most_threads = 1024;

/// A size in bytes, with K, M or G for powers of 1024.
std::optional<std::int64_t> parse_size(std::string_view text) {
  std::int64_t size = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  if (error != std::errc{} || size < 0 || size > largest_message) return std::nullopt;
  const std::string_view unit(rest, static_cast<std::size_t>(text.data() + text.size() - rest));
  static const std::map<std::string_view, int> shifts{{"", 0}, {"K", 10}, {"M", 20}, {"G", 30}};
  const auto shift = shifts.find(unit);
  if (shift == shifts.end()) return std::nullopt;
  return size << shift->second;
}

}  // namespace

std::pair<std::int64_t, std::int64_t> parse_sizes(const std::string& text, std::int64_t least) {
  const std::size_t colon = text.find(':');
  const bool both = colon != std::string::npos;
  const auto min = both ? parse_size(text.substr(0, colon)) : std::optional<std::int64_t>(least);
  const auto max = parse_size(both ? text.substr(colon + 1) : text);
  if (!min || !max || *min < 1 || *max < *min || *max > largest_message) {
    throw OptionError(
        fmt::format("-m {} is no range of message sizes: expected MIN:MAX or MAX in bytes, 1 <= MIN <= MAX < 2G, with "
                    "K, M or G for powers of 1024",
                    text));
  }
  return {*min, *max};
}

namespace {

void refuse_device_memory(const std::vector<std::string>& placements) {
  for (const std::string& placement : placements) {
    if (placement == "D") {
      throw OptionError(
          "D is GPU memory: this benchmark takes host memory, H; those named partitioned.* and queue.* measure GPU "
          "memory");
    }
    if (placement != "H") {
      throw OptionError(fmt::format(
          "'{}' is no option and no placement: expected H (host memory) for the sender's and the receiver's buffer",
          placement));
    }
  }
}

void check_peers(const std::vector<std::string>& peers) {
  for (const std::string& peer : peers) {
    if (peer != "native" && peer != "isend") parse_peer_library(peer);
  }
}

void check_delay(const DelayShape& delay) {
  if (delay.kind != DelayKind::none && delay.compute_us <= 0) {
    throw OptionError(fmt::format("--delay {} needs a time to vary: give --compute-us above 0", name(delay.kind)));
  }
}

void add_gpu_options(CLI::App& app, Options& options) {
  app.add_option("--device", options.device, "GPU of this rank; -1: the rank on its node modulo the number of GPUs")
      ->check(CLI::Range(-1, 1023))
      ->capture_default_str();
  app.add_option("--blocks", options.blocks, "Blocks of the copying kernel, a list of powers of two; default: by size")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024));
  app.add_option("--block-threads", options.block_threads, "Threads of a block, a list; default: by size")
      ->delimiter(',')
      ->check(CLI::Range(32, 1024));
  app.add_option("--algorithms", options.algorithms,
                 "How kernels move a collective, a list of auto and what the info key partita_algorithm names")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--nccl", options.nccl, "Measure NCCL beside: auto (where it is found), none, or libnccl.so.2's path")
      ->capture_default_str();
  app.add_option("--nvshmem", options.nvshmem,
                 "Measure NVSHMEM beside: none, or the path of libpartita_bench_nvshmem.so (CMake: PARTITA_NVSHMEM)")
      ->capture_default_str();
  app.add_flag("--gpu-aware-mpi", options.gpu_aware_mpi,
               "Measure MPI_Send of GPU memory beside: the MPI must know such memory, another one ends the job");
}

constexpr std::array delay_kinds{DelayKind::none, DelayKind::single, DelayKind::uniform, DelayKind::gaussian};
constexpr std::array memories{Memory::plain, Memory::alloc};

// CLI11 gets names and not the enums: of those it prints the values, as characters.

template <class Enum, std::size_t Count>
CLI::IsMember is_name_of(const std::array<Enum, Count>& values) {
  std::vector<std::string> names;
  names.reserve(Count);
  for (const Enum value : values) names.emplace_back(name(value));
  return CLI::IsMember(names);
}

/// Empty where `text` is auto or names a link.
std::string fault_of_link(const std::string& text) {
  return link::is_choice(text) ? "" : fmt::format("{} is none of: {}", text, link::choices());
}

/// The value that is called `text`, which is_name_of has let pass.
template <class Enum, std::size_t Count>
Enum named(const std::string& text, const std::array<Enum, Count>& values) {
  return *std::find_if(values.begin(), values.end(), [&](Enum value) { return name(value) == text; });
}

/// The help of a benchmark that is not in this build: its options would be those of other benchmarks.
std::string help_without_options(const Options& defaults, const Usage& usage) {
  return fmt::format("{}\npartita bench {} cannot run here, so its options are not listed: {}\n", usage.what,
                     defaults.benchmark, usage.unavailable);
}

}  // namespace

Options parse_options(std::span<const std::string> arguments, const Options& defaults, const Usage& usage) {
  Options options = defaults;
  CLI::App app{std::string(usage.what), "partita bench " + defaults.benchmark};
  app.set_help_flag("--help,-h", "Print this and end");

  std::string sizes;
  std::vector<std::string> placements;
  std::vector<std::string> faces;
  std::string delay(name(options.delay.kind));
  std::string memory(name(options.memory));
  app.add_option("-m,--message-size", sizes, "Message sizes MIN:MAX in bytes (K, M, G: powers of 1024), doubling");
  app.add_option("-i,--iterations", options.iterations, "Timed samples of each subject")
      ->check(CLI::Range(1, 100000000))
      ->capture_default_str();
  app.add_option("-x,--warmup", options.warmup, "Untimed samples before them")
      ->check(CLI::Range(0, 100000000))
      ->capture_default_str();
  app.add_flag("-c,--validation", options.check_every_sample,
               "Compare the data of every sample, not only of the first epochs");
  app.add_option("--batch", options.batch, "Operations timed together as one sample; 0: enough of them for 100 us")
      ->check(CLI::Range(0, 100000000))
      ->capture_default_str();
  app.add_option("--window", options.window, "Messages in flight at once (bw)")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--partitions", options.partitions, "Partition counts, a list like 1,8,128")
      ->delimiter(',')
      ->check(CLI::Range(1, most_partitions))
      ->capture_default_str();
  app.add_option("--threads", options.threads, "Threads of the sender that mark partitions")
      ->check(CLI::Range(1, most_threads))
      ->capture_default_str();
  app.add_option("--delay", delay, "How the threads' computing times differ")
      ->check(is_name_of(delay_kinds))
      ->capture_default_str();
  app.add_option("--compute-us", options.delay.compute_us,
                 "Microseconds that a thread computes before all its partitions are marked")
      ->check(CLI::Range(0.0, 1e8))
      ->capture_default_str();
  app.add_option("--noise-percent", options.delay.noise_percent, "Size of the differences, in percent of --compute-us")
      ->check(CLI::Range(0.0, 10000.0))
      ->capture_default_str();
  app.add_option("--seed", options.seed,
                 "Seed of the delays and of the order in which the contenders of a round take turns")
      ->capture_default_str();
  app.add_option("--memory", memory, "Buffers from malloc (plain) or MPI_Alloc_mem / Partita_Alloc (alloc)")
      ->check(is_name_of(memories))
      ->capture_default_str();
  app.add_option("--face", faces, "Faces of Partita to measure, a list: c (the C API), mpi (the drop-in), or none")
      ->delimiter(',')
      ->check(CLI::IsMember({"c", "mpi", "none"}));
  app.add_option("--link", options.links, "Links to measure, a list: " + link::choices())
      ->delimiter(',')
      ->check(fault_of_link);
  app.add_option("--transport-partitions", options.transport_partitions,
                 "Transfers for each message; 0: Partita's choice")
      ->check(CLI::Range(0, most_partitions))
      ->capture_default_str();
  app.add_option("--peer", options.peers,
                 "Measure beside: native (the MPI's own partitioned calls), isend (a message for each partition) or "
                 "library:PATH, with ?KEY=VALUE for an info key of its requests; may be repeated")
      ->delimiter(',');
  app.add_option("--csv", options.csv_file, "Write the table as CSV to this file");
  app.add_option("--json", options.json_file, "Write everything, raw samples included, as JSON to this file");
  app.add_option("placement", placements, "H: host memory, for the sender's and the receiver's buffer")->expected(0, 2);

  if (usage.on_gpu) add_gpu_options(app, options);
  if (usage.can_split) {
    app.add_flag("--split", options.split, "Where the time goes: within the MPI, in copies, and Partita's own");
  }
  if (usage.follows_close_epochs) {
    app.add_option("--close-epochs", options.close_epochs,
                   "Epochs whose marks come together before each sample, in a request of its own; 0: none, and one "
                   "request for all samples")
        ->check(CLI::Range(0, 100000))
        ->capture_default_str();
  }
  for (const std::string_view option : usage.lacks) app.remove_option(app.get_option(std::string(option)));

  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // CLI11 takes them from the back
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    throw HelpWanted(usage.unavailable.empty() ? app.help() : help_without_options(defaults, usage));
  } catch (const CLI::ParseError& error) {
    throw OptionError(fmt::format("{}; partita bench {} --help lists the options", error.what(), defaults.benchmark));
  }

  if (!sizes.empty()) std::tie(options.min_bytes, options.max_bytes) = parse_sizes(sizes, 1);
  options.delay.kind = named(delay, delay_kinds);
  options.memory = named(memory, memories);
  if (!faces.empty()) {
    options.faces.clear();
    for (const std::string& face : faces) {
      if (face != "none") options.faces.push_back(face == "c" ? Face::c : Face::mpi);
    }
  }
  refuse_device_memory(placements);
  check_peers(options.peers);
  check_delay(options.delay);
  return options;
}

}  // namespace partita::bench
