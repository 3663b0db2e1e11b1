// What a run measures: the options of `partita bench NAME`, named as in the OSU micro-benchmarks where those have them.
#pragma once

#include <cstdint>
#include <exception>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/work.hpp"

namespace partita::bench {

/// Where message buffers come from: malloc, or MPI_Alloc_mem / Partita_Alloc.
enum class Memory : std::uint8_t { plain, alloc };

/// Through which of its faces Partita is measured: the C API, or the standard names of the drop-in.
enum class Face : std::uint8_t { c, mpi };

struct Options {
  std::string benchmark;
  std::int64_t min_bytes = 8;
  std::int64_t max_bytes = std::int64_t{4} << 20;
  int iterations = 200;  ///< timed samples for each subject, size and partition count
  int warmup = 20;       ///< untimed ones before them
  int batch = 0;         ///< operations timed together as one sample; 0: enough of them for 100 µs
  bool check_every_sample = false;
  int window = 16;  ///< messages in flight (bw)

  std::vector<int> partitions{8};
  int threads = 1;
  DelayShape delay;
  std::uint64_t seed = 1;  ///< of the delays, and of the contenders' order in each round

  Memory memory = Memory::plain;
  std::vector<Face> faces{Face::c};
  std::vector<std::string> links{"auto"};  ///< one subject for each face and link
  int transport_partitions = 0;            ///< 0: Partita's own choice
  std::vector<std::string> peers;          ///< "native", "isend" or "library:PATH?KEY=VALUE"

  // For GPU benchmarks.
  int device = -1;                 ///< the GPU of this rank; -1: its rank on the node modulo the number of GPUs
  std::vector<int> blocks;         ///< of copying kernels; empty: by size
  std::vector<int> block_threads;  ///< threads of a block; empty: by size
  std::vector<std::string> algorithms{"auto"};  ///< of collectives in kernels: one subject each
  std::string nccl = "auto";                    ///< auto, none, or the path of libnccl.so.2
  std::string nvshmem = "none";                 ///< none, or the path of libpartita_bench_nvshmem.so
  bool gpu_aware_mpi = false;                   ///< the MPI may be handed GPU memory

  bool split = false;    ///< in parts (two-sided)
  int close_epochs = 0;  ///< with marks that come together, before each sample and in its own request (late-neighbours)

  std::string command;  ///< for readers, without the launcher and without this machine's paths
  std::string csv_file;
  std::string json_file;
};

std::string_view name(Memory memory);

/// What `library:PATH?KEY=VALUE?KEY=VALUE` says: a shared library and the info keys of its requests.
struct PeerLibrary {
  std::string path;
  std::vector<std::pair<std::string, std::string>> info;

  /// `file`, and the keys behind it as they were given.
  std::string shown(const std::string& file) const;
};

/// Throws OptionError where `peer` is something else.
PeerLibrary parse_peer_library(const std::string& peer);

/// Wrong options (exit status 2); the message says which and what was expected.
class OptionError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The sizes in bytes that "MIN:MAX" names, or "MAX", from `least` on: as in the OSU micro-benchmarks. Throws
/// OptionError.
std::pair<std::int64_t, std::int64_t> parse_sizes(const std::string& text, std::int64_t least);

/// `--help` was asked for.
class HelpWanted : public std::exception {
 public:
  explicit HelpWanted(std::string text) : text_(std::move(text)) {}

  /// The help. Not what(), whose text ends at the first zero.
  const std::string& text() const { return text_; }
  const char* what() const noexcept override { return "help is wanted"; }

 private:
  std::string text_;
};

/// What the command line of one benchmark is like.
struct Usage {
  std::string_view what;                     ///< the benchmark in one sentence
  std::vector<std::string_view> lacks = {};  ///< options that mean nothing to it and are refused like unknown ones
  bool on_gpu = false;                       ///< it has the options of GPU benchmarks
  std::string_view unavailable = {};         ///< why this build cannot run it; its own options are then not known
  bool can_split = false;                    ///< it has --split
  bool follows_close_epochs = false;         ///< it has --close-epochs
};

/// Reads the arguments after the benchmark's name over `defaults`, which hold that name.
/// Throws OptionError, also for what it does not know, or HelpWanted.
Options parse_options(std::span<const std::string> arguments, const Options& defaults, const Usage& usage);

}  // namespace partita::bench
