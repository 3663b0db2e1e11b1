// allreduce, allgather, reduce_scatter, alltoall, bcast: from the last mark of a rank to the end of the collective
// there. The partitions are marked --compute-us apart, so that what travels alone has left when the last one is marked;
// a collective of one partition, and the MPI's blocking one, begin then.
#include <array>

#include "bench/benchmarks/all.hpp"
#include "bench/bus_bytes.hpp"
#include "bench/partita_calls.hpp"

namespace partita::bench {

namespace {

using Element = std::int32_t;
constexpr MPI_Datatype element_type() {
  return MPI_INT32_T;
}

/// Between two looks at the clock, so that marks are late by no more.
constexpr double computed_between_looks_us = 5;

/// What rank `sender` has for rank `receiver` at `place` of a block. Small, so that sums do not overflow.
Element sent_value(int sender, int receiver, std::size_t place, std::uint64_t epoch) {
  const std::uint64_t mixed = (static_cast<std::uint64_t>(sender) * 131 + static_cast<std::uint64_t>(receiver)) * 1009 +
                              place * 31 + epoch * 17;
  return static_cast<Element>(mixed % 10007);
}

/// The buffers of one epoch, and how many elements a partition has of each block.
struct Call {
  const Element* sent;
  Element* received;
  int partitions;
  int count;

  int block() const { return partitions * count; }
};

/// One collective, by Partita's call and the MPI's.
struct Collective {
  std::string_view name;
  std::string_view what;
  bool sends_to_each;       ///< a block for every rank, else one for all
  bool receives_from_each;  ///< a block of every rank, else one
  bool is_rooted;           ///< only rank 0 sends
  bool sums;
  int (*init)(const Call&, MPI_Comm, MPI_Info, Partita_Request*);
  int (*of_mpi)(const Call&, MPI_Comm);
};

constexpr std::array collectives = {
    Collective{"allreduce", "Allreduce of 32-bit integers", false, false, false, true,
               [](const Call& c, MPI_Comm comm, MPI_Info info, Partita_Request* request) {
                 return Partita_Pallreduce_init(c.sent, c.received, c.partitions, c.count, element_type(), MPI_SUM,
                                                comm, info, request);
               },
               [](const Call& c, MPI_Comm comm) {
                 return PMPI_Allreduce(c.sent, c.received, c.block(), element_type(), MPI_SUM, comm);
               }},
    Collective{"allgather", "Allgather", false, true, false, false,
               [](const Call& c, MPI_Comm comm, MPI_Info info, Partita_Request* request) {
                 return Partita_Pallgather_init(c.sent, c.partitions, c.count, element_type(), c.received, c.count,
                                                element_type(), comm, info, request);
               },
               [](const Call& c, MPI_Comm comm) {
                 return PMPI_Allgather(c.sent, c.block(), element_type(), c.received, c.block(), element_type(), comm);
               }},
    Collective{"reduce_scatter", "Reduce_scatter_block of 32-bit integers", true, false, false, true,
               [](const Call& c, MPI_Comm comm, MPI_Info info, Partita_Request* request) {
                 return Partita_Preduce_scatter_block_init(c.sent, c.received, c.partitions, c.count, element_type(),
                                                           MPI_SUM, comm, info, request);
               },
               [](const Call& c, MPI_Comm comm) {
                 return PMPI_Reduce_scatter_block(c.sent, c.received, c.block(), element_type(), MPI_SUM, comm);
               }},
    Collective{"alltoall", "Alltoall", true, true, false, false,
               [](const Call& c, MPI_Comm comm, MPI_Info info, Partita_Request* request) {
                 return Partita_Palltoall_init(c.sent, c.partitions, c.count, element_type(), c.received, c.count,
                                               element_type(), comm, info, request);
               },
               [](const Call& c, MPI_Comm comm) {
                 return PMPI_Alltoall(c.sent, c.block(), element_type(), c.received, c.block(), element_type(), comm);
               }},
    // All ranks use the receive buffer, as a broadcast has one buffer only.
    Collective{"bcast", "Bcast from rank 0", false, false, true, false,
               [](const Call& c, MPI_Comm comm, MPI_Info info, Partita_Request* request) {
                 return Partita_Pbcast_init(c.received, c.partitions, c.count, element_type(), 0, comm, info, request);
               },
               [](const Call& c, MPI_Comm comm) { return PMPI_Bcast(c.received, c.block(), element_type(), 0, comm); }},
};

/// One epoch after the other on one rank; how it sends is the derived classes'.
class CollectiveMeasurement : public Measurement {
 public:
  CollectiveMeasurement(Job& job, const Collective& collective, const Case& c)
      : job_(job),
        collective_(collective),
        marks_(c.partitions),
        block_(static_cast<std::size_t>(c.size_bytes) / sizeof(Element)),
        sent_(block_ * (collective.sends_to_each ? ranks() : 1)),
        received_(block_ * (collective.receives_from_each ? ranks() : 1)) {
    if (c.size_bytes % static_cast<std::int64_t>(sizeof(Element) * static_cast<std::size_t>(c.partitions)) != 0) {
      throw Failure("{} bytes do not divide into {} partitions of 32-bit integers; expected is a size that does.",
                    c.size_bytes, c.partitions);
    }
  }

  void prepare(std::uint64_t epoch) override {
    for (std::size_t i = 0; i < sent_.size(); ++i) {
      const int receiver = collective_.sends_to_each ? static_cast<int>(i / block_) : 0;
      sent_[i] = sent_value(job_.rank, receiver, i % block_, epoch);
    }
    for (std::size_t i = 0; i < received_.size(); ++i) received_[i] = ~expected(i, epoch);
    if (collective_.is_rooted && job_.is_first()) received_ = sent_;
  }

  bool compare(std::uint64_t epoch) const override {
    for (std::size_t i = 0; i < received_.size(); ++i) {
      if (received_[i] == expected(i, epoch)) continue;
      fmt::print(stderr,
                 "partita bench: wrong data: rank {} element {}: expected {}, got {}; {} of {} elements a block\n",
                 job_.rank, i, expected(i, epoch), received_[i], collective_.name, block_);
      return false;
    }
    return true;
  }

  /// Microseconds from this rank's last mark to its end of the collective.
  double sample(const Round&) override {
    job_.barrier();
    start();
    const std::int64_t begin_ns = now_ns();
    for (int mark = 0; mark < marks_; ++mark) {
      const auto due_ns = static_cast<std::int64_t>(mark * job_.options.delay.compute_us * 1000);
      while (now_ns() - begin_ns < due_ns) job_.work.compute(computed_between_looks_us);
      if (mark + 1 < marks_ && sends()) this->mark(mark);
    }
    const std::int64_t last_ns = now_ns();
    finish();
    return static_cast<double>(now_ns() - last_ns) / 1000;
  }

 protected:
  virtual void start() {}
  /// All marks but the last.
  virtual void mark(int) {}
  /// The last mark, and the wait.
  virtual void finish() = 0;
  bool sends() const { return !collective_.is_rooted || job_.is_first(); }
  std::size_t ranks() const { return static_cast<std::size_t>(job_.ranks); }
  Call call(int partitions) {
    return {sent_.data(), received_.data(), partitions, static_cast<int>(block_) / partitions};
  }

  Job& job_;
  const Collective& collective_;
  const int marks_;

 private:
  Element expected(std::size_t i, std::uint64_t epoch) const {
    const std::size_t place = i % block_;
    const int receiver = collective_.sends_to_each ? job_.rank : 0;
    if (!collective_.sums) {
      return sent_value(collective_.receives_from_each ? static_cast<int>(i / block_) : 0, receiver, place, epoch);
    }
    Element sum = 0;
    for (int sender = 0; sender < job_.ranks; ++sender) sum += sent_value(sender, receiver, place, epoch);
    return sum;
  }

  const std::size_t block_;
  std::vector<Element> sent_;
  std::vector<Element> received_;
};

class OfMpi final : public CollectiveMeasurement {
 public:
  using CollectiveMeasurement::CollectiveMeasurement;

 private:
  void finish() override { check(collective_.of_mpi(call(1), job_.comm), "the MPI's collective"); }
};

/// In as many partitions as there are marks, or in one.
class Partitioned final : public CollectiveMeasurement {
 public:
  Partitioned(Job& job, const Collective& collective, const Case& c, const std::string& link, int partitions)
      : CollectiveMeasurement(job, collective, c), partitions_(partitions) {
    const Call made = call(partitions);
    MPI_Info info = MPI_INFO_NULL;
    check(PMPI_Info_create(&info), "MPI_Info_create");
    check(PMPI_Info_set(info, "partita_link", link.c_str()), "MPI_Info_set");
    check(collective.init(made, MPI_COMM_WORLD, info, &request_), "the init call");
    check(PMPI_Info_free(&info), "MPI_Info_free");
  }
  ~Partitioned() override { Partita_Request_free(&request_); }
  Partitioned(const Partitioned&) = delete;
  Partitioned& operator=(const Partitioned&) = delete;

  LinkUsed link_used() override { return PartitaCalls::link_used(request_); }

 private:
  void start() override { check(Partita_Start(&request_), "Partita_Start"); }
  void mark(int partition) override {
    if (partitions_ > 1) check(Partita_Pready(partition, request_), "Partita_Pready");
  }
  void finish() override {
    if (sends()) check(Partita_Pready(partitions_ - 1, request_), "Partita_Pready");
    check(Partita_Wait(&request_, MPI_STATUS_IGNORE), "Partita_Wait");
  }

  const int partitions_;
  Partita_Request request_ = PARTITA_REQUEST_NULL;
};

constexpr const char* mpi_name = "mpi";

/// None where marks are apart: then part of the data has moved before the time begins.
double bus_bytes_of(const Collective& collective, const Job& job, std::int64_t block_bytes) {
  if (job.options.delay.compute_us > 0) return 0;
  if (collective.is_rooted) return bus_bytes_of_bcast(block_bytes, job.ranks);
  if (collective.sends_to_each || collective.receives_from_each) return bus_bytes_of_blocks(block_bytes, job.ranks);
  return bus_bytes_of_allreduce(block_bytes, job.ranks);
}

template <std::size_t index>
std::vector<Contender> contenders(Job& job, const Subjects&, const Case& c) {
  const Collective& collective = collectives.at(index);
  std::vector<Contender> all;
  all.push_back({mpi_name, mpi_name, std::make_unique<OfMpi>(job, collective, c)});
  for (const std::string& link : job.options.links) {
    const std::string suffix = link == "auto" ? "" : ":" + link;
    const auto add = [&](const char* name, int partitions) {
      all.push_back({name + suffix, mpi_name, std::make_unique<Partitioned>(job, collective, c, link, partitions)});
    };
    add("partita-c", c.partitions);
    if (c.partitions > 1) add("one-partition", 1);
  }
  for (Contender& each : all) each.bus_bytes = bus_bytes_of(collective, job, c.size_bytes);
  return all;
}

void set_collectives_defaults(Options& options) {
  options.min_bytes = 1 << 10;
  options.max_bytes = 1 << 20;
  options.iterations = 100;
  options.warmup = 10;
}

template <std::size_t index>
Benchmark collective_benchmark() {
  return {.name = collectives.at(index).name,
          .what = collectives.at(index).what,
          .unit = "us",
          .timed_in_batches = false,
          .compares_subjects = false,
          .ranks = Ranks::any,
          .lacks = {"--window", "--batch", "--threads", "--delay", "--noise-percent", "--memory", "--face",
                    "--transport-partitions", "--peer"},
          .set_defaults = set_collectives_defaults,
          .contenders = contenders<index>,
          .metric_title = "x_mpi",
          .metric = times_faster};
}

}  // namespace

std::vector<Benchmark> collective_benchmarks() {
  return {collective_benchmark<0>(), collective_benchmark<1>(), collective_benchmark<2>(), collective_benchmark<3>(),
          collective_benchmark<4>()};
}

}  // namespace partita::bench
