#include "bench/gpu/two_level_sum.hpp"

#include <algorithm>
#include <utility>

#include "bench/two_nodes.hpp"

namespace partita::bench::gpu {

namespace {

/// As many ranks do a collective in kernels (docs/design/collectives.md).
constexpr int most_ranks_in_kernels = 8;

/// In the time of a sample: a kernel adds and sums over the node, then marks what the host-driven allreduce with the
/// other node's rank of the same place takes.
class TwoLevelSum : public SummedAddition {
 protected:
  TwoLevelSum(Job& job, std::string name, const Case& c, std::shared_ptr<SummedArrays> arrays)
      : SummedAddition(job, std::move(name), c, std::move(arrays)),
        blocks_(std::min(c.partitions, most_blocks_of_a_rank(job))) {}

  /// Ends an epoch of what joins the two nodes. Failure where that goes by the link of one node, as the first one
  /// tells.
  void await_across(SummingRequest& across) {
    across.wait();
    if (is_checked_) return;
    const std::string link = across.link_used().link;
    if (link.empty() || link == "direct") {
      throw Failure("{}: the two nodes are joined by link {}, which serves one node; expected is one of a network.",
                    name_, link.empty() ? "none" : link);
    }
    is_checked_ = true;
  }
  int blocks() const { return blocks_; }
  KernelReport* cleared_report() {
    report_.clear();
    return report_.on_gpu();
  }
  void look_at_report() { finished(report_); }

 private:
  int blocks_;
  bool is_checked_ = false;
  Mailbox<KernelReport> report_;
};

/// The init call of an allreduce with the other node.
auto allreduce_across(const apps::TwoNodes& nodes, const double* mine, double* summed, std::int64_t count,
                      int partitions) {
  return [&nodes, mine, summed, count, partitions](MPI_Info info, Partita_Request* request) {
    return Partita_Pallreduce_init(mine, summed, partitions, static_cast<MPI_Count>(count / partitions), MPI_DOUBLE,
                                   MPI_SUM, nodes.across(), info, request);
  };
}

/// Each rank of a node has a part of C: kernels reduce it there, the engine adds the other node's, kernels spread it.
class ScatteredSum final : public TwoLevelSum {
 public:
  ScatteredSum(Job& job, std::string name, const Case& c, std::shared_ptr<SummedArrays> arrays_of_case,
               const apps::TwoNodes& nodes)
      : TwoLevelSum(job, std::move(name), c, std::move(arrays_of_case)),
        part_count_(arrays().count() / nodes.ranks_of_a_node()),
        partitions_(c.partitions % nodes.ranks_of_a_node() == 0 ? c.partitions / nodes.ranks_of_a_node() : 1),
        mine_(static_cast<std::size_t>(part_count_) * sizeof(double)),
        summed_(mine_.size()),
        scatter_("Partita_Preduce_scatter_block_init", "device",
                 [&](MPI_Info info, Partita_Request* request) {
                   return Partita_Preduce_scatter_block_init(arrays().sum().c, part(mine_), 1,
                                                             static_cast<MPI_Count>(part_count_), MPI_DOUBLE, MPI_SUM,
                                                             nodes.within(), info, request);
                 }),
        across_("Partita_Pallreduce_init", "host",
                allreduce_across(nodes, part(mine_), part(summed_), part_count_, partitions_)),
        gather_("Partita_Pallgather_init", "device", [&](MPI_Info info, Partita_Request* request) {
          return Partita_Pallgather_init(part(summed_), 1, static_cast<MPI_Count>(part_count_), MPI_DOUBLE,
                                         arrays().received(), static_cast<MPI_Count>(part_count_), MPI_DOUBLE,
                                         nodes.within(), info, request);
        }) {}
  LinkUsed link_used() override { return across_.link_used(); }

 private:
  static double* part(const DeviceBuffer& buffer) { return reinterpret_cast<double*>(buffer.data()); }

  void open() override { across_.start(); }
  void compute_and_sum() override {
    KernelReport* report = cleared_report();
    launch_add_and_scatter(arrays().sum(), scatter_.for_kernels(), across_.for_kernels(), partitions_, blocks(), report,
                           stream_.get());
    await_across(across_);
    launch_gather(gather_.for_kernels(), blocks(), report, stream_.get());
    look_at_report();
  }

  std::int64_t part_count_;
  int partitions_;
  DeviceBuffer mine_, summed_;
  SummingRequest scatter_, across_, gather_;
};

/// Each rank of a node has all of C: one launch fewer, and so many times as many bytes between the nodes.
class WholeSum final : public TwoLevelSum {
 public:
  WholeSum(Job& job, std::string name, const Case& c, std::shared_ptr<SummedArrays> arrays_of_case,
           const apps::TwoNodes& nodes)
      : TwoLevelSum(job, std::move(name), c, std::move(arrays_of_case)),
        of_node_(arrays().size_bytes()),
        within_("Partita_Pallreduce_init", "device",
                [&](MPI_Info info, Partita_Request* request) {
                  return Partita_Pallreduce_init(arrays().sum().c, of_node(), 1,
                                                 static_cast<MPI_Count>(arrays().count()), MPI_DOUBLE, MPI_SUM,
                                                 nodes.within(), info, request);
                }),
        across_("Partita_Pallreduce_init", "host",
                allreduce_across(nodes, of_node(), arrays().received(), arrays().count(), c.partitions)) {}
  LinkUsed link_used() override { return across_.link_used(); }

 private:
  double* of_node() const { return reinterpret_cast<double*>(of_node_.data()); }

  void open() override { across_.start(); }
  void compute_and_sum() override {
    launch_add_and_sum_in_node(arrays().sum(), within_.for_kernels(), across_.for_kernels(), case_.partitions, blocks(),
                               cleared_report(), stream_.get());
    await_across(across_);
    look_at_report();
  }

  DeviceBuffer of_node_;
  SummingRequest within_, across_;
};

}  // namespace

std::vector<Contender> two_level_contenders(Job& job, const Case& c, const std::shared_ptr<SummedArrays>& arrays,
                                            const std::string& reference) {
  const auto nodes = find_two_nodes(job);
  const int ranks = nodes->ranks_of_a_node();
  std::vector<Contender> contenders;
  if (ranks > most_ranks_in_kernels) {
    job.note(
        fmt::format("two-level and two-level-whole are left out: kernels sum over {} ranks of a node at most, and "
                    "here are {}",
                    most_ranks_in_kernels, ranks));
    return contenders;
  }
  if (arrays->count() % ranks == 0) {
    contenders.push_back({"two-level", reference, std::make_unique<ScatteredSum>(job, "two-level", c, arrays, *nodes)});
  } else {
    job.note(fmt::format("two-level is left out at {} bytes: {} numbers do not divide among the {} ranks of a node",
                         c.size_bytes, arrays->count(), ranks));
  }
  contenders.push_back(
      {"two-level-whole", reference, std::make_unique<WholeSum>(job, "two-level-whole", c, arrays, *nodes)});
  return contenders;
}

}  // namespace partita::bench::gpu
