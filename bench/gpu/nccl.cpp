#include "bench/gpu/nccl.hpp"

#include <dlfcn.h>

#include <string>

#include "bench/gpu/measurement.hpp"

namespace partita::bench::gpu {

namespace {

/// The part of nccl.h that is used, as NCCL 2 has it.
struct UniqueId {
  char internal[128];
};
using CommHandle = void*;
constexpr int type_int8 = 0;
constexpr int success = 0;

struct Library {
  int (*get_unique_id)(UniqueId*);
  int (*comm_init_rank)(CommHandle*, int ranks, UniqueId, int rank);
  int (*comm_destroy)(CommHandle);
  int (*send)(const void*, std::size_t, int type, int peer, CommHandle, cudaStream_t);
  int (*recv)(void*, std::size_t, int type, int peer, CommHandle, cudaStream_t);
  const char* (*error_string)(int);
};

template <class Function>
void take(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  if (function == nullptr) throw Failure("--nccl: the library has no {}.", name);
}

/// False where `wanted` is auto and no library is found.
bool load(const std::string& wanted, Library& calls) {
  const std::string path = wanted == "auto" ? "libnccl.so.2" : wanted;
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    if (wanted == "auto") return false;
    throw Failure("--nccl {}: cannot be loaded: {}.", wanted, dlerror());
  }
  take(library, "ncclGetUniqueId", calls.get_unique_id);
  take(library, "ncclCommInitRank", calls.comm_init_rank);
  take(library, "ncclCommDestroy", calls.comm_destroy);
  take(library, "ncclSend", calls.send);
  take(library, "ncclRecv", calls.recv);
  take(library, "ncclGetErrorString", calls.error_string);
  return true;
}

class LoadedNccl final : public Nccl {
 public:
  LoadedNccl(const Job& job, const Library& calls) : calls_(calls), peer_(job.peer()) {
    UniqueId id{};
    if (job.is_first()) check(calls_.get_unique_id(&id), "ncclGetUniqueId");
    bench::check(PMPI_Bcast(&id, sizeof(id), MPI_BYTE, 0, job.comm), "MPI_Bcast");
    check(calls_.comm_init_rank(&comm_, 2, id, job.rank), "ncclCommInitRank");
  }
  ~LoadedNccl() override { calls_.comm_destroy(comm_); }

  void send(const std::byte* data, std::size_t size_bytes, cudaStream_t stream) override {
    check(calls_.send(data, size_bytes, type_int8, peer_, comm_, stream), "ncclSend");
  }
  void receive(std::byte* data, std::size_t size_bytes, cudaStream_t stream) override {
    check(calls_.recv(data, size_bytes, type_int8, peer_, comm_, stream), "ncclRecv");
  }

 private:
  void check(int code, const char* call) const {
    if (code != success) throw Failure("{} failed: {}; --nccl none leaves NCCL out.", call, calls_.error_string(code));
  }

  Library calls_;
  int peer_;
  CommHandle comm_ = nullptr;
};

class NcclMeasurement : public GpuMeasurement {
 public:
  NcclMeasurement(Job& job, const Case& c, std::shared_ptr<Nccl> nccl)
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
  void send() { nccl_->send(sent_.data(), sent_.size(), stream_.get()); }
  void receive() { nccl_->receive(received_.data(), received_.size(), stream_.get()); }
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
  std::shared_ptr<Nccl> nccl_;
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

template <class M>
std::unique_ptr<Measurement> make(Job& job, const Case& c) {
  auto nccl = Nccl::find(job);
  if (nccl == nullptr) return nullptr;
  return std::make_unique<M>(job, c, std::move(nccl));
}

}  // namespace

std::shared_ptr<Nccl> Nccl::find(Job& job) {
  // One communicator for the whole run: making one takes a second.
  static std::weak_ptr<Nccl> shared;
  if (job.options.nccl == "none") return nullptr;
  if (auto existing = shared.lock()) return existing;
  Library calls{};
  const bool loaded = load(job.options.nccl, calls);
  if (!job.on_both(loaded)) return nullptr;
  auto made = std::make_shared<LoadedNccl>(job, calls);
  shared = made;
  job.shared.push_back(made);
  return made;
}

std::unique_ptr<Measurement> nccl_ping_pong(Job& job, const Case& c) {
  return make<NcclPingPong>(job, c);
}

std::unique_ptr<Measurement> nccl_stream(Job& job, const Case& c) {
  return make<NcclStream>(job, c);
}

}  // namespace partita::bench::gpu
