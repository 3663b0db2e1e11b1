// partitioned.table1: what each call of a GPU request costs (gpu-initiated-partitioned-mpi, table 1).
#include <algorithm>
#include <optional>

#include "bench/gpu/allreduce_calls.hpp"
#include "bench/gpu/benchmarks.hpp"
#include "bench/gpu/driver_calls.hpp"
#include "bench/gpu/marking.hpp"
#include "bench/gpu/measurement.hpp"
#include "bench/gpu/nccl.hpp"
#include "bench/gpu/prepare_cost.hpp"
#include "bench/gpu/table.hpp"
#include "bench/gpu/vector_add.hpp"
#include "bench/partita_calls.hpp"

namespace partita::bench::gpu {

namespace {

enum class Call : std::uint8_t {
  psend_init,
  precv_init,
  prequest_create,
  prequest_create_recv,
  prequest_free,
  prepare_first,
  prepare_later,
  start,
  wait
};

/// The whole life of a pair of requests, of which one call on one rank is timed: both are made, started, prepared, get
/// a device request, and pass two epochs of a vector addition.
class CallCost final : public GpuMeasurement {
 public:
  CallCost(Job& job, std::string name, const Case& c, Call call)
      : GpuMeasurement(job, std::move(name), c),
        call_(call),
        a_(static_cast<std::size_t>(c.size_bytes)),
        b_(a_.size()),
        c_(a_.size()) {}

  void prepare(std::uint64_t epoch) override {
    if (job_.is_first()) gpu::fill_addends(a_.data(), b_.data(), region(), epoch, stream_.get());
    gpu::poison(region(), epoch, stream_.get());
  }
  bool compare(std::uint64_t epoch) const override { return job_.is_first() || compare_region(region(), epoch); }

  /// Microseconds of a call, the mean of the round's.
  double sample(const Round& round) override {
    spent_ns_ = 0;
    calls_ = 0;
    for (int i = 0; i < round.batch; ++i) live();
    if (calls_ == 0) return 0;
    return std::max(0.0, static_cast<double>(spent_ns_) / calls_ - job_.timer.cost_ns) / 1000;
  }
  LinkUsed link_used() override { return used_; }

 private:
  bool sends() const { return job_.is_first(); }
  Region region() const { return {c_.data(), c_.size(), case_.partitions}; }

  template <class F>
  void timed(Call call, const F& body) {
    const std::int64_t begin_ns = now_ns();
    body();
    const std::int64_t end_ns = now_ns();
    if (call != call_) return;
    spent_ns_ += end_ns - begin_ns;
    ++calls_;
  }

  void live() {
    RequestShape shape;
    shape.sends = sends();
    shape.buffer = c_.data();
    shape.size_bytes = case_.size_bytes;
    shape.partitions = case_.partitions;
    const OwnedInfo info = info_of(shape);
    Partita_Request request = PARTITA_REQUEST_NULL;
    job_.barrier();
    timed(sends() ? Call::psend_init : Call::precv_init,
          [&] { check(init(job_, shape, info.get(), &request), "Partita_Psend_init or Partita_Precv_init"); });

    MPIX_Prequest prequest{};
    for (const bool first : {true, false}) {
      start(request, first);
      prepare_buffer(request, first);
      if (first && sends()) {
        timed(Call::prequest_create,
              [&] { check(Partita_Prequest_create(&prequest, request), "Partita_Prequest_create"); });
      }
      compute(prequest);
      wait(request, first);
    }
    used_ = PartitaCalls::link_used(request);
    const auto free = [&] { check(Partita_Prequest_free(&prequest), "Partita_Prequest_free"); };
    if (sends()) {
      timed(Call::prequest_free, free);
    } else if (call_ == Call::prequest_create_recv) {
      timed(call_, [&] { check(Partita_Prequest_create(&prequest, request), "Partita_Prequest_create"); });
      free();
    }
    job_.barrier();
    check(Partita_Request_free(&request), "Partita_Request_free");
  }

  /// Times the sender's calls only; its second Start counts, by then the request is matched.
  void start(Partita_Request& request, bool first) {
    const auto call = [&] { check(Partita_Start(&request), "Partita_Start"); };
    if (first || !sends()) {
      call();
    } else {
      timed(Call::start, call);
    }
  }

  /// The first one matches the requests; the later ones meet a receiver that has started.
  void prepare_buffer(Partita_Request request, bool first) {
    if (!first) job_.barrier();
    if (!sends()) return;
    timed(first ? Call::prepare_first : Call::prepare_later,
          [&] { check(Partita_Pbuf_prepare(request), "Partita_Pbuf_prepare"); });
  }

  void compute(const MPIX_Prequest& prequest) {
    if (!sends()) return;
    launch_vector_add_and_mark({a_.data(), b_.data()}, c_.data(), case_.partitions, prequest, stream_.get());
    stream_.synchronize();
  }

  /// When everything has arrived, so that the call itself is timed and not what it waits for.
  void wait(Partita_Request& request, bool first) {
    job_.barrier();
    const auto call = [&] { check(Partita_Wait(&request, MPI_STATUS_IGNORE), "Partita_Wait"); };
    if (first || !sends()) {
      call();
    } else {
      timed(Call::wait, call);
    }
  }

  Call call_;
  DeviceBuffer a_;
  DeviceBuffer b_;
  DeviceBuffer c_;
  std::int64_t spent_ns_ = 0;
  int calls_ = 0;
  LinkUsed used_;
};

/// A call on device-driven sends in a kernel, the receivers being open.
class CallInKernel final : public OneWayMeasurement {
 public:
  CallInKernel(Job& job, std::string name, const Case& c, KernelCall call)
      : OneWayMeasurement(job, std::move(name), c),
        call_(call),
        buffer_(static_cast<std::size_t>(c.size_bytes) * most_lanes) {
    for (int lane = 0; lane < most_lanes; ++lane) requests_.push_back(std::make_unique<Request>(job, shape(lane)));
    for (int lane = 0; lane < most_lanes; ++lane) {
      Request& request = *requests_[static_cast<std::size_t>(lane)];
      request.create_device_request();
      (job.is_first() ? lanes_.send : lanes_.recv)[lane] = request.for_kernels();
    }
  }

  double sample(const Round& round) override {
    const int times = (round.batch + most_lanes - 1) / most_lanes;
    double sum_us = 0;
    for (int i = 0; i < times; ++i) sum_us += epoch();
    return sum_us / times / most_lanes;
  }
  LinkUsed link_used() override { return requests_.front()->link_used(); }

 private:
  /// Microseconds of all lanes' calls; 0 on the receiver.
  double epoch() {
    if (!job_.is_first()) {
      launch_opening(lanes_, most_lanes, threads, report_.on_gpu(), stream_.get());
      finished(report_);
    }
    job_.barrier();
    if (job_.is_first()) {
      launch_preparing(lanes_, most_lanes, threads, call_, report_.on_gpu(), stream_.get());
    } else {
      launch_closing(lanes_, most_lanes, threads, report_.on_gpu(), stream_.get());
    }
    return static_cast<double>(finished(report_).measured_ns) / 1000;
  }
  Region region() const override { return {buffer_.data(), buffer_.size(), most_lanes}; }
  RequestShape shape(int lane) const {
    RequestShape shape;
    shape.sends = job_.is_first();
    shape.buffer = buffer_.data() + static_cast<std::int64_t>(lane) * case_.size_bytes;
    shape.size_bytes = case_.size_bytes;
    shape.tag = lane;
    shape.driver = "device";
    return shape;
  }

  static constexpr int threads = 128;
  KernelCall call_;
  DeviceBuffer buffer_;
  std::vector<std::unique_ptr<Request>> requests_;
  Lanes lanes_{};
  Mailbox<KernelReport> report_;
};

void add_calls_of_messages(std::vector<Contender>& contenders, Job& job, const Case& c) {
  const std::pair<const char*, Call> calls[] = {{"psend_init", Call::psend_init},
                                                {"precv_init", Call::precv_init},
                                                {"prequest_create", Call::prequest_create},
                                                {"prequest_create recv", Call::prequest_create_recv},
                                                {"prequest_free", Call::prequest_free},
                                                {"pbuf_prepare first", Call::prepare_first},
                                                {"pbuf_prepare later", Call::prepare_later},
                                                {"start", Call::start},
                                                {"wait", Call::wait}};
  for (const auto& [name, call] : calls) {
    contenders.push_back({name, calls[0].first, std::make_unique<CallCost>(job, name, c, call)});
  }
  const std::pair<const char*, KernelCall> kernel_calls[] = {{"pbuf_prepare kernel", KernelCall::prepare},
                                                             {"pstart kernel", KernelCall::start},
                                                             {"pwait kernel", KernelCall::wait}};
  for (const auto& [name, call] : kernel_calls) {
    contenders.push_back({name, calls[0].first, std::make_unique<CallInKernel>(job, name, c, call)});
  }
  const auto add = [&](const char* name, std::unique_ptr<Measurement> measurement) {
    if (measurement != nullptr) contenders.push_back({name, calls[0].first, std::move(measurement)});
  };
  const MarkingBlock block{Granularity::block, vector_add_threads};
  add("pready_block kernel", marking(job, "pready_block kernel", c, block, ""));
  add("nvshmem put+signal", nvshmem_marking(job, "nvshmem put+signal", c, block));
  add("nccl send", nccl_send_call(job, c));
  add("word stored by a stream", stored_word(job, "word stored by a stream", c));
}

/// Messages are between two ranks, and so are the rows about them.
std::vector<Contender> make_table1_contenders(Job& job, const Subjects&, const Case& c) {
  std::vector<Contender> contenders;
  if (job.ranks == 2) add_calls_of_messages(contenders, job, c);
  add_allreduce_calls(contenders, job, c);
  return contenders;
}

/// The paper's: 10 samples of 100 iterations each.
void set_table1_defaults(Options& options) {
  options.min_bytes = vector_add_block_bytes;
  options.max_bytes = vector_add_block_bytes;
  options.iterations = 10;
  options.warmup = 1;
  options.batch = 100;
}

}  // namespace

Benchmark table1_benchmark() {
  return {.name = table1_naming.name,
          .what = table1_naming.what,
          .unit = "us",
          .compares_subjects = false,
          .ranks = Ranks::any,
          .on_gpu = true,
          .shows_deviation = true,
          .lacks = without({"--link", "--transport-partitions", "--blocks", "--block-threads"}),
          .set_defaults = set_table1_defaults,
          .contenders = make_table1_contenders,
          .partitions_of = vector_add_blocks,
          .metric_title = "x_psend_init",
          .metric = times_larger};
}

}  // namespace partita::bench::gpu
