#include "bench/gpu/nvshmem.hpp"

#include <dlfcn.h>

#include <string>
#include <vector>

#include "bench/gpu/measurement.hpp"
#include "bench/gpu/nvshmem_peer.h"

namespace partita::bench::gpu {

namespace {

/// One thread puts up to here: a block has nothing to share.
constexpr std::int64_t single_thread_bytes = 64;

/// The library of nvshmem_peer.h and the job of the two ranks in it.
class Nvshmem {
 public:
  explicit Nvshmem(Job& job) {
    const std::string& path = job.options.nvshmem;
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw Failure("--nvshmem {}: cannot be loaded: {}.", path, dlerror());
    take(library, "partita_nvshmem_id_bytes", id_bytes_);
    take(library, "partita_nvshmem_make_id", make_id_);
    take(library, "partita_nvshmem_start", start_);
    take(library, "partita_nvshmem_end", end_);
    take(library, "partita_nvshmem_allocate", allocate);
    take(library, "partita_nvshmem_free", free);
    take(library, "partita_nvshmem_ping_pong", ping_pong);
    take(library, "partita_nvshmem_put", put);
    start(job);
  }
  ~Nvshmem() { end_(); }
  Nvshmem(const Nvshmem&) = delete;
  Nvshmem& operator=(const Nvshmem&) = delete;

  /// One for all cases of a run; null with --nvshmem none. Collective.
  static std::shared_ptr<Nvshmem> find(Job& job) {
    static std::weak_ptr<Nvshmem> shared;
    if (job.options.nvshmem == "none") return nullptr;
    if (auto existing = shared.lock()) return existing;
    auto made = std::make_shared<Nvshmem>(job);
    shared = made;
    job.shared.push_back(made);
    return made;
  }

  decltype(&partita_nvshmem_allocate) allocate{};
  decltype(&partita_nvshmem_free) free{};
  decltype(&partita_nvshmem_ping_pong) ping_pong{};
  decltype(&partita_nvshmem_put) put{};

 private:
  template <class Function>
  void take(void* library, const char* name, Function*& function) {
    function = reinterpret_cast<Function*>(dlsym(library, name));
    if (function == nullptr) throw Failure("--nvshmem: the library has no {} (see bench/gpu/nvshmem_peer.h).", name);
  }

  void start(const Job& job) const {
    std::vector<std::byte> id(id_bytes_());
    if (job.is_first()) check(make_id_(id.data()), "nvshmemx_get_uniqueid");
    check(PMPI_Bcast(id.data(), static_cast<int>(id.size()), MPI_BYTE, 0, job.comm), "MPI_Bcast");
    check(start_(id.data(), job.rank, 2), "nvshmemx_init_attr");
  }

  decltype(&partita_nvshmem_id_bytes) id_bytes_{};
  decltype(&partita_nvshmem_make_id) make_id_{};
  decltype(&partita_nvshmem_start) start_{};
  decltype(&partita_nvshmem_end) end_{};
};

class NvshmemMeasurement : public GpuMeasurement {
 public:
  NvshmemMeasurement(Job& job, const Case& c, std::shared_ptr<Nvshmem> nvshmem)
      : GpuMeasurement(job, "nvshmem", c),
        nvshmem_(std::move(nvshmem)),
        sent_(static_cast<std::size_t>(c.size_bytes)),
        received_(nvshmem_->allocate(sent_.size())),
        signal_(static_cast<std::uint64_t*>(nvshmem_->allocate(sizeof(std::uint64_t)))) {
    if (received_ == nullptr || signal_ == nullptr) {
      throw Failure("NVSHMEM has no symmetric memory for {} bytes; NVSHMEM_SYMMETRIC_SIZE sets how much it has.",
                    c.size_bytes);
    }
  }
  ~NvshmemMeasurement() override {
    nvshmem_->free(received_);
    nvshmem_->free(signal_);
  }

  void prepare(std::uint64_t epoch) override {
    gpu::fill({sent_.data(), sent_.size(), 1}, epoch, stream_.get());
    gpu::poison(received_region(), epoch, stream_.get());
  }

 protected:
  Region received_region() const { return {static_cast<std::byte*>(received_), sent_.size(), 1}; }

  std::shared_ptr<Nvshmem> nvshmem_;
  DeviceBuffer sent_;
  void* received_;
  std::uint64_t* signal_;
  Mailbox<std::uint64_t> spent_ns_;
};

class NvshmemPingPong final : public NvshmemMeasurement {
 public:
  NvshmemPingPong(Job& job, const Case& c, std::shared_ptr<Nvshmem> nvshmem, int threads)
      : NvshmemMeasurement(job, c, std::move(nvshmem)), threads_(c.size_bytes <= single_thread_bytes ? 1 : threads) {}

  bool compare(std::uint64_t epoch) const override { return compare_region(received_region(), epoch); }

  double sample(const Round& round) override {
    job_.barrier();
    check(nvshmem_->ping_pong(received_, sent_.data(), sent_.size(), signal_, epoch_, round.batch, threads_,
                              job_.peer(), job_.is_first() ? 1 : 0, spent_ns_.on_gpu(), stream_.get()),
          "The launch of NVSHMEM's ping-pong");
    stream_.synchronize();
    epoch_ += static_cast<std::uint64_t>(round.batch) + 1;
    return static_cast<double>(spent_ns_.get()) / 1000 / round.batch / 2;
  }

 private:
  int threads_;
  std::uint64_t epoch_ = 0;
};

class NvshmemPut final : public NvshmemMeasurement {
 public:
  NvshmemPut(Job& job, const Case& c, std::shared_ptr<Nvshmem> nvshmem, const GridShape& grid)
      : NvshmemMeasurement(job, c, std::move(nvshmem)), grid_(grid), counter_(sizeof(unsigned)) {}

  bool compare(std::uint64_t epoch) const override {
    return job_.is_first() || compare_region(received_region(), epoch);
  }

  double sample(const Round& round) override {
    job_.barrier();
    if (job_.is_first()) put(round.batch);
    job_.barrier();
    return job_.is_first() ? static_cast<double>(spent_ns_.get()) / 1000 / round.batch : 0;
  }

 private:
  void put(int rounds) {
    check(cudaMemsetAsync(counter_.data(), 0, counter_.size(), stream_.get()), "cudaMemsetAsync");
    check(nvshmem_->put(received_, sent_.data(), sent_.size(), reinterpret_cast<unsigned*>(counter_.data()), rounds,
                        grid_.blocks, grid_.threads, job_.peer(), spent_ns_.on_gpu(), stream_.get()),
          "The launch of NVSHMEM's put");
    stream_.synchronize();
  }

  GridShape grid_;
  DeviceBuffer counter_;
};

}  // namespace

std::unique_ptr<Measurement> nvshmem_ping_pong(Job& job, const Case& c, int threads) {
  auto nvshmem = Nvshmem::find(job);
  if (nvshmem == nullptr) return nullptr;
  return std::make_unique<NvshmemPingPong>(job, c, std::move(nvshmem), threads);
}

std::unique_ptr<Measurement> nvshmem_put(Job& job, const Case& c, const GridShape& grid) {
  auto nvshmem = Nvshmem::find(job);
  if (nvshmem == nullptr) return nullptr;
  return std::make_unique<NvshmemPut>(job, c, std::move(nvshmem), grid);
}

}  // namespace partita::bench::gpu
