// partitioned.fig6: goodput of C = A + B where C is summed over all ranks (gpu-initiated-partitioned-mpi, figure 6).
#include "bench/gpu/allreduce.hpp"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <memory>
#include <vector>

#include "apps/support/gpus.hpp"
#include "apps/support/node.hpp"
#include "apps/support/time_limit.hpp"
#include "bench/gpu/benchmarks.hpp"
#include "bench/gpu/measurement.hpp"
#include "bench/gpu/nccl.hpp"
#include "bench/gpu/table.hpp"
#include "bench/gpu/vector_add.hpp"

namespace partita::bench::gpu {

namespace {

/// What all contenders of a case add up and receive, in GPU memory.
class Arrays {
 public:
  explicit Arrays(std::int64_t size_bytes)
      : count_(size_bytes / static_cast<std::int64_t>(sizeof(double))),
        a_(static_cast<std::size_t>(size_bytes)),
        b_(a_.size()),
        c_(a_.size()),
        received_(a_.size()),
        host_(static_cast<std::size_t>(count_)) {}

  Sum sum() const { return {doubles(a_), doubles(b_), doubles(c_), count_}; }
  double* received() const { return doubles(received_); }
  std::int64_t count() const { return count_; }
  std::size_t size_bytes() const { return a_.size(); }

  /// Puts the addends of `epoch` there and spoils the sums.
  void prepare(int rank, std::uint64_t epoch) {
    upload(a_, [&](std::int64_t i) { return part(rank, epoch, i) - static_cast<double>(i); });
    upload(b_, [](std::int64_t i) { return static_cast<double>(i); });
    check(cudaMemset(c_.data(), 0xff, c_.size()), "cudaMemset");
    check(cudaMemset(received_.data(), 0xff, received_.size()), "cudaMemset");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
  /// The first element that is not the sum over the ranks; count() where there is none.
  std::int64_t first_wrong(int ranks, std::uint64_t epoch) {
    check(cudaMemcpy(host_.data(), received_.data(), received_.size(), cudaMemcpyDeviceToHost), "cudaMemcpy");
    for (std::int64_t i = 0; i < count_; ++i) {
      double expected = 0;
      for (int rank = 0; rank < ranks; ++rank) expected += part(rank, epoch, i);
      if (host_[static_cast<std::size_t>(i)] != expected) return i;
    }
    return count_;
  }

 private:
  static double* doubles(const DeviceBuffer& buffer) { return reinterpret_cast<double*>(buffer.data()); }
  /// C of a rank. A whole number, so that any order of the ranks gives the same sum.
  static double part(int rank, std::uint64_t epoch, std::int64_t i) {
    return static_cast<double>((rank * 1009 + static_cast<std::int64_t>(epoch % 1000) * 31 + i * 7) & 0xfffff);
  }
  template <class Value>
  void upload(const DeviceBuffer& buffer, Value value) {
    for (std::int64_t i = 0; i < count_; ++i) host_[static_cast<std::size_t>(i)] = value(i);
    check(cudaMemcpy(buffer.data(), host_.data(), buffer.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
  }

  std::int64_t count_;
  DeviceBuffer a_, b_, c_, received_;
  std::vector<double> host_;
};

/// One epoch a sample: the computation and the sum, from the barrier before it to this rank's end.
class SummedAddition : public GpuMeasurement {
 public:
  SummedAddition(Job& job, std::string name, const Case& c, std::shared_ptr<Arrays> arrays)
      : GpuMeasurement(job, std::move(name), c), arrays_(std::move(arrays)) {}

  void prepare(std::uint64_t epoch) final { arrays_->prepare(job_.rank, epoch); }
  bool compare(std::uint64_t epoch) const final {
    const std::int64_t wrong = arrays_->first_wrong(job_.ranks, epoch);
    if (wrong == arrays_->count()) return true;
    std::fprintf(stderr, "rank %d: %s: element %lld is not the sum of all ranks'\n", job_.rank, name_.c_str(),
                 static_cast<long long>(wrong));
    return false;
  }
  double sample(const Round&) final {
    open();
    job_.barrier();
    const std::int64_t begin_ns = now_ns();
    compute_and_sum();
    return static_cast<double>(now_ns() - begin_ns) / 1000;
  }

 protected:
  /// What lies before the epoch's computation, untimed.
  virtual void open() {}
  /// Until this rank may read the sums.
  virtual void compute_and_sum() = 0;

  const Arrays& arrays() const { return *arrays_; }
  int count() const { return static_cast<int>(arrays_->count()); }

 private:
  std::shared_ptr<Arrays> arrays_;
};

/// Kernel, copy to the host, synchronisation, MPI_Allreduce, copy back.
class StagedAllreduce final : public SummedAddition {
 public:
  StagedAllreduce(Job& job, std::string name, const Case& c, std::shared_ptr<Arrays> arrays)
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
  NcclSum(Job& job, std::string name, const Case& c, std::shared_ptr<Arrays> arrays, std::shared_ptr<apps::Nccl> nccl)
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

/// A partitioned allreduce of C and its device request.
class Allreduce {
 public:
  Allreduce(const Arrays& arrays, int partitions, const char* driver) {
    RequestShape shape;
    shape.driver = driver;
    const OwnedInfo info = info_of(shape);
    check(Partita_Pallreduce_init(arrays.sum().c, arrays.received(), partitions,
                                  static_cast<MPI_Count>(arrays.count() / partitions), MPI_DOUBLE, MPI_SUM,
                                  MPI_COMM_WORLD, info.get(), &request_),
          "Partita_Pallreduce_init");
    check(Partita_Prequest_create(&prequest_, request_), "Partita_Prequest_create");
    if (prequest_.limit_ns == 0) prequest_.limit_ns = apps::wait_limit_ns();
  }
  ~Allreduce() {
    Partita_Prequest_free(&prequest_);
    Partita_Request_free(&request_);
  }
  Allreduce(const Allreduce&) = delete;
  Allreduce& operator=(const Allreduce&) = delete;

  const MPIX_Prequest& for_kernels() const { return prequest_; }
  void start() {
    check(Partita_Start(&request_), "Partita_Start");
    check(Partita_Pbuf_prepare(request_), "Partita_Pbuf_prepare");
  }
  void wait() { check(Partita_Wait(&request_, MPI_STATUS_IGNORE), "Partita_Wait"); }

 private:
  Partita_Request request_ = PARTITA_REQUEST_NULL;
  MPIX_Prequest prequest_{};
};

/// Blocks mark, and the progress engine walks the schedule. `counts_start`: Start and Pbuf_prepare belong to the time.
class Schedule final : public SummedAddition {
 public:
  Schedule(Job& job, std::string name, const Case& c, std::shared_ptr<Arrays> arrays, bool counts_start)
      : SummedAddition(job, std::move(name), c, std::move(arrays)),
        counts_start_(counts_start),
        allreduce_(SummedAddition::arrays(), c.partitions, "host") {}

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
  Allreduce allreduce_;
};

/// One kernel adds and sums.
class InKernel final : public SummedAddition {
 public:
  InKernel(Job& job, std::string name, const Case& c, std::shared_ptr<Arrays> arrays, int most_blocks)
      : SummedAddition(job, std::move(name), c, std::move(arrays)),
        blocks_(std::min(c.partitions, most_blocks)),
        allreduce_(SummedAddition::arrays(), 1, "device") {}

 private:
  void open() override { report_.clear(); }
  void compute_and_sum() override {
    launch_add_and_allreduce(arrays().sum(), allreduce_.for_kernels(), blocks_, report_.on_gpu(), stream_.get());
    finished(report_);
  }

  int blocks_;
  Allreduce allreduce_;
  Mailbox<KernelReport> report_;
};

/// Ranks that share a GPU have as many blocks together as it runs at once.
int most_blocks_of_a_rank(const Job& job) {
  const cudaDeviceProp properties = apps::properties_of_current_gpu();
  const int sharing = apps::ranks_share_a_gpu(job.comm, properties.uuid) ? apps::find_node(job.comm).ranks : 1;
  return std::max(1, std::min(most_allreduce_blocks(), properties.multiProcessorCount) / sharing);
}

std::vector<Contender> make_allreduce_contenders(Job& job, const Subjects&, const Case& c) {
  if (c.size_bytes / static_cast<std::int64_t>(sizeof(double)) > std::numeric_limits<int>::max()) {
    throw Failure("{} bytes are too many for MPI_Allreduce.", c.size_bytes);
  }
  const auto arrays = std::make_shared<Arrays>(c.size_bytes);
  const std::string reference = "staged-mpi";
  std::vector<Contender> contenders;
  contenders.push_back({reference, reference, std::make_unique<StagedAllreduce>(job, reference, c, arrays)});
  if (job.options.gpu_aware_mpi) {
    contenders.push_back(
        {"gpu-aware-mpi", reference, std::make_unique<GpuAwareAllreduce>(job, "gpu-aware-mpi", c, arrays)});
  }
  for (const auto& [name, counts_start] : {std::pair("schedule", false), std::pair("schedule+start", true)}) {
    contenders.push_back({name, reference, std::make_unique<Schedule>(job, name, c, arrays, counts_start)});
  }
  contenders.push_back(
      {"in-kernel", reference, std::make_unique<InKernel>(job, "in-kernel", c, arrays, most_blocks_of_a_rank(job))});
  if (auto nccl = find_nccl(job)) {
    contenders.push_back({"nccl", reference, std::make_unique<NcclSum>(job, "nccl", c, arrays, std::move(nccl))});
  }
  return contenders;
}

void set_allreduce_defaults(Options& options) {
  options.min_bytes = vector_add_block_bytes;
  options.max_bytes = vector_add_block_bytes << 11;
  options.iterations = 40;
  options.warmup = 5;
}

}  // namespace

Benchmark fig6_benchmark() {
  Benchmark benchmark{
      .name = fig6_naming.name,
      .what = fig6_naming.what,
      .unit = "GB/s",
      .larger_is_better = true,
      .timed_in_batches = false,
      .compares_subjects = false,
      .ranks = Ranks::any,
      .on_gpu = true,
      .lacks = without({"--link", "--blocks", "--block-threads", "--batch", "--transport-partitions", "--nvshmem"}),
      .set_defaults = set_allreduce_defaults,
      .contenders = make_allreduce_contenders,
      .partitions_of = vector_add_blocks,
      .value = gigabytes_per_second,
      .metric_title = "x_staged_mpi",
      .metric = times_larger};
  std::erase(benchmark.lacks, "--gpu-aware-mpi");
  return benchmark;
}

}  // namespace partita::bench::gpu
