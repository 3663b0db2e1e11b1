// Steps with a gradient that is summed over two nodes in two levels: by kernels in a node, by hosts between the two.
#include <mpi.h>
#include <partita/mpix.h>

#include "apps/bce/gpu/device_request.hpp"
#include "apps/bce/gpu/summing.hpp"

namespace bce::gpu {
namespace {

/// Each rank of a node has a part of the gradient: kernels reduce it there, a partitioned allreduce with the rank of
/// the same place on the other node adds its part, and kernels spread the sum.
class TwoLevel final : public Steps {
 public:
  TwoLevel(const Rank& rank, const partita::apps::TwoNodes& nodes)
      : rank_(rank),
        size_(rank.model.features / nodes.ranks_of_a_node()),
        partitions_(rank.model.parts % nodes.ranks_of_a_node() == 0 ? rank.model.parts / nodes.ranks_of_a_node() : 1),
        mine_(static_cast<std::size_t>(size_)),
        summed_(static_cast<std::size_t>(size_)),
        scatter_("device",
                 [&](MPI_Info info, MPI_Request* request) {
                   MPIX_Preduce_scatter_block_init(rank.model.own, mine_.data(), 1, size_, MPI_DOUBLE, MPI_SUM,
                                                   nodes.within(), info, request);
                 }),
        across_("host",
                [&](MPI_Info info, MPI_Request* request) {
                  MPIX_Pallreduce_init(mine_.data(), summed_.data(), partitions_, size_ / partitions_, MPI_DOUBLE,
                                       MPI_SUM, nodes.across(), info, request);
                }),
        gather_("device", [&](MPI_Info info, MPI_Request* request) {
          MPIX_Pallgather_init(summed_.data(), 1, size_, MPI_DOUBLE, rank.model.sum, size_, MPI_DOUBLE, nodes.within(),
                               info, request);
        }) {}

  void take(int first, int count) override {
    const cudaStream_t stream = rank_.stream.get();
    for (int step = first; step < first + count; ++step) {
      launch_forward(rank_.model, step, stream);
      updated_.synchronise();  // an epoch may write the other node's part as soon as it is open
      MPI_Start(&across_.request());
      MPIX_Pbuf_prepare(across_.request());
      launch_backward_and_scatter(rank_.model, scatter_.device(), across_.device(), partitions_, rank_.training_blocks,
                                  failure_.word(), stream);
      MPI_Wait(&across_.request(), MPI_STATUS_IGNORE);
      launch_gather_and_update(rank_.model, gather_.device(), rank_.training_blocks, failure_.word(), stream);
      updated_.record(rank_.stream);
    }
  }
  void look() const override { failure_.look(); }

 private:
  Rank rank_;
  int size_;  ///< of a part
  int partitions_;
  partita::apps::DeviceMemory<double> mine_, summed_;
  DeviceRequest scatter_, across_, gather_;
  KernelFailure failure_;
  partita::apps::StreamEvent updated_;
};

}  // namespace

std::unique_ptr<Steps> steps_in_two_levels(const Rank& rank, const partita::apps::TwoNodes& nodes) {
  return std::make_unique<TwoLevel>(rank, nodes);
}

}  // namespace bce::gpu
