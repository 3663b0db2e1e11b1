// partitioned.fig6 and .fig7: goodput of C = A + B where C is summed over all ranks (gpu-initiated-partitioned-mpi,
// figures 6 and 7).
#include "bench/gpu/allreduce.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "bench/gpu/benchmarks.hpp"
#include "bench/gpu/nccl.hpp"
#include "bench/gpu/summed_addition.hpp"
#include "bench/gpu/table.hpp"
#include "bench/gpu/two_level_sum.hpp"
#include "bench/gpu/vector_add.hpp"

namespace partita::bench::gpu {

namespace {

/// Kernel, copy to the host, synchronisation, MPI_Allreduce, copy back.
class StagedAllreduce final : public SummedAddition {
 public:
  StagedAllreduce(Job& job, std::string name, const Case& c, std::shared_ptr<SummedArrays> arrays)
      : SummedAddition(job, std::move(name), c, std::move(arrays)),
        sent_(SummedAddition::arrays().size_bytes()),
        received_(SummedAddition::arrays().size_bytes()) {}

 private:
  void compute_and_sum() override {
    const Sum sum = arrays().sum();
    launch_add(sum, stream_.get());
    check(cudaMemcpyAsync(sent_.data(), sum.c, arrays().size_bytes(), cudaMemcpyDeviceToHost, stream_.get()),
          "cudaMemcpyAsync");
    stream_.synchronize();
    check(PMPI_Allreduce(sent_.data(), received_.data(), count(), MPI_DOUBLE, MPI_SUM, job_.comm), "MPI_Allreduce");
    check(cudaMemcpyAsync(arrays().received(), received_.data(), arrays().size_bytes(), cudaMemcpyHostToDevice,
                          stream_.get()),
          "cudaMemcpyAsync");
    stream_.synchronize();
  }

  PinnedBuffer sent_, received_;
};

/// Kernel, synchronisation, MPI_Allreduce by an MPI that knows GPU memory. The paper's traditional model.
class GpuAwareAllreduce final : public SummedAddition {
 public:
  using SummedAddition::SummedAddition;

 private:
  void compute_and_sum() override {
    launch_add(arrays().sum(), stream_.get());
    stream_.synchronize();
    check(PMPI_Allreduce(arrays().sum().c, arrays().received(), count(), MPI_DOUBLE, MPI_SUM, job_.comm),
          "MPI_Allreduce");
  }
};

class NcclSum final : public SummedAddition {
 public:
  NcclSum(Job& job, std::string name, const Case& c, std::shared_ptr<SummedArrays> arrays,
          std::shared_ptr<apps::Nccl> nccl)
      : SummedAddition(job, std::move(name), c, std::move(arrays)), nccl_(std::move(nccl)) {}

 private:
  void compute_and_sum() override {
    launch_add(arrays().sum(), stream_.get());
    nccl_->all_reduce_sum(arrays().sum().c, arrays().received(), static_cast<std::size_t>(arrays().count()),
                          stream_.get());
    stream_.synchronize();
  }

  std::shared_ptr<apps::Nccl> nccl_;
};

/// The init call of an allreduce of C over all ranks.
auto allreduce_of(const SummedArrays& arrays, int partitions) {
  return [&arrays, partitions](MPI_Info info, Partita_Request* request) {
    return Partita_Pallreduce_init(arrays.sum().c, arrays.received(), partitions,
                                   static_cast<MPI_Count>(arrays.count() / partitions), MPI_DOUBLE, MPI_SUM,
                                   MPI_COMM_WORLD, info, request);
  };
}

/// Blocks mark, and the progress engine walks the schedule. `counts_start`: Start and Pbuf_prepare belong to the time.
class Schedule final : public SummedAddition {
 public:
  Schedule(Job& job, std::string name, const Case& c, std::shared_ptr<SummedArrays> arrays, bool counts_start)
      : SummedAddition(job, std::move(name), c, std::move(arrays)),
        counts_start_(counts_start),
        allreduce_("Partita_Pallreduce_init", "host", allreduce_of(SummedAddition::arrays(), c.partitions)) {}
  LinkUsed link_used() override { return allreduce_.link_used(); }

 private:
  void open() override {
    if (!counts_start_) allreduce_.start();
  }
  void compute_and_sum() override {
    if (counts_start_) allreduce_.start();
    launch_add_and_mark(arrays().sum(), allreduce_.for_kernels(), stream_.get());
    allreduce_.wait();
  }

  bool counts_start_;
  SummingRequest allreduce_;
};

/// One kernel adds and sums.
class InKernel final : public SummedAddition {
 public:
  InKernel(Job& job, std::string name, const Case& c, std::shared_ptr<SummedArrays> arrays, int most_blocks)
      : SummedAddition(job, std::move(name), c, std::move(arrays)),
        blocks_(std::min(c.partitions, most_blocks)),
        allreduce_("Partita_Pallreduce_init", "device", allreduce_of(SummedAddition::arrays(), 1)) {}

 private:
  void open() override { report_.clear(); }
  void compute_and_sum() override {
    launch_add_and_allreduce(arrays().sum(), allreduce_.for_kernels(), blocks_, report_.on_gpu(), stream_.get());
    finished(report_);
  }

  int blocks_;
  SummingRequest allreduce_;
  Mailbox<KernelReport> report_;
};

constexpr const char* summing_reference = "staged-mpi";

std::shared_ptr<SummedArrays> arrays_of(const Case& c) {
  if (c.size_bytes / static_cast<std::int64_t>(sizeof(double)) > std::numeric_limits<int>::max()) {
    throw Failure("{} bytes are too many for MPI_Allreduce.", c.size_bytes);
  }
  return std::make_shared<SummedArrays>(c.size_bytes);
}

/// What is the same in a node and on two, and `in_kernels`, the ways in which kernels sum.
std::vector<Contender> sum_contenders(Job& job, const Case& c, const std::shared_ptr<SummedArrays>& arrays,
                                      std::vector<Contender> in_kernels) {
  std::vector<Contender> contenders;
  contenders.push_back(
      {summing_reference, summing_reference, std::make_unique<StagedAllreduce>(job, summing_reference, c, arrays)});
  if (job.options.gpu_aware_mpi) {
    contenders.push_back(
        {"gpu-aware-mpi", summing_reference, std::make_unique<GpuAwareAllreduce>(job, "gpu-aware-mpi", c, arrays)});
  }
  for (const auto& [name, counts_start] : {std::pair("schedule", false), std::pair("schedule+start", true)}) {
    contenders.push_back({name, summing_reference, std::make_unique<Schedule>(job, name, c, arrays, counts_start)});
  }
  std::move(in_kernels.begin(), in_kernels.end(), std::back_inserter(contenders));
  if (auto nccl = find_nccl(job)) {
    contenders.push_back(
        {"nccl", summing_reference, std::make_unique<NcclSum>(job, "nccl", c, arrays, std::move(nccl))});
  }
  return contenders;
}

std::vector<Contender> sums_in_a_node(Job& job, const Subjects&, const Case& c) {
  const auto arrays = arrays_of(c);
  std::vector<Contender> in_kernels;
  in_kernels.push_back({"in-kernel", summing_reference,
                        std::make_unique<InKernel>(job, "in-kernel", c, arrays, most_blocks_of_a_rank(job))});
  return sum_contenders(job, c, arrays, std::move(in_kernels));
}

std::vector<Contender> sums_on_two_nodes(Job& job, const Subjects&, const Case& c) {
  const auto arrays = arrays_of(c);
  return sum_contenders(job, c, arrays, two_level_contenders(job, c, arrays, summing_reference));
}

void set_allreduce_defaults(Options& options) {
  options.min_bytes = vector_add_block_bytes;
  options.max_bytes = vector_add_block_bytes << 11;
  options.iterations = 40;
  options.warmup = 5;
}

Benchmark allreduce_benchmark(const Naming& naming) {
  Benchmark benchmark{
      .name = naming.name,
      .what = naming.what,
      .unit = "GB/s",
      .larger_is_better = true,
      .timed_in_batches = false,
      .compares_subjects = false,
      .ranks = Ranks::any,
      .on_gpu = true,
      .lacks = without({"--link", "--blocks", "--block-threads", "--batch", "--transport-partitions", "--nvshmem"}),
      .set_defaults = set_allreduce_defaults,
      .contenders = sums_in_a_node,
      .partitions_of = vector_add_blocks,
      .value = gigabytes_per_second,
      .metric_title = "x_staged_mpi",
      .metric = times_larger};
  std::erase(benchmark.lacks, "--gpu-aware-mpi");
  return benchmark;
}

}  // namespace

Benchmark fig6_benchmark() {
  return allreduce_benchmark(fig6_naming);
}

Benchmark fig7_benchmark() {
  Benchmark benchmark = allreduce_benchmark(fig7_naming);
  benchmark.ranks = Ranks::even;
  benchmark.contenders = sums_on_two_nodes;
  return benchmark;
}

}  // namespace partita::bench::gpu
