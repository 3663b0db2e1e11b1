// queue.fig1: where the time of a message goes that a host sends (cpu-free-stream-triggered-mpi, figure 1).
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/gpu/benchmarks.hpp"
#include "bench/gpu/packed_ping_pong.hpp"
#include "bench/gpu/table.hpp"

namespace partita::bench::gpu {

namespace {

/// One way: its launches are one that packs and one that unpacks, and between them the host synchronises once and the
/// message is transferred.
enum class Part : std::uint8_t { whole, launch, synchronize, transfer };

/// A ping-pong of which one part counts.
template <class PingPong>
class PartOf final : public PingPong {
 public:
  PartOf(Job& job, std::string name, const Case& c, std::shared_ptr<PackedArrays> arrays, Part part)
      : PingPong(job, std::move(name), c, std::move(arrays)), part_(part) {}

 private:
  void pack() override {
    timed(launch_ns_, [this] { this->launch_pack(); });
    timed(synchronize_ns_, [this] { this->stream_.synchronize(); });
  }
  void unpack() override {
    timed(launch_ns_, [this] { PingPong::unpack(); });
  }
  template <class Calls>
  static void timed(std::int64_t& sum_ns, const Calls& calls) {
    const std::int64_t begin_ns = now_ns();
    calls();
    sum_ns += now_ns() - begin_ns;
  }

  double counted_us(double half_trip_us) override {
    const double launch_us = of_each_trip(launch_ns_);
    const double synchronize_us = of_each_trip(synchronize_ns_);
    switch (part_) {
      case Part::whole:
        return half_trip_us;
      case Part::launch:
        return launch_us;
      case Part::synchronize:
        return synchronize_us;
      case Part::transfer:
        break;
    }
    return half_trip_us - launch_us - synchronize_us;  // below 0 on rank 1, so that rank 0's counts
  }
  double of_each_trip(std::int64_t& sum_ns) const {
    return static_cast<double>(std::exchange(sum_ns, 0)) / 1000 / this->trips();
  }

  Part part_;
  std::int64_t launch_ns_ = 0;
  std::int64_t synchronize_ns_ = 0;
};

/// Matching a new send and a new receive on each rank, which a matched request needs once.
class MatchCost final : public GpuMeasurement {
 public:
  MatchCost(Job& job, std::string name, const Case& c, std::shared_ptr<PackedArrays> arrays)
      : GpuMeasurement(job, std::move(name), c), arrays_(std::move(arrays)) {}
  void prepare(std::uint64_t) override {}
  bool compare(std::uint64_t) const override { return true; }  // it moves nothing
  double sample(const Round&) override {
    const PersistentMessage send(Way::send, arrays_->sent(), case_.size_bytes, job_.peer(), tag);
    const PersistentMessage receive(Way::receive, arrays_->received(), case_.size_bytes, job_.peer(), tag);
    job_.barrier();
    const std::int64_t begin_ns = now_ns();
    match({send.handle(), receive.handle()});
    const std::int64_t end_ns = now_ns();
    job_.barrier();
    return static_cast<double>(end_ns - begin_ns) / 1000;
  }

 private:
  static constexpr int tag = 84;
  std::shared_ptr<PackedArrays> arrays_;
};

template <class PingPong>
void add_parts(std::vector<Contender>& contenders, const std::string& whole, Job& job, const Case& c,
               const std::shared_ptr<PackedArrays>& arrays) {
  constexpr std::array parts{std::pair("", Part::whole), std::pair(":launch", Part::launch),
                             std::pair(":synchronize", Part::synchronize), std::pair(":transfer", Part::transfer)};
  for (const auto& [suffix, part] : parts) {
    const std::string name = whole + suffix;
    contenders.push_back({name, whole, std::make_unique<PartOf<PingPong>>(job, name, c, arrays, part)});
  }
}

std::vector<Contender> make_queue_costs_contenders(Job& job, const Subjects&, const Case& c) {
  const auto arrays = std::make_shared<PackedArrays>(c.size_bytes);
  std::vector<Contender> contenders;
  add_parts<Traditional>(contenders, "traditional", job, c, arrays);
  add_parts<TraditionalEngine>(contenders, "traditional-engine", job, c, arrays);
  contenders.push_back({"match", "traditional", std::make_unique<MatchCost>(job, "match", c, arrays)});
  return contenders;
}

void set_queue_costs_defaults(Options& options) {
  options.min_bytes = 8;
  options.max_bytes = 1 << 20;
  options.partitions = {1};
  options.iterations = 20;
  options.warmup = 2;
  options.batch = 100;
}

}  // namespace

Benchmark queue_fig1_benchmark() {
  return {.name = queue_fig1_naming.name,
          .what = queue_fig1_naming.what,
          .unit = "us",
          .compares_subjects = false,
          .on_gpu = true,
          .lacks = without({"--link", "--transport-partitions", "--blocks", "--block-threads", "--nccl", "--nvshmem"}),
          .set_defaults = set_queue_costs_defaults,
          .contenders = make_queue_costs_contenders,
          .metric_title = "Percent",
          .metric = percent_of};
}

}  // namespace partita::bench::gpu
