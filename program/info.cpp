// partita info: what this job has, and which link each pair of ranks uses and why.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <mpi.h>
#include <partita/partita.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "apps/fft/fftw.hpp"
#include "apps/support/node.hpp"
#include "capi/gpu_aware.hpp"
#include "capi/links.hpp"
#include "collective/tuning_file.hpp"
#include "core/settings.hpp"
#include "memory/device.hpp"
#include "program/command.hpp"
#include "program/link_survey.hpp"
#include "program/partita_check.hpp"
#include "two_sided/peer_sizes.hpp"

namespace partita::program {
namespace {

/// The first line of `text` with single spaces.
std::string first_line(std::string_view text) {
  std::string line;
  for (const char c : text.substr(0, text.find('\n'))) {
    const bool space = c == ' ' || c == '\t';
    if (!space) line += c;
    if (space && !line.empty() && line.back() != ' ') line += ' ';
  }
  return line;
}

std::string describe_versions() {
  int major = 0, minor = 0, patch = 0;
  PARTITA_CHECK(Partita_Get_version(&major, &minor, &patch));
  int standard = 0, substandard = 0, length = 0;
  MPI_Get_version(&standard, &substandard);
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> library{};
  MPI_Get_library_version(library.data(), &length);
  return fmt::format("Partita {}.{}.{}\nMPI {}.{}: {}\n", major, minor, patch, standard, substandard,
                     first_line(library.data()));
}

std::string describe_thread_level() {
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  const std::map<int, const char*> names = {{MPI_THREAD_SINGLE, "MPI_THREAD_SINGLE"},
                                            {MPI_THREAD_FUNNELED, "MPI_THREAD_FUNNELED"},
                                            {MPI_THREAD_SERIALIZED, "MPI_THREAD_SERIALIZED"},
                                            {MPI_THREAD_MULTIPLE, "MPI_THREAD_MULTIPLE"}};
  return fmt::format("thread level: {}\n", names.at(level));
}

/// Whoever passes the program on must know.
std::string describe_fftw() {
  const auto fftw = fft::loaded_fftw();
  if (!fftw) return "FFTW in this program: none, so run fft has no transforms on hosts\n";
  return fmt::format("FFTW in this program: {}; who passes the program on does so under the GPL\n", *fftw);
}

std::string describe_settings() {
  std::string text = "settings of rank 0's environment:\n";
  for (const SettingDescription& setting : known_settings()) {
    const char* value = std::getenv(setting.name);
    text += fmt::format("  {:<20} {:<10} {}; takes {}\n", setting.name, value != nullptr ? value : "(not set)",
                        setting.meaning, setting.expected);
  }
  return text;
}

/// What rank 0 knows of every rank.
struct RankPlace {
  int node;  ///< the lowest rank of its node
  int node_cores;
  char host[MPI_MAX_PROCESSOR_NAME];
};

std::vector<RankPlace> gather_places(MPI_Comm comm) {
  int rank = 0, ranks = 1, length = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  const apps::Node node = apps::find_node(comm);
  RankPlace mine{node.first_rank, node.cores, {}};
  MPI_Get_processor_name(mine.host, &length);
  std::vector<RankPlace> places(rank == 0 ? static_cast<std::size_t>(ranks) : 0);
  constexpr int size_bytes = sizeof(RankPlace);
  MPI_Gather(&mine, size_bytes, MPI_BYTE, places.data(), size_bytes, MPI_BYTE, 0, comm);
  return places;
}

std::string counted(std::size_t count, std::string_view thing) {
  return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
}

std::string describe_places(const std::vector<RankPlace>& places) {
  constexpr std::size_t most_nodes = 16;
  std::map<int, std::vector<std::size_t>> nodes;
  for (std::size_t rank = 0; rank < places.size(); ++rank) nodes[places[rank].node].push_back(rank);
  std::string text = fmt::format("job: {} on {}\n", counted(places.size(), "rank"), counted(nodes.size(), "node"));
  std::size_t shown = 0;
  for (const auto& [first, ranks] : nodes) {
    if (shown++ == most_nodes) {
      text += fmt::format("  and {} more\n", counted(nodes.size() - most_nodes, "node"));
      break;
    }
    const RankPlace& place = places[static_cast<std::size_t>(first)];
    text += fmt::format("  {}: {} from rank {} on, {}\n", place.host, counted(ranks.size(), "rank"), first,
                        counted(static_cast<std::size_t>(place.node_cores), "core"));
  }
  return text;
}

/// What sets pairs of ranks apart before anybody asks for a link.
enum class Distance { itself, node, job };

struct Pair {
  std::size_t sender, receiver;
};

Distance distance_of(const std::vector<RankPlace>& places, const Pair& pair) {
  if (pair.sender == pair.receiver) return Distance::itself;
  return places[pair.sender].node == places[pair.receiver].node ? Distance::node : Distance::job;
}

const char* name_of(Distance distance) {
  switch (distance) {
    case Distance::itself:
      return "every rank to itself";
    case Distance::node:
      return "every rank to the others of its node";
    case Distance::job:
      return "every rank to those of other nodes";
  }
  return "";
}

/// The pairs in words if they are all of one distance, else one after the other as far as there is room.
std::string describe_pairs(const std::vector<Pair>& pairs, Distance distance, std::size_t all_of_distance) {
  if (pairs.size() == all_of_distance) return name_of(distance);
  constexpr std::size_t most_pairs = 12;
  std::string text;
  for (std::size_t i = 0; i < pairs.size() && i < most_pairs; ++i) {
    text += fmt::format("{}{} -> {}", i == 0 ? "" : ", ", pairs[i].sender, pairs[i].receiver);
  }
  if (pairs.size() > most_pairs) text += fmt::format(" and {} more pairs", pairs.size() - most_pairs);
  return text;
}

/// Ranks that see the same GPUs stand together.
std::string describe_gpus(MPI_Comm comm) {
  const std::vector<std::string> texts = gather_texts(comm, memory::describe_gpus());
  std::map<std::string, std::vector<std::size_t>> groups;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) groups[texts[rank]].push_back(rank);
  std::string text;
  for (const auto& [gpus, ranks] : groups) {
    constexpr std::size_t most_ranks = 16;
    const auto shown = static_cast<std::ptrdiff_t>(std::min(ranks.size(), most_ranks));
    text += fmt::format("GPUs of rank{} {}{}:\n", ranks.size() == 1 ? "" : "s",
                        fmt::join(ranks.begin(), ranks.begin() + shown, ", "),
                        ranks.size() > most_ranks ? fmt::format(" and {} more", ranks.size() - most_ranks) : "");
    for (std::size_t begin = 0; begin < gpus.size();) {
      const std::size_t end = std::min(gpus.find('\n', begin), gpus.size());
      text += fmt::format("  {}\n", gpus.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  return text;
}

std::string describe_gpu_awareness() {
  const char* why = "";
  const bool on = Partita_is_gpu_aware(&why) != 0;
  return fmt::format("GPU memory in MPI's own calls, with libpartita_mpi: {}, since {}\n",
                     on ? "by Partita" : "left to the MPI", why);
}

/// Sizes are those of a communicator of all ranks, or of so many of them as share a node.
std::string describe_peer_collectives(const std::vector<RankPlace>& places) {
  std::map<int, int> ranks_of_node;
  for (const RankPlace& place : places) ++ranks_of_node[place.node];
  int ranks = 0;
  for (const auto& [node, count] : ranks_of_node) ranks = std::max(ranks, count);
  const char* why = "";
  std::string text;
  for (const MeasuredPeerSize& line : measured_peer_sizes()) {
    const std::int64_t bytes = Partita_Peers_from_bytes(line.collective, ranks, &why);
    if (bytes < 0) break;
    text += fmt::format("  {:<24} {:>10}  {}\n", line.name, bytes, line.source);
  }
  constexpr const char* what = "collectives on GPU memory by peer memory, with libpartita_mpi";
  if (text.empty()) return fmt::format("{}: none, since {}\n", what, why);
  return fmt::format("{}, on {} of a node (from how many bytes of a rank's larger buffer on, source of auto's):\n{}",
                     what, counted(static_cast<std::size_t>(ranks), "rank"), text);
}

/// Rank 0's file, which the library has read and found right; no rules where there is none.
collective::Tuning tuning_of_file() {
  const char* const file = std::getenv("PARTITA_TUNING");
  if (file == nullptr || *file == 0) return {};
  std::ifstream in(file, std::ios::binary);
  return collective::read_tuning(file, std::string(std::istreambuf_iterator<char>(in), {}));
}

std::string describe_rules(const std::vector<collective::RuleInForce>& rules) {
  std::string text;
  for (const collective::RuleInForce& rule : rules) {
    text += fmt::format("{}{}{}{}", text.empty() ? "" : ", ", rule.algorithm,
                        rule.from_bytes == 0 ? "" : fmt::format(" from {}", rule.from_bytes),
                        rule.is_built_in ? "" : " (file)");
  }
  return text;
}

/// Those of a communicator of all ranks, a line for each collective.
std::string describe_algorithms(std::size_t ranks) {
  const collective::Tuning tuning = tuning_of_file();
  const bool has_file = !tuning.rules().empty();
  std::string text =
      fmt::format("algorithms of collectives, on {} (from how many bytes of a block on; {}):\n", counted(ranks, "rank"),
                  has_file ? "(file): PARTITA_TUNING, else built in" : "all built in, as PARTITA_TUNING names no file");
  for (int index = 0; index < collective::kind_count; ++index) {
    const auto kind = static_cast<collective::Kind>(index);
    const auto rules = [&](collective::MovedBy by) {
      return describe_rules(collective::rules_in_force(kind, by, static_cast<int>(ranks), tuning));
    };
    const std::string by_kernels = rules(collective::MovedBy::device);
    text += fmt::format("  {:<21} host: {}{}\n", collective::name_of(kind), rules(collective::MovedBy::host),
                        by_kernels.empty() ? "" : fmt::format("; kernels: {}", by_kernels));
  }
  return text;
}

std::string describe_abilities() {
  std::string text = "links, in the order in which auto prefers them (the memories between which they move bytes):\n";
  for (int link = 0; const char* words = Partita_Describe_link(link); ++link) text += fmt::format("  {}\n", words);
  return text;
}

/// One line a size if the kind of host memory makes no difference, else one a size and memory.
std::string describe_choices(const Choices& choices) {
  std::string text;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const bool any_memory = i + 1 < choices.size() && probes[i].where == Where::plain &&
                            probes[i + 1].where == Where::partita && choices[i] == choices[i + 1];
    const Choice& choice = choices[i];
    text += fmt::format("    {:<6} {:<14} {:<7} {:>3} transfer{}  {}\n", probes[i].size,
                        any_memory ? "host" : probes[i].memory, choice.link, choice.transfers,
                        choice.transfers == "1" ? " " : "s", choice.reason);
    if (any_memory) ++i;
  }
  return text;
}

/// Pairs with the same choices stand together.
std::string describe_links(const std::vector<RankPlace>& places, const Survey& survey) {
  std::map<Distance, std::size_t> all_of;
  std::map<std::pair<Distance, int>, std::vector<Pair>> groups;
  for (std::size_t sender = 0; sender < places.size(); ++sender) {
    for (std::size_t receiver = 0; receiver < places.size(); ++receiver) {
      const Pair pair{sender, receiver};
      const Distance distance = distance_of(places, pair);
      ++all_of[distance];
      groups[{distance, survey.of_pair[sender * places.size() + receiver]}].push_back(pair);
    }
  }
  std::string text =
      fmt::format("links, tried with messages in {} partitions (size, memory on both sides, link, transfers, why):\n",
                  probe_partitions);
  for (const auto& [group, pairs] : groups) {
    const auto& [distance, choices] = group;
    text += fmt::format("  {}\n{}", describe_pairs(pairs, distance, all_of.at(distance)),
                        describe_choices(survey.different[static_cast<std::size_t>(choices)]));
  }
  return text;
}

/// The world, with errors that come back as codes so that they end in a sentence.
class SurveyComm {
 public:
  SurveyComm() {
    MPI_Comm_dup(MPI_COMM_WORLD, &comm_);
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    PARTITA_CHECK(Partita_Comm_register(comm_));
  }
  ~SurveyComm() { MPI_Comm_free(&comm_); }
  SurveyComm(const SurveyComm&) = delete;
  SurveyComm& operator=(const SurveyComm&) = delete;

  MPI_Comm get() const { return comm_; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

}  // namespace

int info_command(int argc, char** argv) {
  if (argc > 1) {
    const bool help = argc == 2 && (std::string_view(argv[1]) == "--help" || std::string_view(argv[1]) == "-h");
    if (help) {
      say("partita info: what this job has, and which link each pair of ranks uses and why. Takes no options.\n");
      return 0;
    }
    complain(fmt::format("partita info: '{}' is not known; it takes no options.\n", argv[argc > 2 ? 2 : 1]));
    return usage_error;
  }
  PARTITA_CHECK(Partita_Init(MPI_COMM_WORLD));
  const SurveyComm comm;
  const std::vector<RankPlace> places = gather_places(comm.get());
  say(describe_versions() + describe_fftw() + describe_thread_level() + describe_places(places) + describe_settings());
  const std::string gpus = describe_gpus(comm.get());
  say(gpus + describe_gpu_awareness() + describe_peer_collectives(places));
  if (!places.empty()) say(describe_algorithms(places.size()));
  const Survey survey = survey_links(comm.get());
  if (!places.empty()) say(describe_abilities() + describe_links(places, survey));
  return 0;
}

}  // namespace partita::program
