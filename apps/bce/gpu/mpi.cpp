// Steps in plain MPI, which knows nothing of GPUs; their twins with partitioned communication are in partita.cpp.
#include <mpi.h>

#include "apps/bce/gpu/summing.hpp"
#include "apps/support/own_mpi.hpp"

namespace bce::gpu {
namespace {

class BlockingAllreduce final : public Steps {
 public:
  explicit BlockingAllreduce(const Rank& rank)
      : rank_(rank),
        own_(static_cast<std::size_t>(rank.model.features)),
        sum_(static_cast<std::size_t>(rank.model.features)) {}

  void take(int first, int count) override {
    const Model& model = rank_.model;
    const cudaStream_t stream = rank_.stream.get();
    for (int step = first; step < first + count; ++step) {
      launch_forward(model, step, stream);
      launch_backward(model, nullptr, nullptr, stream);
      PARTITA_APPS_CUDA(cudaMemcpyAsync(own_.data(), model.own, own_.bytes(), cudaMemcpyDeviceToHost, stream));
      rank_.stream.synchronise();
      allreduce_(own_.data(), sum_.data(), model.features, MPI_DOUBLE, MPI_SUM, rank_.comm);
      PARTITA_APPS_CUDA(cudaMemcpyAsync(model.sum, sum_.data(), sum_.bytes(), cudaMemcpyHostToDevice, stream));
      launch_update(model, stream);
    }
  }

 private:
  decltype(&PMPI_Allreduce) allreduce_ = PARTITA_OF_MPI(Allreduce);
  Rank rank_;
  partita::apps::PinnedMemory<double> own_, sum_;
};

}  // namespace

std::unique_ptr<Steps> steps_by_allreduce(const Rank& rank) {
  return std::make_unique<BlockingAllreduce>(rank);
}

}  // namespace bce::gpu
