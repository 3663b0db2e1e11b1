// queue.fig5: a ping-pong of packed messages, in queues and by hosts (cpu-free-stream-triggered-mpi, figure 5).
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/gpu/benchmarks.hpp"
#include "bench/gpu/graph.hpp"
#include "bench/gpu/nccl.hpp"
#include "bench/gpu/packed_ping_pong.hpp"
#include "bench/gpu/table.hpp"

namespace partita::bench::gpu {

namespace {

constexpr int word_tag = 83;

/// A persistent request of the MPI's, freed with its owner.
class MpiRequest {
 public:
  MpiRequest() = default;
  ~MpiRequest() {
    if (request_ != MPI_REQUEST_NULL) PMPI_Request_free(&request_);
  }
  MpiRequest(const MpiRequest&) = delete;
  MpiRequest& operator=(const MpiRequest&) = delete;

  MPI_Request* get() { return &request_; }
  void start() { check(PMPI_Start(&request_), "MPI_Start"); }
  void wait() { check(PMPI_Wait(&request_, MPI_STATUS_IGNORE), "MPI_Wait"); }

 private:
  MPI_Request request_ = MPI_REQUEST_NULL;
};

/// The MPI's persistent requests: of GPU memory, which the MPI must know, or of host memory to and from which the
/// stream copies.
class ByMpi final : public ByHost {
 public:
  ByMpi(Job& job, std::string name, const Case& c, std::shared_ptr<PackedArrays> arrays, bool staged)
      : ByHost(job, std::move(name), c, std::move(arrays)) {
    if (staged) {
      staged_sent_ = std::make_unique<PinnedBuffer>(bytes());
      staged_received_ = std::make_unique<PinnedBuffer>(bytes());
    }
    const int count = static_cast<int>(c.size_bytes);
    check(PMPI_Send_init(staged ? staged_sent_->data() : sent(), count, MPI_BYTE, job.peer(), send_tag(), job.comm,
                         send_.get()),
          "MPI_Send_init");
    check(PMPI_Recv_init(staged ? staged_received_->data() : received(), count, MPI_BYTE, job.peer(), receive_tag(),
                         job.comm, receive_.get()),
          "MPI_Recv_init");
  }

 private:
  std::size_t bytes() const { return static_cast<std::size_t>(case_.size_bytes); }
  void start_receive() override { receive_.start(); }
  void pack() override {
    launch_pack();
    if (staged_sent_) copy(staged_sent_->data(), sent(), cudaMemcpyDeviceToHost);
    stream_.synchronize();
  }
  void send() override {
    send_.start();
    send_.wait();
  }
  void await_receive() override { receive_.wait(); }
  void unpack() override {
    if (staged_received_) copy(received(), staged_received_->data(), cudaMemcpyHostToDevice);
    PackedPingPong::unpack();
  }
  void copy(std::byte* to, const std::byte* from, cudaMemcpyKind kind) {
    check(cudaMemcpyAsync(to, from, bytes(), kind, stream_.get()), "cudaMemcpyAsync");
  }

  std::unique_ptr<PinnedBuffer> staged_sent_, staged_received_;
  MpiRequest send_, receive_;
};

/// Everything in a queue, enqueued before the host waits for it, or in a graph that is launched once a sample.
class InQueue final : public PackedPingPong {
 public:
  InQueue(Job& job, std::string name, const Case& c, std::shared_ptr<PackedArrays> arrays, Way way, bool in_graph)
      : PackedPingPong(job, std::move(name), c, std::move(arrays)),
        word_memory_(1),
        send_(way, sent(), c.size_bytes, job.peer(), send_tag()),
        receive_(Way::receive, received(), c.size_bytes, job.peer(), receive_tag()),
        word_(job.is_first() ? Way::receive : Way::send, word_memory_.data(), 1, job.peer(), word_tag),
        queue_(stream_.get()) {
    match({send_.handle(), receive_.handle(), word_.handle()});
    load_kernels();
    if (in_graph) graph_.emplace(stream_.get(), [this] { make_trips(); });
  }
  LinkUsed link_used() override { return send_.link_used(); }

 private:
  /// CUDA would load one that is launched behind a wait only when the wait is over.
  void load_kernels() const {
    launch_pack();
    stream_.synchronize();
  }
  void play() override {
    if (graph_) {
      graph_->launch(stream_.get());
    } else {
      make_trips();
      queue_.finish();
    }
    stream_.synchronize();
  }

  /// A message by which rank 0's stream learns that rank 1's has come here: a graph must hold both the start of its
  /// first receive and the wait for it, so that no host can know.
  void let_begin() override {
    queue_.start(word_.handle());
    queue_.wait(word_.handle());
  }
  void start_receive() override { queue_.start(receive_.handle()); }
  void send() override {
    queue_.start(send_.handle());
    queue_.wait(send_.handle());
  }
  void await_receive() override { queue_.wait(receive_.handle()); }

  DeviceBuffer word_memory_;
  PersistentMessage send_, receive_, word_;
  StreamQueue queue_;
  std::optional<Graph> graph_;
};

/// NCCL's sends and receives in a graph. One of its receives starts and waits in one.
class ByNccl final : public PackedPingPong {
 public:
  ByNccl(Job& job, std::string name, const Case& c, std::shared_ptr<PackedArrays> arrays,
         std::shared_ptr<apps::Nccl> nccl)
      : PackedPingPong(job, std::move(name), c, std::move(arrays)), nccl_(std::move(nccl)) {
    make_trips();  // sets up what a capture would refuse
    stream_.synchronize();
    graph_ = std::make_unique<Graph>(stream_.get(), [this] { make_trips(); });
  }

 private:
  std::size_t bytes() const { return static_cast<std::size_t>(case_.size_bytes); }
  void play() override {
    graph_->launch(stream_.get());
    stream_.synchronize();
  }
  void start_receive() override {}
  void send() override { nccl_->send(sent(), bytes(), job_.peer(), stream_.get()); }
  void await_receive() override { nccl_->receive(received(), bytes(), job_.peer(), stream_.get()); }

  std::shared_ptr<apps::Nccl> nccl_;
  std::unique_ptr<Graph> graph_;
};

std::vector<Contender> make_queue_ping_pong_contenders(Job& job, const Subjects&, const Case& c) {
  const auto arrays = std::make_shared<PackedArrays>(c.size_bytes);
  const std::string reference = "traditional";
  std::vector<Contender> contenders;
  const auto add = [&](const std::string& name, std::unique_ptr<Measurement> measurement) {
    contenders.push_back({name, reference, std::move(measurement)});
  };
  add(reference, std::make_unique<Traditional>(job, reference, c, arrays));
  add("traditional-engine", std::make_unique<TraditionalEngine>(job, "traditional-engine", c, arrays));
  add("staged-mpi", std::make_unique<ByMpi>(job, "staged-mpi", c, arrays, true));
  if (job.options.gpu_aware_mpi) add("gpu-aware-mpi", std::make_unique<ByMpi>(job, "gpu-aware-mpi", c, arrays, false));
  for (const auto& [name, way] : {std::pair("regular", Way::send), std::pair("ready", Way::ready_send)}) {
    add(name, std::make_unique<InQueue>(job, name, c, arrays, way, false));
    const std::string in_graph = fmt::format("{}-graph", name);
    add(in_graph, std::make_unique<InQueue>(job, in_graph, c, arrays, way, true));
  }
  if (const auto nccl = find_nccl(job)) {
    add("nccl-graph", std::make_unique<ByNccl>(job, "nccl-graph", c, arrays, nccl));
  }
  return contenders;
}

void set_queue_ping_pong_defaults(Options& options) {
  options.min_bytes = 1;
  options.max_bytes = std::int64_t{1} << 30;
  options.partitions = {1};
  options.iterations = 10;
  options.warmup = 2;
  options.batch = 100;
}

}  // namespace

Benchmark queue_fig5_benchmark() {
  Benchmark benchmark{
      .name = queue_fig5_naming.name,
      .what = queue_fig5_naming.what,
      .unit = "us",
      .compares_subjects = false,
      .on_gpu = true,
      .lacks = without({"--link", "--transport-partitions", "--blocks", "--block-threads", "--nvshmem"}),
      .set_defaults = set_queue_ping_pong_defaults,
      .contenders = make_queue_ping_pong_contenders,
      .metric_title = "x_traditional",
      .metric = times_faster};
  std::erase(benchmark.lacks, "--gpu-aware-mpi");
  return benchmark;
}

}  // namespace partita::bench::gpu
