#include "bench/gpu/nccl.hpp"

#include <optional>
#include <stdexcept>
#include <utility>

#include "apps/support/gpus.hpp"
#include "bench/gpu/measurement.hpp"

namespace partita::bench::gpu {

namespace {

/// None where --nccl is auto and no library is found.
std::optional<apps::NcclLibrary> load(const std::string& wanted) {
  const bool must_be_there = wanted != "auto";
  try {
    return apps::NcclLibrary("--nccl", must_be_there ? wanted : std::string());
  } catch (const std::runtime_error&) {
    if (must_be_there) throw;
    return std::nullopt;
  }
}

/// NCCL refuses two ranks on one GPU. Then it takes no part, unless --nccl demands it. Collective.
bool gpus_are_shared(Job& job) {
  int device = 0;
  cudaDeviceProp properties{};
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  if (!apps::ranks_share_a_gpu(job.comm, properties.uuid)) return false;
  if (job.options.nccl != "auto") {
    throw Failure("--nccl {}: ranks share a GPU here, which NCCL refuses; expected is a GPU for each rank.",
                  job.options.nccl);
  }
  job.note("nccl is left out: it refuses ranks that share a GPU, as they do here");
  return true;
}

class NcclMeasurement : public GpuMeasurement {
 public:
  NcclMeasurement(Job& job, const Case& c, std::shared_ptr<apps::Nccl> nccl)
      : GpuMeasurement(job, "nccl", c),
        nccl_(std::move(nccl)),
        sent_(static_cast<std::size_t>(c.size_bytes)),
        received_(sent_.size()) {}

  void prepare(std::uint64_t epoch) override {
    gpu::fill({sent_.data(), sent_.size(), 1}, epoch, stream_.get());
    gpu::poison({received_.data(), received_.size(), 1}, epoch, stream_.get());
  }

 protected:
  bool compare_received(std::uint64_t epoch) const {
    return compare_region({received_.data(), received_.size(), 1}, epoch);
  }
  apps::Nccl& nccl() { return *nccl_; }
  void send() { nccl_->send(sent_.data(), sent_.size(), job_.peer(), stream_.get()); }
  void receive() { nccl_->receive(received_.data(), received_.size(), job_.peer(), stream_.get()); }
  /// Microseconds of what `enqueue` puts into the stream, by the host's clock.
  template <class Enqueue>
  double timed_us(const Enqueue& enqueue) {
    job_.barrier();
    const std::int64_t begin_ns = now_ns();
    enqueue();
    stream_.synchronize();
    return static_cast<double>(now_ns() - begin_ns) / 1000;
  }

 private:
  std::shared_ptr<apps::Nccl> nccl_;
  DeviceBuffer sent_;
  DeviceBuffer received_;
};

class NcclPingPong final : public NcclMeasurement {
 public:
  using NcclMeasurement::NcclMeasurement;
  bool compare(std::uint64_t epoch) const override { return compare_received(epoch); }
  double sample(const Round& round) override {
    return timed_us([&] {
             for (int i = 0; i < round.batch; ++i) play();
           }) /
           round.batch / 2;
  }

 private:
  void play() {
    if (job_.is_first()) {
      send();
      receive();
    } else {
      receive();
      send();
    }
  }
};

class NcclStream final : public NcclMeasurement {
 public:
  using NcclMeasurement::NcclMeasurement;
  bool compare(std::uint64_t epoch) const override { return job_.is_first() || compare_received(epoch); }
  double sample(const Round& round) override {
    return timed_us([&] {
             for (int i = 0; i < round.batch; ++i) job_.is_first() ? send() : receive();
           }) /
           round.batch;
  }
};

/// The calls alone: the stream has ended before each of them.
class NcclSendCall final : public NcclMeasurement {
 public:
  using NcclMeasurement::NcclMeasurement;
  bool compare(std::uint64_t epoch) const override { return job_.is_first() || compare_received(epoch); }
  double sample(const Round& round) override {
    std::int64_t spent_ns = 0;
    for (int i = 0; i < round.batch; ++i) {
      job_.barrier();
      const std::int64_t begin_ns = now_ns();
      nccl().begin_group();
      job_.is_first() ? send() : receive();
      nccl().end_group();
      if (job_.is_first()) spent_ns += now_ns() - begin_ns;
      stream_.synchronize();
    }
    return static_cast<double>(spent_ns) / round.batch / 1000;
  }
};

template <class M>
std::unique_ptr<Measurement> make(Job& job, const Case& c) {
  auto nccl = find_nccl(job);
  if (nccl == nullptr) return nullptr;
  return std::make_unique<M>(job, c, std::move(nccl));
}

}  // namespace

std::shared_ptr<apps::Nccl> find_nccl(Job& job) {
  // One communicator for the whole run: making one takes a second.
  static std::weak_ptr<apps::Nccl> shared;
  if (job.options.nccl == "none") return nullptr;
  if (auto existing = shared.lock()) return existing;
  const std::optional<apps::NcclLibrary> library = load(job.options.nccl);
  if (!job.on_both(library.has_value()) || !library) return nullptr;
  if (gpus_are_shared(job)) {
    job.options.nccl = "none";  // said once
    return nullptr;
  }
  auto made = std::make_shared<apps::Nccl>(*library, job.comm);
  shared = made;
  job.shared.push_back(made);
  return made;
}

std::unique_ptr<Measurement> nccl_ping_pong(Job& job, const Case& c) {
  return make<NcclPingPong>(job, c);
}

std::unique_ptr<Measurement> nccl_send_call(Job& job, const Case& c) {
  return make<NcclSendCall>(job, c);
}

std::unique_ptr<Measurement> nccl_stream(Job& job, const Case& c) {
  return make<NcclStream>(job, c);
}

}  // namespace partita::bench::gpu
