// partitioned.progress: what requests of GPU kernels cost their process between its calls.
#include "bench/progress_cost.hpp"

#include <chrono>
#include <thread>

#include "bench/gpu/benchmarks.hpp"
#include "bench/gpu/mark_cost.hpp"
#include "bench/gpu/measurement.hpp"
#include "bench/gpu/table.hpp"

namespace partita::bench::gpu {

namespace {

constexpr int most_partitions = 1024;  // a thread of one block marks each

RequestShape shape_of(const Job& job, std::byte* buffer, std::int64_t size_bytes, int partitions, const char* copy) {
  RequestShape shape;
  shape.sends = job.is_first();
  shape.buffer = buffer;
  shape.size_bytes = size_bytes;
  shape.partitions = partitions;
  shape.transport_partitions = partitions;
  shape.copy = copy;
  return shape;
}

/// Requests that have passed an epoch, so that they are matched, then got a device request, and have no epoch open.
class IdleRequests {
 public:
  explicit IdleRequests(const Job& job) : job_(job), buffer_(request_bytes * idle_requests) { make(); }

  void make() {
    for (int i = 0; i < idle_requests; ++i) {
      requests_.push_back(
          std::make_unique<Request>(job_, shape_of(job_, buffer_.data() + i * request_bytes, request_bytes, 1, "")));
    }
    for (const auto& request : requests_) request->start();
    for (const auto& request : requests_) {
      if (job_.is_first()) request->ready_all();
      request->wait();
      if (job_.is_first()) request->create_device_request();
    }
  }
  void free() { requests_.clear(); }

 private:
  static constexpr std::int64_t request_bytes = 8;
  const Job& job_;
  DeviceBuffer buffer_;
  std::vector<std::unique_ptr<Request>> requests_;
};

/// A request that kernels mark, each of its partitions a transport partition.
struct ActiveRequest {
  ActiveRequest(const Job& job, const Case& c, const char* copy)
      : buffer(static_cast<std::size_t>(c.size_bytes)),
        request(job, shape_of(job, buffer.data(), c.size_bytes, c.partitions, copy)) {
    if (job.is_first()) request.create_device_request();
  }
  Region region(int partitions) const { return {buffer.data(), buffer.size(), partitions}; }

  DeviceBuffer buffer;
  Request request;
};

/// With no epoch open.
class IdleProgress : public ProgressMeasurement {
 public:
  IdleProgress(Job& job, ProgressFigure figure, std::shared_ptr<IdleRequests> idle)
      : ProgressMeasurement(job, figure), idle_(std::move(idle)) {}

  void prepare(std::uint64_t) override {}
  bool compare(std::uint64_t) const override { return true; }

 protected:
  void open() override {}
  void close() override {}

  std::shared_ptr<IdleRequests> idle_;
};

/// Without the idle requests: what CUDA, the MPI and the library take anyway.
class BareProgress final : public IdleProgress {
 public:
  using IdleProgress::IdleProgress;

 private:
  void open() override {
    idle_->free();
    job_.barrier();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the peer's last words come
  }
  void close() override { idle_->make(); }
};

/// With an epoch open. `copy`: kernel or engine.
class KernelProgress final : public IdleProgress {
 public:
  KernelProgress(Job& job, std::string name, const Case& c, ProgressFigure figure, std::shared_ptr<IdleRequests> idle,
                 const char* copy)
      : IdleProgress(job, figure, std::move(idle)), name_(std::move(name)), case_(c), active_(job, c, copy) {}

  void prepare(std::uint64_t epoch) override {
    (job_.is_first() ? gpu::fill : gpu::poison)(active_.region(case_.partitions), epoch, stream_.get());
  }
  bool compare(std::uint64_t epoch) const override {
    return job_.is_first() ||
           gpu::compare(active_.region(case_.partitions), epoch, stream_.get(), job_.rank, name_.c_str());
  }
  LinkUsed link_used() override { return active_.request.link_used(); }

 private:
  void open() override {
    active_.request.start();
    if (job_.is_first()) active_.request.prepare();
  }
  void close() override {
    if (job_.is_first()) {
      launch_marking(active_.request.for_kernels(), Granularity::thread, case_.partitions, report_.on_gpu(),
                     stream_.get());
      stream_.synchronize();
      gpu::check(report_.get(), "marking");
    }
    active_.request.wait();
  }

  std::string name_;
  Case case_;
  Stream stream_;
  Mailbox<KernelReport> report_;
  ActiveRequest active_;
};

std::vector<Contender> make_progress_contenders(Job& job, const Subjects&, const Case& c) {
  if (c.partitions > most_partitions) {
    throw Failure("--partitions {}: expected at most {}, which one block of threads can mark.", c.partitions,
                  most_partitions);
  }
  const auto idle = std::make_shared<IdleRequests>(job);
  std::vector<Contender> contenders;
  for (const auto& [figure, figure_name] : progress_figures) {
    const std::string reference = fmt::format("{}-idle", figure_name);
    const auto add = [&](std::string name, std::unique_ptr<Measurement> measurement) {
      contenders.push_back({std::move(name), reference, std::move(measurement)});
    };
    add(reference, std::make_unique<IdleProgress>(job, figure, idle));
    add(fmt::format("{}-bare", figure_name), std::make_unique<BareProgress>(job, figure, idle));
    for (const char* copy : {"engine", "kernel"}) {
      std::string name = fmt::format("{}-{}", figure_name, copy);
      auto measurement = std::make_unique<KernelProgress>(job, name, c, figure, idle, copy);
      add(std::move(name), std::move(measurement));
    }
  }
  return contenders;
}

}  // namespace

Benchmark progress_benchmark() {
  Benchmark benchmark = progress_benchmark_of(progress_naming.name, progress_naming.what);
  benchmark.on_gpu = true;
  benchmark.lacks = {"--window",
                     "--threads",
                     "--delay",
                     "--compute-us",
                     "--noise-percent",
                     "--memory",
                     "--face",
                     "--link",
                     "--peer",
                     "placement",
                     "--blocks",
                     "--nccl",
                     "--transport-partitions",
                     "--block-threads",
                     "--nvshmem",
                     "--gpu-aware-mpi"};
  benchmark.contenders = make_progress_contenders;
  return benchmark;
}

}  // namespace partita::bench::gpu
