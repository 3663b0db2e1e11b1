// cuFFT, loaded when it is asked for: the program neither needs it nor was built with it.
#pragma once

#include <cuda_runtime_api.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "apps/fft/problem.hpp"

namespace fft::gpu {

/// The calls of cuFFT that are used.
class CufftLibrary {
 public:
  /// Tries `path`; where that is empty $CUFFT_LIBRARY, else libcufft.so.12 (CUDA 13), .11 (CUDA 12) and libcufft.so
  /// where the loader looks. Throws std::runtime_error with a sentence if none is there.
  explicit CufftLibrary(const std::string& path);

  int (*create)(int* plan);
  int (*make_plan_many)(int plan, int rank, long long* n, long long* inembed, long long istride, long long idist,
                        long long* onembed, long long ostride, long long odist, int type, long long batch,
                        std::size_t* work_bytes);
  int (*set_auto_allocation)(int plan, int on);
  int (*set_work_area)(int plan, void* area);
  int (*set_stream)(int plan, cudaStream_t);
  int (*exec)(int plan, double2* from, double2* to, int direction);
  int (*destroy)(int plan);

  /// Throws std::runtime_error that names `call` unless `code` is success.
  static void check(int code, const char* call);
};

/// Transforms in a stream, each of a number of planes. First prepare is called for all kinds of planes, then work_in.
class CufftPlans {
 public:
  CufftPlans(const CufftLibrary& library, cudaStream_t stream) : library_(library), stream_(stream) {}
  ~CufftPlans();
  CufftPlans(const CufftPlans&) = delete;
  CufftPlans& operator=(const CufftPlans&) = delete;

  /// Planes of equal size that lie one behind the other.
  struct Planes {
    std::int64_t planes, lines, length;
    int transformed;  ///< 1: each line by itself; 2: both axes of a plane

    std::int64_t cells() const { return planes * lines * length; }
    auto operator<=>(const Planes&) const = default;
  };
  /// Makes the plan, for which the host waits, unless there is one. It takes no work area yet.
  void prepare(const Planes& planes);
  /// Bytes of an area in GPU memory in which each of the plans can work.
  std::size_t work_bytes() const { return work_bytes_; }
  /// The plans work in this area, which outlives their transforms: all share it, since the stream runs one at a time.
  void work_in(void* area);
  /// Puts the transform in place of the planes at `cells` into the stream. Nothing is scaled. Throws std::out_of_range
  /// where no plan was prepared.
  void transform(const Planes& planes, Direction direction, double2* cells);

 private:
  CufftLibrary library_;
  cudaStream_t stream_;
  std::map<Planes, int> plans_;
  std::size_t work_bytes_ = 0;
};

}  // namespace fft::gpu
