// partitioned.late-neighbours: how long a partition takes from a kernel's mark to the receiver's host when its
// neighbours are marked a good while later.
#include "bench/gpu/late_neighbours.hpp"

#include <atomic>
#include <thread>

#include "apps/support/time_limit.hpp"
#include "bench/gpu/benchmarks.hpp"
#include "bench/gpu/measurement.hpp"
#include "bench/gpu/table.hpp"
#include "link/names.hpp"

namespace partita::bench::gpu {

namespace {

constexpr int arrival_tag = 78;

/// One epoch: the sender's kernel marks one partition, another one each round, and the others later. Microseconds from
/// the host's word to the kernel to the receiver's first Parrived that tells of the partition.
class FirstByKernel final : public OneWayMeasurement {
 public:
  FirstByKernel(Job& job, std::string name, const Case& c, const char* copy, const std::string& link)
      : OneWayMeasurement(job, std::move(name), c),
        buffer_(static_cast<std::size_t>(c.size_bytes)),
        request_(job, shape(copy, link)),
        offset_(measure_offset(job.comm)) {
    if (job.is_first()) request_.create_device_request();
  }
  LinkUsed link_used() override { return request_.link_used(); }

  double sample(const Round& round) override {
    const int first = static_cast<int>(round.epoch % static_cast<std::uint64_t>(case_.partitions));
    request_.start();
    if (job_.is_first()) request_.prepare();
    job_.barrier();
    if (!job_.is_first()) {
      receive(first);
      return 0;
    }
    const std::int64_t begin_ns = send(first);
    std::int64_t arrived_ns = 0;
    check(PMPI_Recv(&arrived_ns, 1, MPI_INT64_T, job_.peer(), arrival_tag, job_.comm, MPI_STATUS_IGNORE), "MPI_Recv");
    return static_cast<double>(arrived_ns + offset_.peer_to_here_ns - begin_ns) / 1000;
  }

 private:
  /// When the kernel was told to begin. The host waits in CUDA meanwhile, as programs do, and takes no steps.
  std::int64_t send(int first) {
    meeting_.clear();
    const auto delay_ns = static_cast<std::uint64_t>(job_.options.delay.compute_us * 1000);
    launch_late_neighbours(request_.for_kernels(), {case_.partitions, first, delay_ns, apps::wait_limit_ns()},
                           meeting_.on_gpu(), report_.on_gpu(), stream_.get());
    const std::atomic_ref running(meeting_.get().running);
    while (running.load(std::memory_order_acquire) == 0) {
      if (cudaStreamQuery(stream_.get()) != cudaErrorNotReady) break;  // it has failed, as is told below
      std::this_thread::yield();
    }
    const std::int64_t begin_ns = now_ns();
    std::atomic_ref(meeting_.get().go).store(1, std::memory_order_release);
    finished(report_);
    request_.wait();
    return begin_ns;
  }

  void receive(int first) {
    while (!request_.arrived(first)) continue;
    const std::int64_t arrived_ns = now_ns();
    request_.wait();
    check(PMPI_Send(&arrived_ns, 1, MPI_INT64_T, job_.peer(), arrival_tag, job_.comm), "MPI_Send");
  }

  Region region() const override { return {buffer_.data(), buffer_.size(), case_.partitions}; }
  RequestShape shape(const char* copy, const std::string& link) const {
    RequestShape shape;
    shape.sends = job_.is_first();
    shape.buffer = buffer_.data();
    shape.size_bytes = case_.size_bytes;
    shape.partitions = case_.partitions;
    shape.link = link;
    shape.copy = copy;
    return shape;
  }

  DeviceBuffer buffer_;
  Request request_;
  ClockOffset offset_;
  Mailbox<Meeting> meeting_;
  Mailbox<KernelReport> report_;
};

/// Kernels copy over the link between GPUs of a node alone; the engine over every one.
std::vector<Contender> make_late_neighbours_contenders(Job& job, const Subjects&, const Case& c) {
  std::vector<Contender> contenders;
  const auto add = [&](const std::string& name, const char* copy, const std::string& link) {
    const std::string reference = contenders.empty() ? name : contenders.front().name;
    contenders.push_back({name, reference, std::make_unique<FirstByKernel>(job, name, c, copy, link)});
  };
  for (const std::string& link : job.options.links) {
    if (link == "auto") add("kernel", "kernel", link);
    add(link == "auto" ? "engine" : "engine:" + link, "engine", link);
  }
  return contenders;
}

/// A millisecond, and partitions of 1 KiB to 1 MiB.
void set_late_neighbours_defaults(Options& options) {
  options.delay.compute_us = 1000;
  options.min_bytes = 8 << 10;
  options.max_bytes = 8 << 20;
  options.partitions = {8};
  options.links = link::others();
  options.links.insert(options.links.begin(), "auto");
  options.iterations = 40;
  options.warmup = 5;
}

/// No neighbour is marked sooner after the host's word.
double neighbours_after_us(const Options& options) {
  return options.delay.compute_us;
}

}  // namespace

Benchmark late_neighbours_benchmark() {
  Benchmark benchmark{
      .name = late_neighbours_naming.name,
      .what = late_neighbours_naming.what,
      .unit = "us",
      .timed_in_batches = false,
      .compares_subjects = false,
      .on_gpu = true,
      .lacks = without({"--transport-partitions", "--blocks", "--block-threads", "--batch", "--nccl", "--nvshmem"}),
      .set_defaults = set_late_neighbours_defaults,
      .contenders = make_late_neighbours_contenders,
      .early_below = neighbours_after_us,
      .metric_title = "x_first",
      .metric = times_faster};
  for (const char* option : {"--partitions", "--compute-us"}) std::erase(benchmark.lacks, option);
  return benchmark;
}

}  // namespace partita::bench::gpu
