#include <vector>

#include "apps/jacobi2d/gpu/device_block.hpp"
#include "apps/jacobi2d/gpu/solver.hpp"

namespace jacobi2d::gpu {

/// Starts and ends like a rank that has the whole grid to itself.
class Reference::Implementation {
 public:
  Implementation(const Division& division, const Problem& problem)
      : division_(division),
        problem_(problem),
        memory_(static_cast<std::size_t>(size_of(division.rows, division.columns))),
        host_(field_in(memory_.data(), division.rows, division.columns)),
        cells_(whole(), {}) {
    int device = 0, multiprocessors = 0;
    PARTITA_APPS_CUDA(cudaGetDevice(&device));
    PARTITA_APPS_CUDA(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
    tiling_ = tile_for_launches(cells_.shape(), multiprocessors);
    restart();
  }

  const Field& after(int iterations) {
    if (iterations < iterations_) restart();
    for (; iterations_ < iterations; ++iterations_) {
      launch_sweep(cells_.shape(), tiling_, cells_.sweep(iterations_ % 2, 0, 0, nullptr), stream_.get());
    }
    stream_.synchronise();
    cells_.download(iterations_ % 2, host_);
    return host_;
  }

 private:
  Block whole() const { return {0, 0, division_.rows, division_.columns}; }

  void restart() {
    fill(host_, whole(), division_, problem_);
    cells_.upload(host_);
    iterations_ = 0;
  }

  Division division_;
  Problem problem_;
  std::vector<double> memory_;
  Field host_;
  Stream stream_;
  DeviceBlock cells_;
  Tiling tiling_{};
  int iterations_ = 0;
};

Reference::Reference(const Division& division, const Problem& problem)
    : implementation_(std::make_unique<Implementation>(division, problem)) {}
Reference::~Reference() = default;

const Field& Reference::after(int iterations) {
  return implementation_->after(iterations);
}

}  // namespace jacobi2d::gpu
