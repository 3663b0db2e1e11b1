// partitioned.latency: from ready to arrived, one way, inside kernels whose receives are open.
#include <algorithm>

#include "bench/gpu/benchmarks.hpp"
#include "bench/gpu/measurement.hpp"
#include "bench/gpu/nccl.hpp"
#include "bench/gpu/nvshmem.hpp"
#include "bench/gpu/ping_pong.hpp"
#include "bench/gpu/table.hpp"

namespace partita::bench::gpu {

namespace {

/// Up to it a device-driven request travels in packets, and one of small partitions up to the next one, if they are not
/// more than are played (docs/design/device.md): one that is to travel plainly has more.
constexpr std::int64_t packet_limit_bytes = 8192;
constexpr std::int64_t most_packets_bytes = 32768;
constexpr std::int64_t packet_partition_limit_bytes = 1024;
constexpr int played_partitions = 64;

/// Threads of the one block: a packet's 8 bytes each, at least a warp.
int threads_for(const Options& options, std::int64_t size_bytes) {
  if (!options.block_threads.empty()) return options.block_threads.front();
  return static_cast<int>(std::clamp<std::int64_t>((size_bytes / 8 + 31) / 32 * 32, 32, 512));
}

/// Buffers of both directions and their requests, `pairs` one-message pairs or one pair of many partitions.
class PingPong : public GpuMeasurement {
 public:
  void prepare(std::uint64_t epoch) override {
    gpu::fill(sent_region(), epoch, stream_.get());
    gpu::poison(received_region(), epoch, stream_.get());
  }
  bool compare(std::uint64_t epoch) const override { return compare_region(received_region(), epoch); }

 protected:
  PingPong(Job& job, std::string name, const Case& c, int messages, int parts_each)
      : GpuMeasurement(job, std::move(name), c),
        messages_(messages),
        sent_parts_(messages * parts_each),
        sent_(static_cast<std::size_t>(c.size_bytes) * static_cast<std::size_t>(sent_parts_)),
        received_(sent_.size()) {}

  /// The kernels of both ranks run once; one way in µs, on rank 0.
  double report_us(double ping_pongs) {
    const KernelReport report = finished(report_);
    return job_.is_first() ? static_cast<double>(counted_ns(report)) / 1000 / ping_pongs / 2 : 0;
  }
  virtual std::uint64_t counted_ns(const KernelReport& report) const { return report.measured_ns; }

  Region sent_region() const { return {sent_.data(), sent_.size(), sent_parts_}; }
  Region received_region() const { return {received_.data(), received_.size(), sent_parts_}; }

  int messages_;
  int sent_parts_;
  DeviceBuffer sent_;
  DeviceBuffer received_;
  Mailbox<KernelReport> report_;
};

/// Device-driven, one request a ping-pong of a round: for messages of which a request in packets holds few.
class LanePingPong : public PingPong {
 public:
  LanePingPong(Job& job, std::string name, const Case& c, int lanes) : PingPong(job, std::move(name), c, lanes, 1) {
    for (int lane = 0; lane < lanes; ++lane) {
      sends_.push_back(make(true, sent_.data(), lane));
      recvs_.push_back(make(false, received_.data(), lane));
    }
    for (int lane = 0; lane < lanes; ++lane) {
      sends_[static_cast<std::size_t>(lane)]->create_device_request();
      recvs_[static_cast<std::size_t>(lane)]->create_device_request();
      lanes_.send[lane] = sends_[static_cast<std::size_t>(lane)]->for_kernels();
      lanes_.recv[lane] = recvs_[static_cast<std::size_t>(lane)]->for_kernels();
    }
  }

  double sample(const Round& round) override {
    const int rounds = std::max(1, round.batch / messages_);
    job_.barrier();
    launch({messages_, rounds, threads_for(job_.options, case_.size_bytes), job_.is_first()});
    return report_us(rounds * counted_ping_pongs());
  }
  LinkUsed link_used() override { return sends_.front()->link_used(); }

 protected:
  virtual double counted_ping_pongs() const { return messages_ - untimed_ping_pongs; }
  virtual void launch(const PingPongShape& shape) {
    launch_lane_ping_pong(lanes_, shape, report_.on_gpu(), stream_.get());
  }

  Lanes lanes_{};

 private:
  std::unique_ptr<Request> make(bool sends, std::byte* buffer, int lane) {
    RequestShape shape;
    shape.sends = sends;
    shape.buffer = buffer + static_cast<std::int64_t>(lane) * case_.size_bytes;
    shape.size_bytes = case_.size_bytes;
    shape.tag = lane;
    shape.driver = "device";
    return std::make_unique<Request>(job_, shape);
  }

  std::vector<std::unique_ptr<Request>> sends_;
  std::vector<std::unique_ptr<Request>> recvs_;
};

/// One pair of requests that the kernel opens anew for every ping-pong: everything counts.
class RestartedPingPong : public LanePingPong {
 public:
  RestartedPingPong(Job& job, std::string name, const Case& c) : LanePingPong(job, std::move(name), c, 1) {}

 protected:
  std::uint64_t counted_ns(const KernelReport& report) const override { return report.whole_ns; }
  double counted_ping_pongs() const override { return 1; }
};

/// The same, by MPIX_Pnext.
class NextPingPong final : public RestartedPingPong {
 public:
  using RestartedPingPong::RestartedPingPong;

 protected:
  void launch(const PingPongShape& shape) override {
    launch_epoch_ping_pong(lanes_, shape, report_.on_gpu(), stream_.get());
  }
};

/// One pair of requests, one partition a ping-pong.
class PartitionPingPong final : public PingPong {
 public:
  PartitionPingPong(Job& job, std::string name, const Case& c, const char* driver, int partitions, int marks_each)
      : PingPong(job, std::move(name), c, partitions, marks_each),
        host_driven_(std::string_view(driver) == "host"),
        marks_each_(marks_each),
        send_(job, shape(true, driver)),
        recv_(job, shape(false, driver)) {
    send_.create_device_request();
    recv_.create_device_request();
  }

  double sample(const Round& round) override {
    const int rounds = std::max(1, round.batch / messages_);
    double sum_us = 0;
    // The host opens an epoch for one launch; kernels that open epochs themselves play all rounds in one.
    for (int i = 0; i < (host_driven_ ? rounds : 1); ++i) sum_us += play(host_driven_ ? 1 : rounds);
    return sum_us / rounds;
  }
  LinkUsed link_used() override { return send_.link_used(); }

 private:
  double play(int rounds) {
    if (host_driven_) {
      recv_.start();
      send_.start();
      send_.prepare();
    }
    job_.barrier();
    launch_partition_ping_pong(send_.for_kernels(), recv_.for_kernels(), marks_each_,
                               {messages_, rounds, threads_for(job_.options, case_.size_bytes), job_.is_first()},
                               report_.on_gpu(), stream_.get());
    const double one_way_us = report_us(messages_ - untimed_ping_pongs);
    if (host_driven_) {
      send_.wait();
      recv_.wait();
    }
    return one_way_us;
  }

  RequestShape shape(bool sends, const char* driver) const {
    RequestShape shape;
    shape.sends = sends;
    shape.buffer = sends ? sent_.data() : received_.data();
    shape.size_bytes = static_cast<std::int64_t>(sent_.size());
    shape.partitions = sends ? sent_parts_ : messages_;
    shape.transport_partitions = messages_;
    shape.driver = driver;
    shape.copy = "kernel";
    return shape;
  }

  bool host_driven_;
  int marks_each_;
  Request send_;
  Request recv_;
};

/// As many as a request in packets takes; too few for a round: 0.
int packet_partitions(std::int64_t size_bytes) {
  const bool small = size_bytes <= packet_partition_limit_bytes;
  const std::int64_t most = (small ? most_packets_bytes : packet_limit_bytes) / size_bytes;
  return most < 8 ? 0 : static_cast<int>(std::min<std::int64_t>(most, played_partitions));
}

/// Enough of them that the request does not travel in packets.
int plain_partitions(std::int64_t size_bytes) {
  return static_cast<int>(std::max<std::int64_t>(played_partitions + 1, packet_limit_bytes / size_bytes + 1));
}

std::vector<Contender> make_latency_contenders(Job& job, const Subjects&, const Case& c) {
  std::vector<Contender> contenders;
  const char* reference = "device-plain";
  const auto add = [&](const char* name, std::unique_ptr<Measurement> measurement) {
    contenders.push_back({name, reference, std::move(measurement)});
  };
  const int partitions = plain_partitions(c.size_bytes);
  add(reference, std::make_unique<PartitionPingPong>(job, reference, c, "device", partitions, 1));
  if (const int in_packets = packet_partitions(c.size_bytes); in_packets > 0) {
    add("device-packets", std::make_unique<PartitionPingPong>(job, "device-packets", c, "device", in_packets, 1));
  } else if (c.size_bytes <= packet_limit_bytes) {
    add("device-packets", std::make_unique<LanePingPong>(job, "device-packets", c, most_lanes));
  }
  add("device-restarted", std::make_unique<RestartedPingPong>(job, "device-restarted", c));
  add("device-next", std::make_unique<NextPingPong>(job, "device-next", c));
  add("host-block", std::make_unique<PartitionPingPong>(job, "host-block", c, "host", played_partitions, 1));
  add("host-counter", std::make_unique<PartitionPingPong>(job, "host-counter", c, "host", played_partitions, 2));
  if (auto nvshmem = nvshmem_ping_pong(job, c, threads_for(job.options, c.size_bytes)))
    add("nvshmem", std::move(nvshmem));
  if (auto nccl = nccl_ping_pong(job, c)) add("nccl", std::move(nccl));
  return contenders;
}

void set_latency_defaults(Options& options) {
  options.min_bytes = 8;
  options.max_bytes = 16384;
  options.partitions = {1};
  options.iterations = 40;
  options.warmup = 4;
  options.batch = 320;
}

}  // namespace

Benchmark latency_benchmark() {
  return {.name = latency_naming.name,
          .what = latency_naming.what,
          .unit = "us",
          .compares_subjects = false,
          .on_gpu = true,
          .lacks = without({"--link", "--transport-partitions", "--blocks"}),
          .set_defaults = set_latency_defaults,
          .contenders = make_latency_contenders,
          .metric_title = "x_plain",
          .metric = times_faster};
}

}  // namespace partita::bench::gpu
