#include "program/link_survey.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <stdexcept>
#include <utility>

#include "apps/support/node.hpp"
#include "program/gpu.hpp"
#include "program/partita_check.hpp"

namespace partita::program {
namespace {

constexpr std::size_t most_probes = std::size(probes);
constexpr int survey_tag = 0;

/// The probes that every rank can make: where one has no GPU, or no pools on it, the last ones fall away.
std::span<const Probe> possible_probes(MPI_Comm comm) {
  const GpuUse here = choose_gpu(apps::find_node(comm).my_rank);
  int mine = static_cast<int>(std::count_if(std::begin(probes), std::end(probes), [&](const Probe& probe) {
    return probe.where < Where::gpu || (probe.where == Where::gpu ? here.memory : here.pools);
  }));
  int all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, comm);
  return std::span(probes).first(static_cast<std::size_t>(all));
}

/// Memory of one probe.
class ProbeMemory {
 public:
  explicit ProbeMemory(const Probe& probe) : where_(probe.where) {
    const auto size_bytes = static_cast<std::size_t>(probe.partition_bytes) * probe_partitions;
    if (where_ == Where::partita) {
      PARTITA_CHECK(Partita_Alloc(static_cast<MPI_Aint>(size_bytes), MPI_INFO_NULL, &base_));
    } else if (where_ == Where::plain) {
      plain_.resize(size_bytes);
      base_ = plain_.data();
    } else {
      base_ = where_ == Where::gpu ? allocate_on_gpu(size_bytes) : allocate_in_pool(size_bytes);
    }
  }
  ~ProbeMemory() {
    if (where_ == Where::partita) Partita_Free(base_);
    if (where_ == Where::gpu) free_on_gpu(base_);
    if (where_ == Where::gpu_pool) free_in_pool(base_);
  }
  ProbeMemory(const ProbeMemory&) = delete;
  ProbeMemory& operator=(const ProbeMemory&) = delete;

  void* base() const { return base_; }

 private:
  Where where_;
  std::vector<char> plain_;
  void* base_ = nullptr;
};

std::string info_value(MPI_Info info, const char* key) {
  std::array<char, MPI_MAX_INFO_VAL + 1> value{};
  int found = 0;
  MPI_Info_get(info, key, MPI_MAX_INFO_VAL, value.data(), &found);
  return found != 0 ? value.data() : "";
}

bool continues_number(const std::string& text, std::size_t place) {
  return place < text.size() && text[place] >= '0' && text[place] <= '9';
}

/// `text` with every "rank N" of this rank replaced.
std::string renamed(std::string text, int rank, const std::string& name) {
  const std::string number = "rank " + std::to_string(rank);
  for (std::size_t begin = text.find(number); begin != std::string::npos; begin = text.find(number, begin)) {
    if (continues_number(text, begin + number.size())) {
      begin += number.size();
    } else {
      text.replace(begin, number.size(), name);
    }
  }
  return text;
}

Choice choice_of(Partita_Request request) {
  MPI_Info info = MPI_INFO_NULL;
  PARTITA_CHECK(Partita_Request_get_info(request, &info));
  Choice choice{info_value(info, "partita_link"), info_value(info, "partita_reason"),
                info_value(info, "partita_transport_partitions")};
  MPI_Info_free(&info);
  return choice;
}

/// Memory for sending and receiving, for all probes.
class Prober {
 public:
  explicit Prober(MPI_Comm comm) : comm_(comm), probes_(possible_probes(comm)) {
    for (const Probe& probe : probes_) {
      sent_.push_back(std::make_unique<ProbeMemory>(probe));
      received_.push_back(std::make_unique<ProbeMemory>(probe));
    }
  }

  std::size_t probe_count() const { return probes_.size(); }

  /// One epoch of every probe, sent to `dest` while that of `source` is received; what was chosen for the sends.
  Choices probe(int dest, int source) {
    const std::size_t count_of_probes = probes_.size();
    const auto sends_count = static_cast<int>(count_of_probes);
    std::array<Partita_Request, 2 * most_probes> requests{};
    Partita_Request* sends = requests.data();
    Partita_Request* receives = requests.data() + count_of_probes;
    for (std::size_t i = 0; i < count_of_probes; ++i) {
      const MPI_Count count = probes_[i].partition_bytes;
      PARTITA_CHECK(Partita_Psend_init(sent_[i]->base(), probe_partitions, count, MPI_BYTE, dest, survey_tag, comm_,
                                       MPI_INFO_NULL, &sends[i]));
      PARTITA_CHECK(Partita_Precv_init(received_[i]->base(), probe_partitions, count, MPI_BYTE, source, survey_tag,
                                       comm_, MPI_INFO_NULL, &receives[i]));
    }
    PARTITA_CHECK(Partita_Startall(2 * sends_count, requests.data()));
    PARTITA_CHECK(Partita_Pbuf_prepareall(sends_count, sends));
    for (std::size_t i = 0; i < count_of_probes; ++i) {
      PARTITA_CHECK(Partita_Pready_range(0, probe_partitions - 1, sends[i]));
    }
    PARTITA_CHECK(Partita_Waitall(2 * sends_count, requests.data(), MPI_STATUSES_IGNORE));

    Choices choices;
    for (std::size_t i = 0; i < count_of_probes; ++i) choices.push_back(without_ranks(choice_of(sends[i]), dest));
    for (std::size_t i = 0; i < 2 * count_of_probes; ++i) PARTITA_CHECK(Partita_Request_free(&requests[i]));
    return choices;
  }

 private:
  /// Reasons that name the pair's ranks would differ from pair to pair.
  Choice without_ranks(Choice choice, int dest) const {
    int self = 0;
    MPI_Comm_rank(comm_, &self);
    choice.reason = renamed(std::move(choice.reason), dest, dest == self ? "the rank" : "the receiver");
    choice.reason = renamed(std::move(choice.reason), self, "the sender");
    return choice;
  }

  MPI_Comm comm_;
  std::span<const Probe> probes_;
  std::vector<std::unique_ptr<ProbeMemory>> sent_, received_;
};

/// The place of `choices` in `different`, to which it is added if it is new.
int place_of(const Choices& choices, std::vector<Choices>& different) {
  const auto found = std::find(different.begin(), different.end(), choices);
  if (found != different.end()) return static_cast<int>(found - different.begin());
  different.push_back(choices);
  return static_cast<int>(different.size() - 1);
}

/// Strings one after the other, each ended by a zero.
std::string pack(const std::vector<Choices>& different) {
  std::string packed;
  for (const Choices& choices : different) {
    for (const Choice& choice : choices) {
      for (const std::string* part : {&choice.link, &choice.reason, &choice.transfers}) packed += *part + '\0';
    }
  }
  return packed;
}

std::vector<Choices> unpack(const std::string& packed, std::size_t probe_count) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin < packed.size();) {
    parts.emplace_back(packed.c_str() + begin);
    begin += parts.back().size() + 1;
  }
  std::vector<Choices> different;
  constexpr std::size_t parts_each = 3;
  for (std::size_t i = 0; i + parts_each * probe_count <= parts.size();) {
    Choices& choices = different.emplace_back();
    for (std::size_t probe = 0; probe < probe_count; ++probe, i += parts_each) {
      choices.push_back({parts[i], parts[i + 1], parts[i + 2]});
    }
  }
  return different;
}

}  // namespace

std::vector<std::string> gather_texts(MPI_Comm comm, const std::string& text) {
  int rank = 0, ranks = 1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  const int length = static_cast<int>(text.size());
  std::vector<int> lengths(static_cast<std::size_t>(ranks)), begins(static_cast<std::size_t>(ranks));
  MPI_Gather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, 0, comm);
  int total = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    begins[i] = total;
    total += lengths[i];
  }
  std::string all(static_cast<std::size_t>(total), '\0');
  MPI_Gatherv(text.data(), length, MPI_CHAR, all.data(), lengths.data(), begins.data(), MPI_CHAR, 0, comm);
  std::vector<std::string> texts;
  for (std::size_t i = 0; rank == 0 && i < lengths.size(); ++i) {
    texts.push_back(all.substr(static_cast<std::size_t>(begins[i]), static_cast<std::size_t>(lengths[i])));
  }
  return texts;
}

Survey survey_links(MPI_Comm comm) {
  int rank = 0, ranks = 1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);

  std::vector<Choices> mine;
  std::vector<int> of_receiver(static_cast<std::size_t>(ranks));
  Prober prober(comm);
  for (int shift = 0; shift < ranks; ++shift) {
    const int dest = (rank + shift) % ranks;
    of_receiver[static_cast<std::size_t>(dest)] = place_of(prober.probe(dest, (rank + ranks - shift) % ranks), mine);
  }

  const std::vector<std::string> texts = gather_texts(comm, pack(mine));
  Survey survey;
  survey.of_pair.resize(rank == 0 ? static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks) : 0);
  MPI_Gather(of_receiver.data(), ranks, MPI_INT, survey.of_pair.data(), ranks, MPI_INT, 0, comm);
  for (std::size_t sender = 0; sender < texts.size(); ++sender) {
    std::vector<int> places;
    for (const Choices& choices : unpack(texts[sender], prober.probe_count()))
      places.push_back(place_of(choices, survey.different));
    for (int receiver = 0; receiver < ranks; ++receiver) {
      int& place = survey.of_pair[sender * static_cast<std::size_t>(ranks) + static_cast<std::size_t>(receiver)];
      place = places.at(static_cast<std::size_t>(place));
    }
  }
  return survey;
}

}  // namespace partita::program
