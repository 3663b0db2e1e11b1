#include "bench/gpu/driver_calls.hpp"

#include <cuda.h>
#include <dlfcn.h>

#include <utility>

#include "bench/clock.hpp"
#include "bench/failure.hpp"
#include "bench/gpu/measurement.hpp"

namespace partita::bench::gpu {

namespace {

/// The driver's function under its exported name. The program runs without a driver, too, so it links none.
using StoreWord = CUresult (*)(CUstream, CUdeviceptr, cuuint32_t, unsigned int);
StoreWord find_store_word() {
  static void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  return driver == nullptr ? nullptr : reinterpret_cast<StoreWord>(dlsym(driver, "cuStreamWriteValue32_v2"));
}

class StoredWord final : public GpuMeasurement {
 public:
  StoredWord(Job& job, std::string name, const Case& c, StoreWord store)
      : GpuMeasurement(job, std::move(name), c), store_(store) {}

  void prepare(std::uint64_t) override {}
  bool compare(std::uint64_t) const override { return true; }  // it moves nothing

  double sample(const Round& round) override {
    if (!job_.is_first()) return 0;
    std::int64_t spent_ns = 0;
    for (int i = 0; i < round.batch; ++i) {
      stream_.synchronize();
      const std::int64_t begin_ns = now_ns();
      const CUresult code = store_(stream_.get(), word(), static_cast<cuuint32_t>(i), CU_STREAM_WRITE_VALUE_DEFAULT);
      spent_ns += now_ns() - begin_ns;
      if (code != CUDA_SUCCESS)
        throw Failure("{}: cuStreamWriteValue32 fails with code {}", name_, static_cast<int>(code));
    }
    stream_.synchronize();
    return (static_cast<double>(spent_ns) / round.batch - job_.timer.cost_ns) / 1000;
  }

 private:
  CUdeviceptr word() { return reinterpret_cast<CUdeviceptr>(word_.data()); }

  StoreWord store_;
  DeviceBuffer word_{sizeof(cuuint32_t)};
};

}  // namespace

std::unique_ptr<Measurement> stored_word(Job& job, std::string name, const Case& c) {
  const StoreWord store = find_store_word();
  return store == nullptr ? nullptr : std::make_unique<StoredWord>(job, std::move(name), c, store);
}

}  // namespace partita::bench::gpu
