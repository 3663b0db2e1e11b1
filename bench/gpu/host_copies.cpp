// ipc.fig3: copies between a GPU and its host, by the kind of host memory and of copy (ipc-collectives-gpu, figure 3).
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/contents.hpp"
#include "bench/gpu/benchmarks.hpp"
#include "bench/gpu/cpu_mapping.hpp"
#include "bench/gpu/mapped_copy.hpp"
#include "bench/gpu/measurement.hpp"
#include "bench/gpu/table.hpp"

namespace partita::bench::gpu {

namespace {

enum class Direction : std::uint8_t { to_host, to_gpu };

// ---- Memory ---------------------------------------------------------------------------------------------------------

/// Shared memory of the system's, page-locked afterwards, as Partita's segments are.
Buffer registered_memory(std::size_t size_bytes) {
  void* const base = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED)
    throw Failure("mmap of {} bytes of shared memory fails: {}.", size_bytes, std::strerror(errno));
  Buffer memory(base, size_bytes, [size_bytes](void* mapped) {
    cudaHostUnregister(mapped);
    munmap(mapped, size_bytes);
  });
  check(cudaHostRegister(base, size_bytes, cudaHostRegisterPortable | cudaHostRegisterMapped), "cudaHostRegister");
  return memory;
}

/// Buffers for the largest case, one of the GPU's and one of each kind of the host's.
struct CopiedMemory {
  explicit CopiedMemory(std::size_t size_bytes)
      : on_gpu(staging_memory().on_gpu(size_bytes)),
        pageable(plain_buffer(size_bytes)),
        page_locked(staging_memory().page_locked(size_bytes)),
        registered(registered_memory(size_bytes)),
        for_cpu(map_for_cpu(on_gpu.bytes().data())) {
    check(cudaHostGetDevicePointer(&page_locked_on_gpu, page_locked.bytes().data(), 0), "cudaHostGetDevicePointer");
  }

  const Buffer on_gpu;
  const Buffer pageable;
  const Buffer page_locked;
  const Buffer registered;
  const CpuMapped for_cpu;  ///< the first bytes of `on_gpu`
  void* page_locked_on_gpu = nullptr;
};

std::shared_ptr<CopiedMemory> copied_memory(Job& job) {
  static std::weak_ptr<CopiedMemory> shared;
  if (auto existing = shared.lock()) return existing;
  constexpr std::int64_t least_bytes = std::int64_t{2} << 20;  // what is mapped for the CPU begins with an allocation
  auto made = std::make_shared<CopiedMemory>(static_cast<std::size_t>(std::max(job.options.max_bytes, least_bytes)));
  shared = made;
  job.shared.push_back(made);
  return made;
}

// ---- Measurements ---------------------------------------------------------------------------------------------------

/// Microseconds of one copy, the mean of a batch, each complete before the next one begins. All ranks copy at once.
class HostCopy : public GpuMeasurement {
 public:
  HostCopy(Job& job, std::string name, const Case& c, std::shared_ptr<CopiedMemory> memory, const Buffer& host,
           Direction direction)
      : GpuMeasurement(job, std::move(name), c),
        memory_(std::move(memory)),
        host_(host.bytes().data()),
        direction_(direction) {}

  void prepare(std::uint64_t epoch) final {
    std::vector<std::byte> contents(bytes());
    bench::fill(contents, 1, number(epoch));
    set(direction_ == Direction::to_host ? on_gpu() : host_, contents);
    bench::poison(contents, 1, number(epoch));
    set(direction_ == Direction::to_host ? host_ : on_gpu(), contents);
  }
  bool compare(std::uint64_t epoch) const final {
    std::vector<std::byte> found(bytes());
    check(cudaMemcpy(found.data(), direction_ == Direction::to_host ? host_ : on_gpu(), bytes(), cudaMemcpyDefault),
          "cudaMemcpy");
    const auto mismatch = bench::find_mismatch(found, 1, number(epoch));
    if (!mismatch) return true;
    std::fprintf(stderr, "rank %d: %s: byte %lld is %d, expected %d\n", job_.rank, name_.c_str(),
                 static_cast<long long>(mismatch->offset), std::to_integer<int>(mismatch->got),
                 std::to_integer<int>(mismatch->expected));
    return false;
  }
  double sample(const Round& round) final {
    job_.barrier();
    const std::int64_t begin_ns = now_ns();
    for (int i = 0; i < round.batch; ++i) copy();
    return static_cast<double>(now_ns() - begin_ns) / 1000 / round.batch;
  }

 protected:
  virtual void copy() = 0;

  std::size_t bytes() const { return static_cast<std::size_t>(case_.size_bytes); }
  Direction direction() const { return direction_; }
  std::byte* on_gpu() const { return memory_->on_gpu.bytes().data(); }
  std::byte* on_host() const { return host_; }
  std::byte* to() const { return direction_ == Direction::to_host ? host_ : on_gpu(); }
  const std::byte* from() const { return direction_ == Direction::to_host ? on_gpu() : host_; }
  const CopiedMemory& memory() const { return *memory_; }

 private:
  std::uint64_t number(std::uint64_t epoch) const { return epoch * 64 + static_cast<std::uint64_t>(job_.rank); }
  void set(std::byte* place, const std::vector<std::byte>& contents) const {
    check(cudaMemcpy(place, contents.data(), contents.size(), cudaMemcpyDefault), "cudaMemcpy");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }

  const std::shared_ptr<CopiedMemory> memory_;
  std::byte* const host_;
  const Direction direction_;
};

/// cudaMemcpy, which may return before what it has read from pageable memory is on the GPU.
class PlainCopy final : public HostCopy {
 public:
  using HostCopy::HostCopy;

 private:
  void copy() override {
    check(cudaMemcpy(to(), from(), bytes(),
                     direction() == Direction::to_host ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice),
          "cudaMemcpy");
  }
};

/// cudaMemcpyAsync, and the wait for its stream.
class AwaitedCopy final : public HostCopy {
 public:
  using HostCopy::HostCopy;

 private:
  void copy() override { staging_memory().copy(to(), from(), bytes()); }
};

/// A kernel that reads or writes the host's memory, and the wait for its stream.
class KernelCopy final : public HostCopy {
 public:
  using HostCopy::HostCopy;

 private:
  void copy() override {
    auto* const host = static_cast<std::byte*>(memory().page_locked_on_gpu);
    const bool to_host = direction() == Direction::to_host;
    launch_mapped_copy(to_host ? host : on_gpu(), to_host ? on_gpu() : host, case_.size_bytes, stream_.get());
    stream_.synchronize();
  }
};

/// Loads and stores of the CPU.
class CpuCopy final : public HostCopy {
 public:
  using HostCopy::HostCopy;

 private:
  void copy() override {
    if (direction() == Direction::to_host) {
      memory().for_cpu.mapping->read(on_host(), bytes());
    } else {
      memory().for_cpu.mapping->write(on_host(), bytes());
    }
  }
};

// ---- The benchmark --------------------------------------------------------------------------------------------------

/// Those of one direction.
class HostCopies {
 public:
  HostCopies(Job& job, const Case& c, std::shared_ptr<CopiedMemory> memory, std::string prefix, Direction direction)
      : job_(job), case_(c), memory_(std::move(memory)), prefix_(std::move(prefix)), direction_(direction) {}

  void add_to(std::vector<Contender>& contenders, bool by_cpu) const {
    add_kind(contenders, "pageable", memory_->pageable);
    add_kind(contenders, "page-locked", memory_->page_locked);
    add_kind(contenders, "registered", memory_->registered);
    add<KernelCopy>(contenders, "kernel", memory_->page_locked);
    if (by_cpu) add<CpuCopy>(contenders, "cpu", memory_->pageable);
  }

 private:
  void add_kind(std::vector<Contender>& contenders, const std::string& kind, const Buffer& host) const {
    add<PlainCopy>(contenders, kind, host);
    add<AwaitedCopy>(contenders, kind + "-async", host);
  }
  template <class Copy>
  void add(std::vector<Contender>& contenders, const std::string& rest, const Buffer& host) const {
    const std::string name = prefix_ + rest;
    contenders.push_back(
        {name, prefix_ + "page-locked-async", std::make_unique<Copy>(job_, name, case_, memory_, host, direction_)});
  }

  Job& job_;
  const Case case_;
  const std::shared_ptr<CopiedMemory> memory_;
  const std::string prefix_;
  const Direction direction_;
};

std::vector<Contender> make_host_copies(Job& job, const Subjects&, const Case& c) {
  const std::shared_ptr<CopiedMemory> memory = copied_memory(job);
  const CpuMapped& for_cpu = memory->for_cpu;
  const bool all_map = job.on_both(for_cpu.mapping != nullptr);
  if (!all_map) {
    job.note(fmt::format("d2h-cpu and h2d-cpu are left out: the CPU cannot map GPU memory: {}",
                         for_cpu.mapping == nullptr ? for_cpu.why_not : "not on another rank"));
  }
  const bool by_cpu = all_map && c.size_bytes <= cpu_mapped_bytes;
  std::vector<Contender> contenders;
  HostCopies(job, c, memory, "d2h-", Direction::to_host).add_to(contenders, by_cpu);
  HostCopies(job, c, memory, "h2d-", Direction::to_gpu).add_to(contenders, by_cpu);
  return contenders;
}

void set_host_copy_defaults(Options& options) {
  options.min_bytes = 1;
  options.max_bytes = 4 << 20;
  options.partitions = {1};
  options.iterations = 40;
  options.warmup = 4;
}

}  // namespace

Benchmark ipc_fig3_benchmark() {
  return {.name = ipc_fig3_naming.name,
          .what = ipc_fig3_naming.what,
          .unit = "us",
          .compares_subjects = false,
          .ranks = Ranks::any,
          .on_gpu = true,
          .lacks = unused_by_ipc(),
          .set_defaults = set_host_copy_defaults,
          .contenders = make_host_copies,
          .metric_title = "x_staging",
          .metric = times_faster};
}

}  // namespace partita::bench::gpu
