// What the measurements of GPU requests share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bench/gpu/contents.hpp"
#include "bench/gpu/memory.hpp"
#include "bench/gpu/request.hpp"
#include "bench/measurement.hpp"

namespace partita::bench::gpu {

/// Options that no GPU benchmark has; `more` is what one lacks beside.
std::vector<std::string_view> without(std::initializer_list<std::string_view> more);
/// The options that none of ipc.* has, which measure the MPI's calls and copies.
std::vector<std::string_view> unused_by_ipc();

/// A measurement with a name for its complaints and a stream of its own.
class GpuMeasurement : public Measurement {
 public:
  GpuMeasurement(Job& job, std::string name, const Case& c) : job_(job), name_(std::move(name)), case_(c) {}

 protected:
  bool compare_region(const Region& region, std::uint64_t epoch) const {
    return gpu::compare(region, epoch, stream_.get(), job_.rank, name_.c_str());
  }
  /// After a kernel: its report, checked.
  KernelReport finished(const Mailbox<KernelReport>& mailbox) const {
    stream_.synchronize();
    check(mailbox.get(), name_.c_str());
    return mailbox.get();
  }

  Job& job_;
  std::string name_;
  Case case_;
  Stream stream_;
};

/// A measurement of bytes that go from rank 0's region into rank 1's.
class OneWayMeasurement : public GpuMeasurement {
 public:
  using GpuMeasurement::GpuMeasurement;
  void prepare(std::uint64_t epoch) final {
    if (job_.is_first()) {
      gpu::fill(region(), epoch, stream_.get());
    } else {
      gpu::poison(region(), epoch, stream_.get());
    }
  }
  bool compare(std::uint64_t epoch) const final { return job_.is_first() || compare_region(region(), epoch); }

 private:
  virtual Region region() const = 0;
};

/// Microseconds from rank 0's `begin_ns` to the later of the two ranks' ends, on rank 0's clock; 0 on rank 1. `offset`
/// is measure_offset's. Collective.
double epoch_us(const Job& job, std::int64_t begin_ns, std::int64_t end_ns, const ClockOffset& offset);

/// A case's bytes over the microseconds they took; 0 where there is no such time.
double gigabytes_per_second(double us, const Case& c, const Options&);

}  // namespace partita::bench::gpu
