// collective.in-kernel: collectives that a running kernel does, without a launch for each; and the same launched.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "apps/support/gpus.hpp"
#include "bench/bus_bytes.hpp"
#include "bench/gpu/benchmarks.hpp"
#include "bench/gpu/graph.hpp"
#include "bench/gpu/kernel_collectives.hpp"
#include "bench/gpu/measurement.hpp"
#include "bench/gpu/nccl.hpp"
#include "bench/gpu/queue_kernels.hpp"
#include "bench/gpu/table.hpp"
#include "collective/kernel_grid.hpp"

namespace partita::bench::gpu {

namespace {

constexpr std::pair<Collective, const char*> collectives[] = {{Collective::allreduce, "allreduce"},
                                                              {Collective::allgather, "allgather"},
                                                              {Collective::reduce_scatter, "reduce-scatter"},
                                                              {Collective::alltoall, "alltoall"},
                                                              {Collective::bcast, "bcast"}};

/// What the ranks of one collective of ints have: of `size_bytes` a block.
struct Exchange {
  Collective kind;
  int rank, ranks;
  std::int64_t count;  ///< elements of a block

  bool scatters() const { return kind == Collective::reduce_scatter || kind == Collective::alltoall; }
  bool gathers() const { return kind == Collective::allgather || kind == Collective::alltoall; }
  bool reduces() const { return kind == Collective::allreduce || kind == Collective::reduce_scatter; }
  bool sends() const { return kind != Collective::bcast || rank == 0; }
  std::int64_t sent() const { return count * (scatters() ? ranks : 1); }
  std::int64_t received() const { return count * (gathers() ? ranks : 1); }

  /// Element `i` of the block that `from` has for `to`.
  static int value(int from, int to, std::uint64_t epoch, std::int64_t i) {
    return static_cast<int>((from * 1009 + to * 257 + static_cast<std::int64_t>(epoch % 1000) * 31 + i * 7) & 0xfffff);
  }
  std::vector<int> contents(std::uint64_t epoch) const {
    std::vector<int> all(static_cast<std::size_t>(sent()));
    for (std::int64_t n = 0; n < sent(); ++n) {
      all[static_cast<std::size_t>(n)] = value(rank, static_cast<int>(n / count), epoch, n % count);
    }
    return all;
  }
  std::vector<int> expected(std::uint64_t epoch) const {
    std::vector<int> all(static_cast<std::size_t>(received()));
    const int own = scatters() ? rank : 0;
    for (std::int64_t n = 0; n < received(); ++n) {
      int& element = all[static_cast<std::size_t>(n)];
      for (int from = 0; reduces() && from < ranks; ++from) element += value(from, own, epoch, n);
      if (!reduces()) element = value(static_cast<int>(n / count), own, epoch, n % count);
    }
    return all;
  }
};

/// The buffers of one collective; a broadcast has one.
class CollectiveMeasurement : public GpuMeasurement {
 public:
  void prepare(std::uint64_t epoch) final {
    check(cudaMemset(received(), 0xff, bytes(exchange_.received())), "cudaMemset");
    if (!exchange_.sends()) return check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    const std::vector<int> contents = exchange_.contents(epoch);
    check(cudaMemcpy(sent(), contents.data(), bytes(exchange_.sent()), cudaMemcpyHostToDevice), "cudaMemcpy");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
  bool compare(std::uint64_t epoch) const final {
    const std::vector<int> expected = exchange_.expected(epoch);
    std::vector<int> found(expected.size());
    check(cudaMemcpy(found.data(), received(), bytes(exchange_.received()), cudaMemcpyDeviceToHost), "cudaMemcpy");
    const auto [wrong, right] = std::ranges::mismatch(found, expected);
    if (wrong == found.end()) return true;
    std::fprintf(stderr, "rank %d: %s: element %td is %d, expected %d\n", job_.rank, name_.c_str(),
                 wrong - found.begin(), *wrong, *right);
    return false;
  }

 protected:
  CollectiveMeasurement(Job& job, std::string name, const Case& c, Collective kind)
      : GpuMeasurement(job, std::move(name), c),
        exchange_{kind, job.rank, job.ranks, c.size_bytes / static_cast<std::int64_t>(sizeof(int))},
        first_(bytes(exchange_.sent())),
        second_(kind == Collective::bcast ? sizeof(int) : bytes(exchange_.received())) {}

  static std::size_t bytes(std::int64_t count) { return static_cast<std::size_t>(count) * sizeof(int); }
  int* sent() const { return reinterpret_cast<int*>(first_.data()); }
  int* received() const {
    return exchange_.kind == Collective::bcast ? sent() : reinterpret_cast<int*>(second_.data());
  }

  const Exchange exchange_;

 private:
  DeviceBuffer first_;
  DeviceBuffer second_;
};

/// Partita's, whose epochs kernels open.
class DeviceDrivenCollective : public CollectiveMeasurement {
 protected:
  DeviceDrivenCollective(Job& job, std::string name, const Case& c, Collective kind, const std::string& algorithm)
      : CollectiveMeasurement(job, std::move(name), c, kind) {
    RequestShape shape;
    shape.driver = "device";
    shape.algorithm = algorithm;
    const OwnedInfo info = info_of(shape);
    check(init(info.get()), name_.c_str());
  }
  ~DeviceDrivenCollective() override { Partita_Request_free(&request_); }

  Partita_Request request_ = PARTITA_REQUEST_NULL;

 private:
  int init(MPI_Info info) {
    const auto count = static_cast<MPI_Count>(exchange_.count);
    switch (exchange_.kind) {
      case Collective::allreduce:
        return Partita_Pallreduce_init(sent(), received(), 1, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD, info, &request_);
      case Collective::allgather:
        return Partita_Pallgather_init(sent(), 1, count, MPI_INT, received(), count, MPI_INT, MPI_COMM_WORLD, info,
                                       &request_);
      case Collective::reduce_scatter:
        return Partita_Preduce_scatter_block_init(sent(), received(), 1, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD, info,
                                                  &request_);
      case Collective::alltoall:
        return Partita_Palltoall_init(sent(), 1, count, MPI_INT, received(), count, MPI_INT, MPI_COMM_WORLD, info,
                                      &request_);
      default:
        return Partita_Pbcast_init(sent(), 1, count, MPI_INT, 0, MPI_COMM_WORLD, info, &request_);
    }
  }
};

/// By calls in a kernel of the program's, which does one after another.
class KernelCollective final : public DeviceDrivenCollective {
 public:
  KernelCollective(Job& job, std::string name, const Case& c, Collective kind, const std::string& algorithm)
      : DeviceDrivenCollective(job, std::move(name), c, kind, algorithm), blocks_(choose_blocks()) {
    check(Partita_Prequest_create(&prequest_, request_), "Partita_Prequest_create");
  }
  ~KernelCollective() override { Partita_Prequest_free(&prequest_); }

  double sample(const Round& round) override {
    report_.clear();
    job_.barrier();
    launch_collectives(prequest_, {exchange_.kind, round.batch + untimed_collectives, blocks_, threads_},
                       report_.on_gpu(), stream_.get());
    return static_cast<double>(finished(report_).measured_ns) / 1000 / round.batch;
  }

 private:
  /// The grid's blocks wait for each other and for those of the other ranks, so that all of them run at once.
  /// Collective.
  int choose_blocks() {
    const std::vector<int>& threads = job_.options.block_threads;
    const std::vector<int>& blocks = job_.options.blocks;
    const collective::KernelGrid grid =
        collective::kernel_grid_for(case_.size_bytes, job_.ranks, most_collective_threads);
    threads_ = threads.empty() ? grid.threads : threads.front();
    const int wanted = blocks.empty() ? grid.blocks : blocks.front();
    const int sharing = apps::most_ranks_on_a_gpu(job_.comm, apps::properties_of_current_gpu().uuid);
    const int most = most_collective_blocks(exchange_.kind, threads_) / sharing;
    if (blocks.empty()) return std::clamp(wanted, 1, std::max(most, 1));
    if (wanted > most) {
      throw Failure(
          "{} blocks of {} threads do not run at once on this GPU, which {} of the ranks share: at most {} of each "
          "rank "
          "do (--blocks, --block-threads).",
          wanted, threads_, sharing, most);
    }
    return wanted;
  }

  int threads_ = 0;
  int blocks_;
  MPIX_Prequest prequest_{};
  Mailbox<KernelReport> report_;
};

/// What an allreduce in packets cannot take less than: the packets of one, without all that makes it one of a
/// request's.
class BarePackets final : public DeviceDrivenCollective {
 public:
  BarePackets(Job& job, std::string name, const Case& c)
      : DeviceDrivenCollective(job, std::move(name), c, Collective::allreduce, "packets") {
    check(Partita_Prequest_create(&prequest_, request_), "Partita_Prequest_create");
  }
  ~BarePackets() override { Partita_Prequest_free(&prequest_); }

  double sample(const Round& round) override {
    report_.clear();
    job_.barrier();
    const BareRun run{round.batch + untimed_collectives, next_flag_};
    launch_bare_packets(prequest_, run, report_.on_gpu(), stream_.get());
    next_flag_ += static_cast<std::uint32_t>(run.exchanges);
    return static_cast<double>(finished(report_).measured_ns) / 1000 / round.batch;
  }

 private:
  std::uint32_t next_flag_ = 1;
  MPIX_Prequest prequest_{};
  Mailbox<KernelReport> report_;
};

/// Collectives in a graph, one behind the other.
class CollectiveGraph {
 public:
  /// Captures `run` so many times, unless that was done before.
  template <class Run>
  void capture(const Stream& stream, int count, Run run) {
    if (count == count_) return;
    graph_ = std::make_unique<Graph>(stream.get(), [&] {
      for (int i = 0; i < count; ++i) run();
    });
    count_ = count;
  }
  void launch(const Stream& stream) const { graph_->launch(stream.get()); }

 private:
  std::unique_ptr<Graph> graph_;
  int count_ = 0;
};

enum class Launch { one_by_one, in_a_graph };

/// By the library's own kernels, which a queue of the stream launches, a launch for each. The first one shows them all.
class LaunchedCollective final : public DeviceDrivenCollective {
 public:
  LaunchedCollective(Job& job, std::string name, const Case& c, Collective kind, const std::string& algorithm,
                     Launch launch)
      : DeviceDrivenCollective(job, std::move(name), c, kind, algorithm), launch_(launch), native_(stream_.get()) {
    check(Partita_Match(&request_), "Partita_Match");
    check(Partita_Queue_init(&queue_, PARTITA_QUEUE_CUDA, &native_), "Partita_Queue_init");
    run();
    finish();
  }
  ~LaunchedCollective() override { Partita_Queue_free(&queue_); }

  double sample(const Round& round) override {
    if (launch_ == Launch::in_a_graph) graph_.capture(stream_, round.batch, [this] { run(); });
    job_.barrier();
    const std::int64_t begin_ns = now_ns();
    if (launch_ == Launch::in_a_graph) {
      graph_.launch(stream_);
    } else {
      for (int i = 0; i < round.batch; ++i) run();
    }
    stream_.synchronize();
    const std::int64_t end_ns = now_ns();
    finish();
    return static_cast<double>(end_ns - begin_ns) / 1000 / round.batch;
  }

 private:
  void run() {
    check(Partita_Enqueue_start(queue_, &request_), "Partita_Enqueue_start");
    check(Partita_Enqueue_wait(queue_, &request_), "Partita_Enqueue_wait");
  }
  void finish() { check(Partita_Queue_wait(queue_), "Partita_Queue_wait"); }

  const Launch launch_;
  cudaStream_t native_;
  Partita_Queue queue_ = PARTITA_QUEUE_NULL;
  CollectiveGraph graph_;
};

/// Empty kernels in a graph, one behind the other, on all ranks at once.
class EmptyGraph final : public GpuMeasurement {
 public:
  EmptyGraph(Job& job, std::string name, const Case& c) : GpuMeasurement(job, std::move(name), c) {}

  void prepare(std::uint64_t) override {}
  double sample(const Round& round) override {
    graph_.capture(stream_, round.batch, [this] { launch_nothing(stream_.get()); });
    job_.barrier();
    const std::int64_t begin_ns = now_ns();
    graph_.launch(stream_);
    stream_.synchronize();
    return static_cast<double>(now_ns() - begin_ns) / 1000 / round.batch;
  }
  bool compare(std::uint64_t) const override { return true; }

 private:
  CollectiveGraph graph_;
};

/// NCCL's collectives in a graph, one behind the other, which is launched once for all of a sample.
class NcclCollective final : public CollectiveMeasurement {
 public:
  NcclCollective(Job& job, std::string name, const Case& c, Collective kind, std::shared_ptr<apps::Nccl> nccl)
      : CollectiveMeasurement(job, std::move(name), c, kind), nccl_(std::move(nccl)) {
    run();  // sets up what a capture would refuse
    stream_.synchronize();
  }

  double sample(const Round& round) override {
    graph_.capture(stream_, round.batch, [this] { run(); });
    job_.barrier();
    const std::int64_t begin_ns = now_ns();
    graph_.launch(stream_);
    stream_.synchronize();
    return static_cast<double>(now_ns() - begin_ns) / 1000 / round.batch;
  }

 private:
  void run() {
    const auto count = static_cast<std::size_t>(exchange_.count);
    switch (exchange_.kind) {
      case Collective::allreduce:
        return nccl_->all_reduce_sum(sent(), received(), count, stream_.get());
      case Collective::allgather:
        return nccl_->all_gather(sent(), received(), count, stream_.get());
      case Collective::reduce_scatter:
        return nccl_->reduce_scatter_sum(sent(), received(), count, stream_.get());
      case Collective::bcast:
        return nccl_->broadcast(sent(), count, 0, stream_.get());
      default:
        break;
    }
    nccl_->begin_group();
    for (int peer = 0; peer < exchange_.ranks; ++peer) {
      nccl_->send(sent() + peer * exchange_.count, bytes(exchange_.count), peer, stream_.get());
      nccl_->receive(received() + peer * exchange_.count, bytes(exchange_.count), peer, stream_.get());
    }
    nccl_->end_group();
  }

  std::shared_ptr<apps::Nccl> nccl_;
  CollectiveGraph graph_;
};

double bus_bytes_of(Collective kind, std::int64_t block_bytes, int ranks) {
  switch (kind) {
    case Collective::allreduce:
      return bus_bytes_of_allreduce(block_bytes, ranks);
    case Collective::bcast:
      return bus_bytes_of_bcast(block_bytes, ranks);
    default:
      return bus_bytes_of_blocks(block_bytes, ranks);
  }
}

constexpr std::pair<Launch, const char*> launches[] = {{Launch::one_by_one, "launched"}, {Launch::in_a_graph, "graph"}};

std::vector<Contender> make_collectives_contenders(Job& job, const Subjects&, const Case& c) {
  if (c.size_bytes % static_cast<std::int64_t>(sizeof(int)) != 0) {
    throw Failure("{} bytes are not a whole number of ints; expected are blocks of 4 bytes or a multiple.",
                  c.size_bytes);
  }
  std::vector<Contender> contenders;
  const std::shared_ptr<apps::Nccl> nccl = find_nccl(job);
  for (const auto& [kind, name] : collectives) {
    std::string reference;
    const std::size_t before = contenders.size();
    const double bus_bytes = bus_bytes_of(kind, c.size_bytes, job.ranks);
    for (const std::string& algorithm : job.options.algorithms) {
      if (algorithm == "two-shot" && kind != Collective::allreduce) continue;  // the only one that it serves
      const std::string by = algorithm == "auto" ? name : fmt::format("{}:{}", name, algorithm);
      if (reference.empty()) reference = by;
      contenders.push_back({by, reference, std::make_unique<KernelCollective>(job, by, c, kind, algorithm)});
      for (const auto& [launch, prefix] : launches) {
        const std::string launched = fmt::format("{}-{}", prefix, by);
        contenders.push_back(
            {launched, reference, std::make_unique<LaunchedCollective>(job, launched, c, kind, algorithm, launch)});
      }
    }
    if (nccl != nullptr) {
      const std::string with = fmt::format("nccl-{}", name);
      if (reference.empty()) reference = with;
      contenders.push_back({with, reference, std::make_unique<NcclCollective>(job, with, c, kind, nccl)});
    }
    for (std::size_t i = before; i < contenders.size(); ++i) contenders[i].bus_bytes = bus_bytes;
  }
  constexpr const char* empty_graph = "graph-empty";
  contenders.push_back({empty_graph, empty_graph, std::make_unique<EmptyGraph>(job, empty_graph, c)});
  constexpr const char* bare = "bare-packets";
  if (job.ranks > 1 && c.size_bytes <= most_bare_bytes) {
    contenders.push_back({bare, bare, std::make_unique<BarePackets>(job, bare, c)});
  }
  return contenders;
}

void set_collectives_defaults(Options& options) {
  options.min_bytes = 8;
  options.max_bytes = 256 << 10;
  options.partitions = {1};
  options.iterations = 40;
  options.warmup = 4;
  options.batch = 200;
}

}  // namespace

Benchmark collectives_benchmark() {
  std::vector<std::string_view> lacks = without({"--link", "--transport-partitions", "--nvshmem"});
  std::erase(lacks, "--algorithms");
  return {.name = collectives_naming.name,
          .what = collectives_naming.what,
          .unit = "us",
          .compares_subjects = false,
          .ranks = Ranks::any,
          .on_gpu = true,
          .lacks = lacks,
          .set_defaults = set_collectives_defaults,
          .contenders = make_collectives_contenders,
          .metric_title = "x_kernel",
          .metric = times_faster};
}

}  // namespace partita::bench::gpu
