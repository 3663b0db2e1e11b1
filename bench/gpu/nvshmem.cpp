#include "bench/gpu/nvshmem.hpp"

#include <cstdlib>
#include <string>
#include <vector>

#include "apps/support/shared_library.hpp"
#include "apps/support/time_limit.hpp"
#include "bench/gpu/measurement.hpp"

namespace partita::bench::gpu {

namespace {

/// One thread puts up to here: a block has nothing to share.
constexpr std::int64_t single_thread_bytes = 64;

class NvshmemMeasurement : public GpuMeasurement {
 public:
  NvshmemMeasurement(Job& job, const Case& c, const std::shared_ptr<Nvshmem>& nvshmem)
      : GpuMeasurement(job, "nvshmem", c),
        nvshmem_(nvshmem),
        sent_(static_cast<std::size_t>(c.size_bytes)),
        received_(nvshmem, sent_.size()),
        signal_(nvshmem, sizeof(std::uint64_t)) {}

  void prepare(std::uint64_t epoch) override {
    gpu::fill({sent_.data(), sent_.size(), 1}, epoch, stream_.get());
    gpu::poison(received_region(), epoch, stream_.get());
  }

 protected:
  Region received_region() const { return {received_.data(), sent_.size(), 1}; }
  /// Microseconds that the kernel just launched has measured. Waits for it.
  double reported_us() const {
    stream_.synchronize();
    gpu::check(report_.get(), "ping-pong");
    return static_cast<double>(report_.get().ns) / 1000;
  }

  std::shared_ptr<Nvshmem> nvshmem_;
  DeviceBuffer sent_;
  SymmetricBuffer received_;
  SymmetricBuffer signal_;
  Mailbox<partita_nvshmem_report> report_;
};

class NvshmemPingPong final : public NvshmemMeasurement {
 public:
  NvshmemPingPong(Job& job, const Case& c, const std::shared_ptr<Nvshmem>& nvshmem, int threads)
      : NvshmemMeasurement(job, c, nvshmem), threads_(c.size_bytes <= single_thread_bytes ? 1 : threads) {}

  bool compare(std::uint64_t epoch) const override { return compare_region(received_region(), epoch); }

  double sample(const Round& round) override {
    job_.barrier();
    check(nvshmem_->ping_pong(received_.data(), sent_.data(), sent_.size(), signal_.signals(), epoch_, round.batch,
                              threads_, job_.peer(), job_.is_first() ? 1 : 0, apps::wait_limit_ns(), report_.on_gpu(),
                              stream_.get()),
          "The launch of NVSHMEM's ping-pong");
    epoch_ += static_cast<std::uint64_t>(round.batch) + 1;
    return reported_us() / round.batch / 2;
  }

 private:
  int threads_;
  std::uint64_t epoch_ = 0;
};

class NvshmemPut final : public NvshmemMeasurement {
 public:
  NvshmemPut(Job& job, const Case& c, const std::shared_ptr<Nvshmem>& nvshmem, const GridShape& grid)
      : NvshmemMeasurement(job, c, nvshmem), grid_(grid), counter_(sizeof(unsigned)) {}

  bool compare(std::uint64_t epoch) const override {
    return job_.is_first() || compare_region(received_region(), epoch);
  }

  double sample(const Round& round) override {
    job_.barrier();
    const double us = job_.is_first() ? put_us(round.batch) : 0;
    job_.barrier();
    return us / round.batch;
  }

 private:
  double put_us(int rounds) {
    check(cudaMemsetAsync(counter_.data(), 0, counter_.size(), stream_.get()), "cudaMemsetAsync");
    check(nvshmem_->put(received_.data(), sent_.data(), sent_.size(), reinterpret_cast<unsigned*>(counter_.data()),
                        rounds, grid_.blocks, grid_.threads, job_.peer(), report_.on_gpu(), stream_.get()),
          "The launch of NVSHMEM's put");
    return reported_us();
  }

  GridShape grid_;
  DeviceBuffer counter_;
};

}  // namespace

Nvshmem::Nvshmem(Job& job) {
  // Puts do not use NVLink's multicast, and setting it up asks for rights on the whole host.
  setenv("NVSHMEM_DISABLE_NVLS", "1", 0);
  const apps::SharedLibrary library("--nvshmem", {job.options.nvshmem});
  library.take("partita_nvshmem_id_bytes", id_bytes_);
  library.take("partita_nvshmem_make_id", make_id_);
  library.take("partita_nvshmem_start", start_);
  library.take("partita_nvshmem_end", end_);
  library.take("partita_nvshmem_allocate", allocate);
  library.take("partita_nvshmem_free", free);
  library.take("partita_nvshmem_ping_pong", ping_pong);
  library.take("partita_nvshmem_put", put);
  library.take("partita_nvshmem_add_and_put", add_and_put);
  library.take("partita_nvshmem_mark", mark);
  library.take("partita_nvshmem_await", await);
  start(job);
}

std::shared_ptr<Nvshmem> Nvshmem::find(Job& job) {
  static std::weak_ptr<Nvshmem> shared;
  if (job.options.nvshmem == "none") return nullptr;
  if (auto existing = shared.lock()) return existing;
  auto made = std::make_shared<Nvshmem>(job);
  shared = made;
  job.shared.push_back(made);
  return made;
}

void Nvshmem::start(const Job& job) const {
  std::vector<std::byte> id(id_bytes_());
  if (job.is_first()) bench::check(make_id_(id.data()), "nvshmemx_get_uniqueid");
  bench::check(PMPI_Bcast(id.data(), static_cast<int>(id.size()), MPI_BYTE, 0, job.comm), "MPI_Bcast");
  bench::check(start_(id.data(), job.rank, 2), "nvshmemx_init_attr");
}

SymmetricBuffer::SymmetricBuffer(std::shared_ptr<Nvshmem> nvshmem, std::size_t size_bytes)
    : nvshmem_(std::move(nvshmem)), base_(nvshmem_->allocate(size_bytes)) {
  if (base_ == nullptr) {
    throw Failure("NVSHMEM has no symmetric memory for {} bytes; NVSHMEM_SYMMETRIC_SIZE sets how much it has.",
                  size_bytes);
  }
}

void check(const partita_nvshmem_report& report, const char* measurement) {
  if (report.timed_out == 0) return;
  throw Failure("NVSHMEM's {}: no signal came from the other rank within {} s (PARTITA_TIMEOUT).", measurement,
                apps::wait_limit_ns() / 1'000'000'000);
}

std::unique_ptr<Measurement> nvshmem_ping_pong(Job& job, const Case& c, int threads) {
  const auto nvshmem = Nvshmem::find(job);
  if (nvshmem == nullptr) return nullptr;
  return std::make_unique<NvshmemPingPong>(job, c, nvshmem, threads);
}

std::unique_ptr<Measurement> nvshmem_put(Job& job, const Case& c, const GridShape& grid) {
  const auto nvshmem = Nvshmem::find(job);
  if (nvshmem == nullptr) return nullptr;
  return std::make_unique<NvshmemPut>(job, c, nvshmem, grid);
}

}  // namespace partita::bench::gpu
