#include "bench/gpu/marking.hpp"

#include <optional>

#include "apps/support/time_limit.hpp"
#include "bench/gpu/measurement.hpp"
#include "bench/gpu/nvshmem.hpp"

namespace partita::bench::gpu {

namespace {

constexpr int warp_threads = 32;

int partitions_for(const MarkingBlock& block) {
  switch (block.granularity) {
    case Granularity::warp:
      return (block.threads + warp_threads - 1) / warp_threads;
    case Granularity::block:
      return 1;
    case Granularity::thread:
    case Granularity::automatic:
      break;
  }
  return block.threads;
}

/// The library aggregates for the default call only: the others name what travels.
int transports_for(Granularity granularity, int partitions) {
  return granularity == Granularity::automatic ? 0 : partitions;
}

/// An epoch of either library: rank 0's block marks everything, rank 1 has it in the end.
class MarkingMeasurement : public OneWayMeasurement {
 public:
  MarkingMeasurement(Job& job, std::string name, const Case& c, const MarkingBlock& block)
      : OneWayMeasurement(job, std::move(name), c), block_(block), partitions_(partitions_for(block)) {}

  double sample(const Round& round) final {
    double sum_us = 0;
    for (int i = 0; i < round.batch; ++i) sum_us += epoch_us();
    return sum_us / round.batch;
  }

 protected:
  /// Microseconds in the calls, on rank 0.
  virtual double epoch_us() = 0;
  /// What rank 0 sends from, and rank 1 receives into.
  virtual std::byte* data() const = 0;
  std::size_t size_bytes() const { return static_cast<std::size_t>(case_.size_bytes); }

  MarkingBlock block_;
  int partitions_;

 private:
  Region region() const override { return {data(), size_bytes(), partitions_}; }
};

class PartitaMarking final : public MarkingMeasurement {
 public:
  PartitaMarking(Job& job, std::string name, const Case& c, const MarkingBlock& block, const char* copy)
      : MarkingMeasurement(job, std::move(name), c, block), buffer_(size_bytes()), request_(job, shape(copy)) {
    if (job.is_first()) request_.create_device_request();
  }
  LinkUsed link_used() override { return request_.link_used(); }

 private:
  double epoch_us() override {
    request_.start();
    job_.barrier();
    double spent_us = 0;
    if (job_.is_first()) {
      request_.prepare();
      launch_marking(request_.for_kernels(), block_.granularity, block_.threads, report_.on_gpu(), stream_.get());
      spent_us = static_cast<double>(finished(report_).measured_ns) / 1000;
    }
    request_.wait();
    return spent_us;
  }
  std::byte* data() const override { return buffer_.data(); }
  RequestShape shape(const char* copy) const {
    RequestShape shape;
    shape.sends = job_.is_first();
    shape.buffer = buffer_.data();
    shape.size_bytes = case_.size_bytes;
    shape.partitions = partitions_;
    shape.transport_partitions = transports_for(block_.granularity, partitions_);
    shape.copy = copy;
    return shape;
  }

  DeviceBuffer buffer_;
  Request request_;
  Mailbox<KernelReport> report_;
};

/// Every put has a signal of its own, which a kernel of rank 1 awaits.
class NvshmemMarking final : public MarkingMeasurement {
 public:
  NvshmemMarking(Job& job, std::string name, const Case& c, const MarkingBlock& block, partita_nvshmem_group group,
                 const std::shared_ptr<Nvshmem>& nvshmem)
      : MarkingMeasurement(job, std::move(name), c, block),
        group_(group),
        nvshmem_(nvshmem),
        sent_(size_bytes()),
        received_(nvshmem, size_bytes()),
        signals_(nvshmem, sizeof(std::uint64_t) * static_cast<std::size_t>(partitions_)) {}

 private:
  double epoch_us() override {
    ++epoch_;
    job_.barrier();
    if (job_.is_first()) {
      check(nvshmem_->mark(received_.data(), sent_.data(), size_bytes(), signals_.signals(), epoch_, group_,
                           block_.threads, job_.peer(), report_.on_gpu(), stream_.get()),
            "The launch of the kernel that puts with NVSHMEM");
    } else {
      check(nvshmem_->await(signals_.signals(), partitions_, epoch_, apps::wait_limit_ns(), report_.on_gpu(),
                            stream_.get()),
            "The launch of the kernel that awaits NVSHMEM's signals");
    }
    stream_.synchronize();
    gpu::check(report_.get(), name_.c_str());
    return static_cast<double>(report_.get().ns) / 1000;  // 0 where it awaits
  }
  std::byte* data() const override { return job_.is_first() ? sent_.data() : received_.data(); }

  partita_nvshmem_group group_;
  std::shared_ptr<Nvshmem> nvshmem_;
  DeviceBuffer sent_;
  SymmetricBuffer received_;
  SymmetricBuffer signals_;
  Mailbox<partita_nvshmem_report> report_;
  std::uint64_t epoch_ = 0;
};

std::optional<partita_nvshmem_group> group_for(const MarkingBlock& block) {
  switch (block.granularity) {
    case Granularity::thread:
      return PARTITA_NVSHMEM_THREAD;
    case Granularity::warp:
      if (block.threads > warp_threads && block.threads % warp_threads != 0) return std::nullopt;
      return PARTITA_NVSHMEM_WARP;
    case Granularity::block:
      return PARTITA_NVSHMEM_BLOCK;
    case Granularity::automatic:
      break;
  }
  return std::nullopt;
}

}  // namespace

std::unique_ptr<Measurement> marking(Job& job, std::string name, const Case& c, const MarkingBlock& block,
                                     const char* copy) {
  return std::make_unique<PartitaMarking>(job, std::move(name), c, block, copy);
}

std::unique_ptr<Measurement> nvshmem_marking(Job& job, std::string name, const Case& c, const MarkingBlock& block) {
  const auto group = group_for(block);
  if (!group) return nullptr;
  const auto nvshmem = Nvshmem::find(job);
  if (nvshmem == nullptr) return nullptr;
  return std::make_unique<NvshmemMarking>(job, std::move(name), c, block, *group, nvshmem);
}

}  // namespace partita::bench::gpu
