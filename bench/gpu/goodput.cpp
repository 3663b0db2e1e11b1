// partitioned.fig4 and .fig5: goodput of C = A + B where C is sent (gpu-initiated-partitioned-mpi, figures 4 and 5).
#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "apps/support/time_limit.hpp"
#include "bench/gpu/benchmarks.hpp"
#include "bench/gpu/measurement.hpp"
#include "bench/gpu/memory_copy.hpp"
#include "bench/gpu/nccl.hpp"
#include "bench/gpu/nvshmem.hpp"
#include "bench/gpu/table.hpp"
#include "bench/gpu/vector_add.hpp"
#include "link/names.hpp"

namespace partita::bench::gpu {

namespace {

/// What all contenders of a case add up.
struct AddendArrays {
  explicit AddendArrays(std::size_t size_bytes) : a(size_bytes), b(size_bytes) {}
  Addends addends() const { return {a.data(), b.data()}; }
  DeviceBuffer a;
  DeviceBuffer b;
};

/// The bytes of a `Buffer` that is made of `arguments`, which ends with them.
template <class Buffer, class... Arguments>
std::shared_ptr<std::byte> bytes_of(const Arguments&... arguments) {
  const auto buffer = std::make_shared<Buffer>(arguments...);
  return {buffer, buffer->data()};
}

/// Rank 0 computes and sends C, rank 1 receives it.
class Addition : public GpuMeasurement {
 public:
  Addition(Job& job, std::string name, const Case& c, std::shared_ptr<AddendArrays> arrays,
           std::shared_ptr<std::byte> sum)
      : GpuMeasurement(job, std::move(name), c), arrays_(std::move(arrays)), sum_(std::move(sum)) {}

  void prepare(std::uint64_t epoch) override {
    if (job_.is_first()) gpu::fill_addends(arrays_->a.data(), arrays_->b.data(), region(), epoch, stream_.get());
    gpu::poison(region(), epoch, stream_.get());
  }
  bool compare(std::uint64_t epoch) const override { return job_.is_first() || compare_region(region(), epoch); }

 protected:
  Addends addends() const { return arrays_->addends(); }
  std::byte* sum() const { return sum_.get(); }
  std::size_t size_bytes() const { return static_cast<std::size_t>(case_.size_bytes); }
  /// A request that sends or receives C.
  RequestShape request_for_sum() const {
    RequestShape shape;
    shape.sends = job_.is_first();
    shape.buffer = sum();
    shape.size_bytes = case_.size_bytes;
    shape.partitions = case_.partitions;
    shape.transport_partitions = job_.options.transport_partitions;
    return shape;
  }

 private:
  Region region() const { return {sum(), size_bytes(), case_.partitions}; }

  std::shared_ptr<AddendArrays> arrays_;
  std::shared_ptr<std::byte> sum_;
};

/// Memory for a case's C.
std::shared_ptr<std::byte> sum_of(const Case& c) {
  return bytes_of<DeviceBuffer>(static_cast<std::size_t>(c.size_bytes));
}

/// One epoch a sample: rank 0's computation and both sides' communication, from rank 0's beginning to the later end.
class Goodput : public Addition {
 public:
  Goodput(Job& job, std::string name, const Case& c, std::shared_ptr<AddendArrays> arrays)
      : Goodput(job, std::move(name), c, std::move(arrays), sum_of(c)) {}
  /// With memory of its own kind for C.
  Goodput(Job& job, std::string name, const Case& c, std::shared_ptr<AddendArrays> arrays,
          std::shared_ptr<std::byte> sum)
      : Addition(job, std::move(name), c, std::move(arrays), std::move(sum)), offset_(measure_offset(job.comm)) {}

  double sample(const Round&) final {
    open();
    job_.barrier();
    const std::int64_t begin_ns = now_ns();
    if (job_.is_first()) {
      compute_and_send();
    } else {
      receive();
    }
    return epoch_us(job_, begin_ns, now_ns(), offset_);
  }

 protected:
  /// What lies before the epoch's computation, untimed.
  virtual void open() {}
  virtual void compute_and_send() = 0;
  virtual void receive() = 0;

  void compute() { launch_vector_add(addends(), sum(), case_.partitions, stream_.get()); }

  // For MPI_Send and MPI_Recv.
  static constexpr int mpi_tag = 77;
  int count() const { return static_cast<int>(size_bytes()); }
  static void check_count(const Case& c) {
    if (c.size_bytes > std::numeric_limits<int>::max())
      throw Failure("{} bytes are too many for MPI_Send.", c.size_bytes);
  }

 private:
  ClockOffset offset_;
};

/// Kernel, synchronisation, copy to the host, MPI_Send; MPI_Recv, copy to the GPU.
class StagedMpi final : public Goodput {
 public:
  StagedMpi(Job& job, std::string name, const Case& c, std::shared_ptr<AddendArrays> arrays)
      : Goodput(job, std::move(name), c, std::move(arrays)), staging_(size_bytes()) {
    check_count(c);
  }

 private:
  void compute_and_send() override {
    compute();
    check(cudaMemcpyAsync(staging_.data(), sum(), size_bytes(), cudaMemcpyDeviceToHost, stream_.get()),
          "cudaMemcpyAsync");
    stream_.synchronize();
    check(PMPI_Send(staging_.data(), count(), MPI_BYTE, job_.peer(), mpi_tag, job_.comm), "MPI_Send");
  }
  void receive() override {
    check(PMPI_Recv(staging_.data(), count(), MPI_BYTE, job_.peer(), mpi_tag, job_.comm, MPI_STATUS_IGNORE),
          "MPI_Recv");
    check(cudaMemcpyAsync(sum(), staging_.data(), size_bytes(), cudaMemcpyHostToDevice, stream_.get()),
          "cudaMemcpyAsync");
    stream_.synchronize();
  }

  PinnedBuffer staging_;
};

/// Kernel, synchronisation, MPI_Send; MPI_Recv: by an MPI that knows GPU memory. The paper's traditional model.
class GpuAwareMpi final : public Goodput {
 public:
  GpuAwareMpi(Job& job, std::string name, const Case& c, std::shared_ptr<AddendArrays> arrays)
      : Goodput(job, std::move(name), c, std::move(arrays)) {
    check_count(c);
  }

 private:
  void compute_and_send() override {
    compute();
    stream_.synchronize();
    check(PMPI_Send(sum(), count(), MPI_BYTE, job_.peer(), mpi_tag, job_.comm), "MPI_Send");
  }
  void receive() override {
    check(PMPI_Recv(sum(), count(), MPI_BYTE, job_.peer(), mpi_tag, job_.comm, MPI_STATUS_IGNORE), "MPI_Recv");
  }
};

/// Through NCCL, in the kernel's stream.
class NcclGoodput final : public Goodput {
 public:
  NcclGoodput(Job& job, std::string name, const Case& c, std::shared_ptr<AddendArrays> arrays,
              std::shared_ptr<apps::Nccl> nccl)
      : Goodput(job, std::move(name), c, std::move(arrays)), nccl_(std::move(nccl)) {}

 private:
  void compute_and_send() override {
    compute();
    nccl_->send(sum(), size_bytes(), job_.peer(), stream_.get());
    stream_.synchronize();
  }
  void receive() override {
    nccl_->receive(sum(), size_bytes(), job_.peer(), stream_.get());
    stream_.synchronize();
  }

  std::shared_ptr<apps::Nccl> nccl_;
};

/// Blocks put their part and a signal each; a kernel awaits the signals.
class NvshmemGoodput final : public Goodput {
 public:
  NvshmemGoodput(Job& job, std::string name, const Case& c, std::shared_ptr<AddendArrays> arrays,
                 const std::shared_ptr<Nvshmem>& nvshmem)
      : Goodput(job, std::move(name), c, std::move(arrays),
                bytes_of<SymmetricBuffer>(nvshmem, static_cast<std::size_t>(c.size_bytes))),
        nvshmem_(nvshmem),
        signals_(nvshmem, sizeof(std::uint64_t) * static_cast<std::size_t>(c.partitions)) {}

 private:
  void open() override { ++epoch_; }
  void compute_and_send() override {
    check(nvshmem_->add_and_put(addends().a, addends().b, sum(), signals_.signals(), epoch_, case_.partitions,
                                vector_add_threads, job_.peer(), stream_.get()),
          "The launch of NVSHMEM's vector addition");
    stream_.synchronize();
  }
  void receive() override {
    check(nvshmem_->await(signals_.signals(), case_.partitions, epoch_, apps::wait_limit_ns(), report_.on_gpu(),
                          stream_.get()),
          "The launch of the kernel that awaits NVSHMEM's signals");
    stream_.synchronize();
    gpu::check(report_.get(), "vector addition");
  }

  std::shared_ptr<Nvshmem> nvshmem_;
  SymmetricBuffer signals_;
  Mailbox<partita_nvshmem_report> report_;
  std::uint64_t epoch_ = 0;
};

/// How a request of Partita's is used, and what of an epoch counts.
struct Mode {
  const char* name;
  bool kernels_mark;  ///< else the host, after a synchronisation with the kernel
  const char* copy;
  bool in_place;
  bool counts_start;  ///< Start and Pbuf_prepare belong to the time
};

constexpr Mode traditional{"traditional", false, "", false, false};
constexpr Mode engine{"engine", true, "engine", false, false};
constexpr Mode kernel{"kernel", true, "kernel", false, false};
constexpr Mode kernel_in_place{"kernel-in-place", true, "kernel", true, false};
constexpr Mode kernel_with_start{"kernel+start", true, "kernel", false, true};

class PartitaGoodput final : public Goodput {
 public:
  PartitaGoodput(Job& job, std::string name, const Case& c, std::shared_ptr<AddendArrays> arrays, const Mode& mode,
                 const std::string& link)
      : Goodput(job, std::move(name), c, std::move(arrays)), mode_(mode), request_(job, shape(link)) {
    if (mode_.kernels_mark && job.is_first()) request_.create_device_request();
  }
  LinkUsed link_used() override { return request_.link_used(); }

 private:
  void open() override {
    if (!mode_.counts_start) start();
  }
  void start() {
    request_.start();
    if (job_.is_first()) request_.prepare();
  }

  void compute_and_send() override {
    if (mode_.counts_start) start();
    if (!mode_.kernels_mark) {
      compute();
      stream_.synchronize();
      request_.ready_all();
    } else if (mode_.in_place) {
      launch_vector_add_in_place(addends(), case_.partitions, request_.for_kernels(), stream_.get());
    } else {
      launch_vector_add_and_mark(addends(), sum(), case_.partitions, request_.for_kernels(), stream_.get());
    }
    request_.wait();
  }
  void receive() override {
    if (mode_.counts_start) start();
    request_.wait();
  }

  RequestShape shape(const std::string& link) const {
    RequestShape shape = request_for_sum();
    shape.link = link;
    shape.copy = mode_.copy;
    shape.in_place = mode_.in_place && job_.is_first();
    return shape;
  }

  Mode mode_;
  Request request_;
};

/// Device-driven on both sides: a kernel on each GPU that is launched once for all epochs of a sample, whose mean it
/// is.
class ResidentGoodput final : public Addition {
 public:
  ResidentGoodput(Job& job, std::string name, const Case& c, std::shared_ptr<AddendArrays> arrays)
      : Addition(job, std::move(name), c, std::move(arrays), sum_of(c)), request_(job, shape()) {
    request_.create_device_request();
  }
  LinkUsed link_used() override { return request_.link_used(); }

  double sample(const Round&) override {
    const int epochs = static_cast<int>(
        std::clamp(sample_bytes / case_.size_bytes, std::int64_t{fewest_epochs}, std::int64_t{most_epochs}));
    MPIX_Prequest request = request_.for_kernels();
    if (request.limit_ns == 0)
      request.limit_ns = apps::wait_limit_ns();  // else a lost rank would leave a kernel behind
    job_.barrier();
    if (job_.is_first()) {
      launch_vector_add_epochs(addends(), sum(), case_.partitions, request, epochs, report_.on_gpu(), stream_.get());
    } else {
      launch_receiving(request, untimed_epochs + epochs, report_.on_gpu(), stream_.get());
    }
    const KernelReport report = finished(report_);
    return job_.is_first() ? static_cast<double>(report.measured_ns) / 1000 / epochs : 0;
  }

 private:
  static constexpr std::int64_t sample_bytes = std::int64_t{1} << 30;
  static constexpr int fewest_epochs = 4, most_epochs = 100;

  RequestShape shape() const {
    RequestShape shape = request_for_sum();
    shape.driver = "device";
    return shape;
  }

  Request request_;
  Mailbox<KernelReport> report_;
};

/// Adds one contender a mode through `link`, compared with the first of `modes`.
void add_modes(std::vector<Contender>& contenders, Job& job, const Case& c, const std::shared_ptr<AddendArrays>& arrays,
               const std::vector<Mode>& modes, const std::string& link) {
  const auto name_of = [&](const Mode& mode) {
    return link == "auto" ? std::string(mode.name) : fmt::format("{}:{}", mode.name, link);
  };
  for (const Mode& mode : modes) {
    const std::string name = name_of(mode);
    contenders.push_back(
        {name, name_of(modes.front()), std::make_unique<PartitaGoodput>(job, name, c, arrays, mode, link)});
  }
}

std::vector<Contender> in_a_node(Job& job, const Subjects&, const Case& c) {
  const auto arrays = std::make_shared<AddendArrays>(static_cast<std::size_t>(c.size_bytes));
  std::vector<Contender> contenders;
  add_modes(contenders, job, c, arrays, {traditional, engine, kernel, kernel_in_place, kernel_with_start}, "auto");
  contenders.push_back({"resident", traditional.name, std::make_unique<ResidentGoodput>(job, "resident", c, arrays)});
  if (job.options.transport_partitions == 0) {  // of which it has none, so that comparing their number needs it once
    contenders.push_back({"staged-mpi", traditional.name, std::make_unique<StagedMpi>(job, "staged-mpi", c, arrays)});
  }
  if (job.options.gpu_aware_mpi) {
    contenders.push_back(
        {"gpu-aware-mpi", traditional.name, std::make_unique<GpuAwareMpi>(job, "gpu-aware-mpi", c, arrays)});
  }
  if (auto nccl = find_nccl(job)) {
    contenders.push_back(
        {"nccl", traditional.name, std::make_unique<NcclGoodput>(job, "nccl", c, arrays, std::move(nccl))});
  }
  if (auto nvshmem = Nvshmem::find(job)) {
    contenders.push_back(
        {"nvshmem", traditional.name, std::make_unique<NvshmemGoodput>(job, "nvshmem", c, arrays, nvshmem)});
  }
  return contenders;
}

std::vector<Contender> between_nodes(Job& job, const Subjects&, const Case& c) {
  const auto arrays = std::make_shared<AddendArrays>(static_cast<std::size_t>(c.size_bytes));
  std::vector<Contender> contenders;
  for (const std::string& link : job.options.links) {
    add_modes(contenders, job, c, arrays, {traditional, engine}, link);
  }
  const std::string reference = contenders.front().name;
  contenders.push_back({"staged-mpi", reference, std::make_unique<StagedMpi>(job, "staged-mpi", c, arrays)});
  return contenders;
}

void set_goodput_defaults(Options& options) {
  options.min_bytes = vector_add_block_bytes;
  options.max_bytes = vector_add_block_bytes << 15;
  options.iterations = 40;
  options.warmup = 5;
}

void set_defaults_between_nodes(Options& options) {
  set_goodput_defaults(options);
  options.links = link::others();
}

Benchmark goodput_benchmark(const Naming& naming) {
  return {.name = naming.name,
          .what = naming.what,
          .unit = "GB/s",
          .larger_is_better = true,
          .timed_in_batches = false,
          .compares_subjects = false,
          .on_gpu = true,
          .set_defaults = set_goodput_defaults,
          .contenders = in_a_node,
          .partitions_of = vector_add_blocks,
          .value = gigabytes_per_second,
          .metric_title = "x_traditional",
          .metric = times_larger};
}

}  // namespace

Benchmark fig4_benchmark() {
  Benchmark benchmark = goodput_benchmark(fig4_naming);
  benchmark.lacks = without({"--link", "--blocks", "--block-threads", "--batch"});
  std::erase(benchmark.lacks, "--gpu-aware-mpi");
  return benchmark;
}

Benchmark fig5_benchmark() {
  Benchmark benchmark = goodput_benchmark(fig5_naming);
  benchmark.lacks = without({"--blocks", "--block-threads", "--batch", "--nccl", "--nvshmem"});
  benchmark.set_defaults = set_defaults_between_nodes;
  benchmark.contenders = between_nodes;
  return benchmark;
}

}  // namespace partita::bench::gpu
