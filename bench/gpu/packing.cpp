// queue.pack: the bandwidth of kernels as the library's for datatypes with gaps, beside a copy's.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/gpu/benchmarks.hpp"
#include "bench/gpu/measurement.hpp"
#include "bench/gpu/pack_kernels.hpp"
#include "bench/gpu/table.hpp"

namespace partita::bench::gpu {

namespace {

/// More than any cache of a GPU holds.
constexpr std::int64_t bytes_of_all_rows = std::int64_t{128} << 20;

Rows rows_of(const Case& c) {
  if (c.size_bytes % 8 != 0 || bytes_of_all_rows / c.size_bytes == 0) {
    throw Failure("rows of {} bytes: expected is a multiple of 8 of at most {}.", c.size_bytes, bytes_of_all_rows);
  }
  return {bytes_of_all_rows / c.size_bytes, c.size_bytes, 2 * c.size_bytes};
}

/// What all contenders of a case copy between: the rows, and their bytes without gaps twice.
struct PackingArrays {
  explicit PackingArrays(const Case& c)
      : rows(rows_of(c)),
        layout(rows),
        gapped(static_cast<std::size_t>(rows.count * rows.stride_bytes)),
        first(static_cast<std::size_t>(rows.packed_bytes())),
        second(first.size()) {}

  static Region region(const DeviceBuffer& buffer) { return {buffer.data(), buffer.size(), 1}; }
  /// By the driver's own copy of rows, so that no kernel is compared with itself.
  void copy_rows(std::byte* to, std::int64_t to_stride, const std::byte* from, std::int64_t from_stride,
                 cudaStream_t stream) const {
    check(cudaMemcpy2DAsync(to, static_cast<std::size_t>(to_stride), from, static_cast<std::size_t>(from_stride),
                            static_cast<std::size_t>(rows.length_bytes), static_cast<std::size_t>(rows.count),
                            cudaMemcpyDeviceToDevice, stream),
          "cudaMemcpy2DAsync");
  }

  Rows rows;
  PackedLayout layout;
  DeviceBuffer gapped;
  DeviceBuffer first;
  DeviceBuffer second;
};

enum class Copied : std::uint8_t { plainly, packed, unpacked };

/// Microseconds of one copy, the mean of a batch in a row in the stream, by the host's clock.
class Packing final : public GpuMeasurement {
 public:
  Packing(Job& job, std::string name, const Case& c, std::shared_ptr<PackingArrays> arrays, Copied copied)
      : GpuMeasurement(job, std::move(name), c), arrays_(std::move(arrays)), copied_(copied) {}

  /// The contents lie where the copy begins, and nothing is right where it ends. The gaps hold others, of their own.
  void prepare(std::uint64_t epoch) override {
    const PackingArrays& all = *arrays_;
    gpu::poison(PackingArrays::region(all.gapped), epoch, stream_.get());
    gpu::fill(PackingArrays::region(all.second), of_gaps(epoch), stream_.get());
    all.copy_rows(gaps(), all.rows.stride_bytes, all.second.data(), all.rows.length_bytes, stream_.get());
    gpu::fill(PackingArrays::region(all.first), epoch, stream_.get());
    gpu::poison(PackingArrays::region(all.second), epoch, stream_.get());
    if (copied_ == Copied::packed) {
      all.copy_rows(all.gapped.data(), all.rows.stride_bytes, all.first.data(), all.rows.length_bytes, stream_.get());
    }
    stream_.synchronize();
  }
  bool compare(std::uint64_t epoch) const override {
    const PackingArrays& all = *arrays_;
    if (copied_ == Copied::unpacked) {
      all.copy_rows(all.second.data(), all.rows.length_bytes, all.gapped.data(), all.rows.stride_bytes, stream_.get());
    }
    if (!compare_region(PackingArrays::region(all.second), epoch)) return false;
    if (copied_ != Copied::unpacked) return true;
    all.copy_rows(all.second.data(), all.rows.length_bytes, gaps(), all.rows.stride_bytes, stream_.get());
    return compare_region(PackingArrays::region(all.second), of_gaps(epoch));
  }
  double sample(const Round& round) override {
    stream_.synchronize();
    const std::int64_t begin_ns = now_ns();
    for (int i = 0; i < round.batch; ++i) copy();
    stream_.synchronize();
    return static_cast<double>(now_ns() - begin_ns) / 1000 / round.batch;
  }

 private:
  static std::uint64_t of_gaps(std::uint64_t epoch) { return ~epoch; }
  /// The first one: each has the length of the row before it.
  std::byte* gaps() const { return arrays_->gapped.data() + arrays_->rows.length_bytes; }

  void copy() const {
    const PackingArrays& all = *arrays_;
    switch (copied_) {
      case Copied::plainly:
        return check(cudaMemcpyAsync(all.second.data(), all.first.data(), all.first.size(), cudaMemcpyDeviceToDevice,
                                     stream_.get()),
                     "cudaMemcpyAsync");
      case Copied::packed:
        return all.layout.pack(all.gapped.data(), all.second.data(), stream_.get());
      case Copied::unpacked:
        return all.layout.unpack(all.first.data(), all.gapped.data(), stream_.get());
    }
  }

  std::shared_ptr<PackingArrays> arrays_;
  Copied copied_;
};

std::vector<Contender> make_packing_contenders(Job& job, const Subjects&, const Case& c) {
  const auto arrays = std::make_shared<PackingArrays>(c);
  const std::string reference = "copy";
  std::vector<Contender> contenders;
  for (const auto& [name, copied] :
       {std::pair("copy", Copied::plainly), std::pair("pack", Copied::packed), std::pair("unpack", Copied::unpacked)}) {
    contenders.push_back({name, reference, std::make_unique<Packing>(job, name, c, arrays, copied)});
  }
  return contenders;
}

double packed_gigabytes_per_second(double us, const Case& c, const Options&) {
  return us > 0 ? static_cast<double>(rows_of(c).packed_bytes()) / us / 1000 : 0;
}

void set_packing_defaults(Options& options) {
  options.min_bytes = 8;
  options.max_bytes = 4 << 10;
  options.partitions = {1};
  options.iterations = 20;
  options.warmup = 2;
  options.batch = 20;
}

}  // namespace

Benchmark queue_pack_benchmark() {
  return {.name = queue_pack_naming.name,
          .what = queue_pack_naming.what,
          .unit = "GB/s",
          .larger_is_better = true,
          .compares_subjects = false,
          .ranks = Ranks::any,
          .on_gpu = true,
          .lacks = without({"--link", "--transport-partitions", "--blocks", "--block-threads", "--nccl", "--nvshmem"}),
          .set_defaults = set_packing_defaults,
          .contenders = make_packing_contenders,
          .value = packed_gigabytes_per_second,
          .metric_title = "x_copy",
          .metric = times_larger};
}

}  // namespace partita::bench::gpu
