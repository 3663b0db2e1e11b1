// Steps with NCCL's allreduce, for comparison.
#include "apps/support/nccl.hpp"

#include "apps/bce/gpu/summing.hpp"

namespace bce::gpu {
namespace {

class NcclSteps final : public Steps {
 public:
  NcclSteps(const Rank& rank, partita::apps::Nccl& nccl) : rank_(rank), nccl_(nccl) {}

  void take(int first, int count) override {
    const Model& model = rank_.model;
    const cudaStream_t stream = rank_.stream.get();
    for (int step = first; step < first + count; ++step) {
      launch_forward(model, step, stream);
      launch_backward(model, nullptr, nullptr, stream);
      nccl_.all_reduce_sum(model.own, model.sum, static_cast<std::size_t>(model.features), stream);
      launch_update(model, stream);
    }
  }

 private:
  Rank rank_;
  partita::apps::Nccl& nccl_;
};

}  // namespace

std::unique_ptr<Steps> steps_by_nccl(const Rank& rank, partita::apps::Nccl& nccl) {
  return std::make_unique<NcclSteps>(rank, nccl);
}

}  // namespace bce::gpu
