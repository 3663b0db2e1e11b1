// progress: what open and active requests cost a process between its calls. bench/gpu/progress.cpp is the same for
// requests of GPU kernels.
#include "bench/progress_cost.hpp"

#include <partita/partita.h>

#include "bench/benchmarks/all.hpp"
#include "bench/contents.hpp"
#include "bench/partita_calls.hpp"

namespace partita::bench {

namespace {

/// From rank 0 to rank 1, on memory of its own.
class HostRequest {
 public:
  HostRequest(const Job& job, std::int64_t size_bytes, int partitions)
      : sends_(job.is_first()), partitions_(partitions), buffer_(plain_buffer(static_cast<std::size_t>(size_bytes))) {
    OwnedInfo info(MPI_INFO_NULL);
    check(PMPI_Info_create(info.out()), "MPI_Info_create");
    check(PMPI_Info_set(info.get(), "partita_transport_partitions", std::to_string(partitions).c_str()),
          "MPI_Info_set");
    const MPI_Count count = size_bytes / partitions;
    void* const base = buffer_.bytes().data();
    if (sends_) {
      check(
          Partita_Psend_init(base, partitions, count, MPI_BYTE, job.peer(), tag, MPI_COMM_WORLD, info.get(), &request_),
          "Partita_Psend_init");
    } else {
      check(
          Partita_Precv_init(base, partitions, count, MPI_BYTE, job.peer(), tag, MPI_COMM_WORLD, info.get(), &request_),
          "Partita_Precv_init");
    }
  }
  ~HostRequest() { Partita_Request_free(&request_); }
  HostRequest(const HostRequest&) = delete;
  HostRequest& operator=(const HostRequest&) = delete;

  void start() { check(Partita_Start(&request_), "Partita_Start"); }
  void finish() {
    if (sends_) check(Partita_Pready_range(0, partitions_ - 1, request_), "Partita_Pready_range");
    check(Partita_Wait(&request_, MPI_STATUS_IGNORE), "Partita_Wait");
  }
  std::span<std::byte> bytes() const { return buffer_.bytes(); }
  LinkUsed link_used() const { return PartitaCalls::link_used(request_); }

 private:
  static constexpr int tag = 31;
  bool sends_;
  int partitions_;
  Buffer buffer_;
  Partita_Request request_ = PARTITA_REQUEST_NULL;
};

/// Requests that have passed an epoch, so that they are matched, and have none open.
class IdleRequests {
 public:
  explicit IdleRequests(const Job& job) {
    for (int i = 0; i < idle_requests; ++i) requests_.push_back(std::make_unique<HostRequest>(job, 8, 1));
    for (const auto& request : requests_) request->start();
    for (const auto& request : requests_) request->finish();
  }

 private:
  std::vector<std::unique_ptr<HostRequest>> requests_;
};

/// With a request whose partitions each make a transport partition, or with none.
class HostProgress final : public ProgressMeasurement {
 public:
  HostProgress(Job& job, const Case& c, ProgressFigure figure, std::shared_ptr<IdleRequests> idle, bool active)
      : ProgressMeasurement(job, figure), partitions_(c.partitions), idle_(std::move(idle)) {
    if (active) request_ = std::make_unique<HostRequest>(job, c.size_bytes, c.partitions);
  }

  void prepare(std::uint64_t epoch) override {
    if (request_) (job_.is_first() ? fill : poison)(request_->bytes(), partitions_, epoch);
  }
  bool compare(std::uint64_t epoch) const override {
    return !request_ || job_.is_first() || !find_mismatch(request_->bytes(), partitions_, epoch);
  }
  LinkUsed link_used() override { return request_ ? request_->link_used() : LinkUsed{}; }

 private:
  void open() override {
    if (request_) request_->start();
  }
  void close() override {
    if (request_) request_->finish();
  }

  int partitions_;
  std::shared_ptr<IdleRequests> idle_;
  std::unique_ptr<HostRequest> request_;
};

std::vector<Contender> make_progress_contenders(Job& job, const Subjects&, const Case& c) {
  const auto idle = std::make_shared<IdleRequests>(job);
  std::vector<Contender> contenders;
  for (const auto& [figure, name] : progress_figures) {
    for (const bool active : {false, true}) {
      contenders.push_back({fmt::format("{}-{}", name, active ? "active" : "idle"), fmt::format("{}-idle", name),
                            std::make_unique<HostProgress>(job, c, figure, idle, active)});
    }
  }
  return contenders;
}

}  // namespace

Benchmark progress_benchmark() {
  Benchmark benchmark = progress_benchmark_of(
      "progress", "What a step of the progress engine costs, and a process that sleeps, with requests open");
  benchmark.lacks = {"--window", "--threads", "--delay", "--compute-us", "--noise-percent",
                     "--memory", "--face",    "--link",  "--peer",       "--transport-partitions"};
  benchmark.contenders = make_progress_contenders;
  return benchmark;
}

}  // namespace partita::bench
