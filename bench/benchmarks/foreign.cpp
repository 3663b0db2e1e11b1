// foreign: what the MPI's own calls cost under their standard names, which a loaded drop-in takes, against the MPI's
// own functions, called PMPI-… in the results. Without a drop-in both are the same: a control run.
#include <array>
#include <span>

#include "apps/support/own_mpi.hpp"
#include "bench/benchmarks/all.hpp"
#include "bench/contents.hpp"

namespace partita::bench {

namespace {

/// The calls under one of their two sets of names.
struct Calls {
  decltype(&MPI_Isend) isend;
  decltype(&MPI_Irecv) irecv;
  decltype(&MPI_Waitall) waitall;
  decltype(&MPI_Send) send;
  decltype(&MPI_Recv) recv;
};
constexpr int tag = 0;

class ForeignMeasurement : public Measurement {
 public:
  ForeignMeasurement(Job& job, const Case& c, const Calls& calls)
      : job_(job),
        calls_(calls),
        size_(static_cast<int>(c.size_bytes)),
        out_(plain_buffer(static_cast<std::size_t>(c.size_bytes))),
        in_(plain_buffer(static_cast<std::size_t>(c.size_bytes))) {}

  void prepare(std::uint64_t epoch) override {
    fill(out_.bytes(), 1, epoch);
    poison(in_.bytes(), 1, epoch);
  }

  bool compare(std::uint64_t epoch) const override {
    const auto mismatch = find_mismatch(in_.bytes(), 1, epoch);
    if (mismatch) {
      fmt::print(stderr, "partita bench: wrong data: rank {} offset {}: expected {:#04x}, got {:#04x}; {} bytes\n",
                 job_.rank, mismatch->offset, static_cast<int>(mismatch->expected), static_cast<int>(mismatch->got),
                 size_);
    }
    return !mismatch;
  }

  double sample(const Round& round) override {
    job_.barrier();
    const std::int64_t begin_ns = now_ns();
    for (int i = 0; i < round.batch; ++i) exchange();
    return static_cast<double>(now_ns() - begin_ns) / 1000 / round.batch;
  }

 protected:
  virtual void exchange() = 0;

  Job& job_;
  Calls calls_;
  int size_;
  Buffer out_;
  Buffer in_;
};

/// Both ranks send to one another at once.
class Nonblocking final : public ForeignMeasurement {
 public:
  using ForeignMeasurement::ForeignMeasurement;

 protected:
  void exchange() override {
    std::array<MPI_Request, 2> requests{};
    check(calls_.irecv(in_.bytes().data(), size_, MPI_BYTE, job_.peer(), tag, MPI_COMM_WORLD, &requests[0]),
          "MPI_Irecv");
    check(calls_.isend(out_.bytes().data(), size_, MPI_BYTE, job_.peer(), tag, MPI_COMM_WORLD, &requests[1]),
          "MPI_Isend");
    check(calls_.waitall(2, requests.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
  }
};

/// One rank sends, the other answers.
class Blocking final : public ForeignMeasurement {
 public:
  using ForeignMeasurement::ForeignMeasurement;

 protected:
  void exchange() override {
    if (job_.is_first()) send();
    check(calls_.recv(in_.bytes().data(), size_, MPI_BYTE, job_.peer(), tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
          "MPI_Recv");
    if (!job_.is_first()) send();
  }

 private:
  void send() {
    check(calls_.send(out_.bytes().data(), size_, MPI_BYTE, job_.peer(), tag, MPI_COMM_WORLD), "MPI_Send");
  }
};

std::vector<Contender> make_foreign_contenders(Job& job, const Subjects&, const Case& c) {
  const Calls direct{PARTITA_OF_MPI(Isend), PARTITA_OF_MPI(Irecv), PARTITA_OF_MPI(Waitall), PARTITA_OF_MPI(Send),
                     PARTITA_OF_MPI(Recv)};
  const Calls standard{MPI_Isend, MPI_Irecv, MPI_Waitall, MPI_Send, MPI_Recv};
  std::vector<Contender> contenders;
  contenders.push_back({"PMPI-waitall", "PMPI-waitall", std::make_unique<Nonblocking>(job, c, direct)});
  contenders.push_back({"MPI-waitall", "PMPI-waitall", std::make_unique<Nonblocking>(job, c, standard)});
  contenders.push_back({"PMPI-sendrecv", "PMPI-sendrecv", std::make_unique<Blocking>(job, c, direct)});
  contenders.push_back({"MPI-sendrecv", "PMPI-sendrecv", std::make_unique<Blocking>(job, c, standard)});
  return contenders;
}

void one_partition(Options& options) {
  options.partitions = {1};
}

}  // namespace

Benchmark foreign_benchmark() {
  return {.name = "foreign",
          .what = "What the MPI's own calls cost with the drop-in loaded, against their profiling names",
          .unit = "us",
          .compares_subjects = false,
          .compares_names = true,
          .lacks = {"--window", "--partitions", "--threads", "--delay", "--compute-us", "--noise-percent", "--memory",
                    "--face", "--link", "--transport-partitions", "--peer"},
          .set_defaults = one_partition,
          .contenders = make_foreign_contenders,
          .metric_title = "x_direct_time",
          .metric = times_larger};
}

}  // namespace partita::bench
