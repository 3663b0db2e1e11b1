#include "bench/tune/contest.hpp"

#include <array>
#include <limits>
#include <memory>
#include <optional>

#include "apps/support/order.hpp"
#include "bench/clock.hpp"
#include "bench/owned.hpp"
#include "bench/statistics.hpp"
#include "collective/tuning_file.hpp"

namespace partita::bench::tune {

namespace {

constexpr std::uint64_t verified_epochs = 2;
constexpr Element untouched = -1;

struct Ranks {
  explicit Ranks(MPI_Comm of) : comm(of) {
    check(PMPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
    check(PMPI_Comm_size(comm, &count), "MPI_Comm_size");
  }
  void barrier() const { check(PMPI_Barrier(comm), "MPI_Barrier"); }

  MPI_Comm comm;
  int rank = 0;
  int count = 1;
};

/// Empty where it is on all ranks, else the text of the first rank that has one. Collective.
std::string first_text(const Ranks& ranks, const std::string& text) {
  int first = text.empty() ? ranks.count : ranks.rank;
  check(PMPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, ranks.comm), "MPI_Allreduce");
  if (first == ranks.count) return "";
  int size = static_cast<int>(text.size());
  check(PMPI_Bcast(&size, 1, MPI_INT, first, ranks.comm), "MPI_Bcast");
  std::string found = first == ranks.rank ? text : std::string(static_cast<std::size_t>(size), ' ');
  check(PMPI_Bcast(found.data(), size, MPI_CHAR, first, ranks.comm), "MPI_Bcast");
  return found;
}

/// What Partita says of a call that gave `code`; empty where it went well.
std::string sentence_of(int code) {
  if (code == MPI_SUCCESS) return "";
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  Partita_Error_string(code, text.data(), &length);
  return text.data();
}

/// What a rank sends and receives. All algorithms of a contest use the same.
class Data {
 public:
  Data(const Contest& contest, const Ranks& ranks, const Memory& memory)
      : contest_(contest),
        ranks_(ranks),
        memory_(memory),
        elements_(static_cast<std::size_t>(contest.block_bytes / element_bytes * ranks.count)),
        sent_(memory.allocate(size_bytes())),
        received_(memory.allocate(size_bytes())) {}

  Buffers buffers() const { return {sent_.bytes().data(), received_.bytes().data(), count(), ranks_.count}; }

  void fill(std::uint64_t epoch) {
    const std::vector<Element> sent = sent_at(epoch);
    const std::vector<Element> before = received_before(sent);
    memory_.copy(sent_.bytes().data(), sent.data(), size_bytes());
    memory_.copy(received_.bytes().data(), before.data(), size_bytes());
  }

  /// Whether it is what the MPI's own call gives, with the same contents in host memory. Collective.
  bool is_right(std::uint64_t epoch) const {
    const std::vector<Element> sent = sent_at(epoch);
    std::vector<Element> expected = received_before(sent);
    check(contest_.collective.of_mpi({sent.data(), expected.data(), count(), ranks_.count}, ranks_.comm),
          "the MPI's own collective");
    std::vector<Element> found(elements_);
    memory_.copy(found.data(), received_.bytes().data(), size_bytes());
    const bool is_undefined = contest_.collective.kind == Kind::exscan && ranks_.rank == 0;
    return is_undefined || found == expected;
  }

 private:
  std::size_t size_bytes() const { return elements_ * sizeof(Element); }
  int count() const { return static_cast<int>(contest_.block_bytes / element_bytes); }

  /// Small, so that sums do not overflow.
  std::vector<Element> sent_at(std::uint64_t epoch) const {
    std::vector<Element> all(elements_);
    for (std::size_t i = 0; i < elements_; ++i) {
      all[i] = static_cast<Element>((static_cast<std::uint64_t>(ranks_.rank) * 1009 + i * 31 + epoch * 17) % 10007);
    }
    return all;
  }
  /// A broadcast has its data there, on the root.
  std::vector<Element> received_before(const std::vector<Element>& sent) const {
    const bool has_data = contest_.collective.kind == Kind::bcast && ranks_.rank == 0;
    return has_data ? sent : std::vector<Element>(elements_, untouched);
  }

  const Contest& contest_;
  const Ranks& ranks_;
  const Memory& memory_;
  const std::size_t elements_;
  const Buffer sent_;
  const Buffer received_;
};

/// One algorithm: a request of Partita's.
class Contender {
 public:
  explicit Contender(std::string name) : name_(std::move(name)) {}
  ~Contender() {
    if (request_ != PARTITA_REQUEST_NULL) Partita_Request_free(&request_);
  }
  Contender(const Contender&) = delete;
  Contender& operator=(const Contender&) = delete;

  const std::string& name() const { return name_; }

  int init(const Contest& contest, const Data& data, MPI_Comm comm) {
    OwnedInfo info(MPI_INFO_NULL);
    check(PMPI_Info_create(info.out()), "MPI_Info_create");
    check(PMPI_Info_set(info.get(), "partita_algorithm", name_.c_str()), "MPI_Info_set");
    const bool by_kernels = contest.by == collective::MovedBy::device;
    check(PMPI_Info_set(info.get(), "partita_driver", by_kernels ? "device" : "host"), "MPI_Info_set");
    return contest.collective.init(data.buffers(), comm, info.get(), &request_);
  }
  int run() {
    const int code = Partita_Start(&request_);
    return code == MPI_SUCCESS ? Partita_Wait(&request_, MPI_STATUS_IGNORE) : code;
  }

 private:
  std::string name_;
  Partita_Request request_ = PARTITA_REQUEST_NULL;
};

/// Why it cannot be used here; empty where it can. Throws Failure where it is wrong. Collective.
std::string try_out(Contender& contender, const Contest& contest, Data& data, const Ranks& ranks) {
  std::string why = first_text(ranks, sentence_of(contender.init(contest, data, ranks.comm)));
  for (std::uint64_t epoch = 0; why.empty() && epoch < verified_epochs; ++epoch) {
    data.fill(epoch);
    ranks.barrier();
    why = first_text(ranks, sentence_of(contender.run()));
    if (!why.empty()) break;
    const std::string wrong = data.is_right(epoch) ? "" : fmt::format("rank {}", ranks.rank);
    if (const std::string where = first_text(ranks, wrong); !where.empty()) {
      throw Failure("{} by algorithm {} delivered wrong data to {}, in blocks of {} bytes",
                    name_of(contest.collective.kind), contender.name(), where, contest.block_bytes);
    }
  }
  return why;
}

using Contenders = std::vector<std::unique_ptr<Contender>>;

/// Those that can be used, ready to run.
Contenders find_contenders(const Contest& contest, Data& data, const Ranks& ranks, Outcome& outcome) {
  Contenders usable;
  for (const std::string_view name : algorithm_names(contest.collective.kind, contest.by, ranks.count)) {
    auto contender = std::make_unique<Contender>(std::string(name));
    const std::string why = try_out(*contender, contest, data, ranks);
    if (why.empty()) {
      usable.push_back(std::move(contender));
    } else {
      outcome.failures.push_back(fmt::format("{} by algorithm {}, in blocks of {} bytes: {}",
                                             name_of(contest.collective.kind), name, contest.block_bytes, why));
    }
  }
  return usable;
}

/// The second barrier counts: a root that sends is through at once, and who leaves the first one late finds the data
/// there, so that no rank by itself sees how long it takes until all have them.
double sample_us(Contender& contender, const Ranks& ranks) {
  ranks.barrier();
  const std::int64_t begin_ns = now_ns();
  if (const std::string fault = sentence_of(contender.run()); !fault.empty()) {
    throw Failure("algorithm {} has failed while it was measured: {}", contender.name(), fault);
  }
  ranks.barrier();
  return static_cast<double>(now_ns() - begin_ns) / 1000;
}

}  // namespace

Outcome hold(const Contest& contest, MPI_Comm comm, const Memory& memory, const TuneOptions& options) {
  const Ranks ranks(comm);
  Outcome outcome;
  if (contest.block_bytes / element_bytes > std::numeric_limits<int>::max() / ranks.count) {
    outcome.failures.push_back(fmt::format("{} in blocks of {} bytes: those of {} ranks are more than an int counts",
                                           name_of(contest.collective.kind), contest.block_bytes, ranks.count));
    return outcome;
  }
  Data data(contest, ranks, memory);
  const Contenders contenders = find_contenders(contest, data, ranks, outcome);
  std::vector<std::vector<double>> samples(contenders.size());
  for (int i = -options.warmup; i < options.iterations; ++i) {
    const int turn = options.warmup + i;
    const auto round = static_cast<std::uint64_t>(turn);
    for (const std::size_t index : apps::draw_order(contenders.size(), options.seed, round)) {
      const double sample = sample_us(*contenders[index], ranks);
      if (i >= 0) samples[index].push_back(sample);
    }
  }
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    check(
        PMPI_Allreduce(MPI_IN_PLACE, samples[i].data(), static_cast<int>(samples[i].size()), MPI_DOUBLE, MPI_MAX, comm),
        "MPI_Allreduce");
    outcome.medians_us.emplace_back(contenders[i]->name(), summarize(samples[i]).median);
  }
  ranks.barrier();  // before the requests are freed
  return outcome;
}

}  // namespace partita::bench::tune
