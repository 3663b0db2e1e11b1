#include "apps/cg/gpu/device.hpp"

#include <fmt/format.h>

#include <exception>
#include <stdexcept>
#include <utility>

#include "apps/cg/gpu/kernels.hpp"
#include "apps/cg/gpu/mpi.hpp"
#include "apps/support/cuda_graph.hpp"
#include "apps/support/cuda_memory.hpp"
#include "apps/support/gpus.hpp"
#include "apps/support/node.hpp"
#include "apps/support/rank_values.hpp"

namespace cg::gpu {
namespace {

using partita::apps::DeviceMemory;

/// Ranks whose kernels may sum by themselves (docs/design/collectives.md).
constexpr int most_ranks_in_kernels = 8;

/// What a stream asks the GPU for.
class GpuWork final : public Work {
 public:
  explicit GpuWork(const Share& share)
      : memory_(static_cast<std::size_t>(size_of(share.rows, share.problem.columns))),
        right_hand_side_(static_cast<std::size_t>(share.rows) * static_cast<std::size_t>(share.problem.columns)),
        numbers_(1),
        scratch_(1),
        model_{vectors_in(memory_.data(), numbers_.data(), share.rows, share.problem.columns), right_hand_side_.data(),
               scratch_.data()} {
    std::vector<double> values;
    values.reserve(static_cast<std::size_t>(vectors().points()));
    for (int row = share.first_row; row < share.first_row + share.rows; ++row) {
      for (int column = 0; column < share.problem.columns; ++column) {
        values.push_back(right_hand_side_at(share.problem, row, column));
      }
    }
    PARTITA_APPS_CUDA(
        cudaMemcpy(right_hand_side_.data(), values.data(), right_hand_side_.bytes(), cudaMemcpyHostToDevice));
    PARTITA_APPS_CUDA(cudaStreamSynchronize(cudaStreamLegacy));  // for which a Stream does not wait
    load_kernels();
  }

  const Vectors& vectors() const { return model_.vectors; }
  const partita::apps::Stream& stream() const { return stream_; }

  void start() override { launch_start(model_, stream_.get()); }
  void apply() override { launch_apply(model_, stream_.get()); }
  void advance() override { launch_advance(model_, stream_.get()); }
  void turn() override { launch_turn(model_, stream_.get()); }
  void finish() override { stream_.synchronise(); }
  double residual_square() const override {
    double square = 0;
    PARTITA_APPS_CUDA(cudaMemcpy(&square, &numbers_.data()->all[static_cast<int>(Product::residual)], sizeof square,
                                 cudaMemcpyDeviceToHost));
    return square;
  }
  std::vector<double> solution() const override {
    std::vector<double> x(static_cast<std::size_t>(vectors().points()));
    PARTITA_APPS_CUDA(cudaMemcpy(x.data(), vectors().x, x.size() * sizeof(double), cudaMemcpyDeviceToHost));
    return x;
  }

 private:
  partita::apps::Stream stream_;
  DeviceMemory<double> memory_, right_hand_side_;
  DeviceMemory<Numbers> numbers_;
  DeviceMemory<Scratch> scratch_;
  Model model_;
};

class Device final : public Machine {
 public:
  Device(const Share& share, const std::string& sums)
      : share_(share),
        properties_(partita::apps::properties_of_current_gpu()),
        shares_gpu_(partita::apps::ranks_share_a_gpu(share.comm, properties_.uuid)),
        work_(share) {
    int ranks = 1;
    MPI_Comm_size(share.comm, &ranks);
    const bool apart = partita::apps::on_any_rank(share.comm, partita::apps::find_node(share.comm).ranks < ranks);
    kernels_can_sum_ = ranks <= most_ranks_in_kernels && !apart;
    if (sums == "kernels" || (sums == "auto" && kernels_can_sum_)) sums_ = Sums::kernels;
  }
  ~Device() override {
    // No peer may still be using this rank's vectors. After an error peers may be anywhere.
    if (std::uncaught_exceptions() == 0) MPI_Barrier(share_.comm);
  }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  std::string describe() const override {
    return fmt::format("{}, {}; enqueued sums by {}", properties_.name,
                       shares_gpu_ ? "shared by several ranks" : "a GPU for each rank",
                       sums_ == Sums::kernels ? "kernels" : "the progress engine");
  }

  std::optional<std::string> problem_with(std::string_view mode) const override {
    if (mode != "traditional" && sums_ == Sums::kernels && !kernels_can_sum_) {
      return fmt::format("mode {} with --sums kernels needs all ranks, up to {}, on one node", mode,
                         most_ranks_in_kernels);
    }
    if (mode == "graph" && sums_ == Sums::engine) {
      return fmt::format(
          "mode graph needs sums by kernels (--sums), which up to {} ranks of one node can do: the progress engine "
          "takes "
          "no part in a graph",
          most_ranks_in_kernels);
    }
    return std::nullopt;
  }

  Work& work() override { return work_; }

  std::unique_ptr<Exchange> make_exchange(std::string_view mode) override {
    if (mode == "traditional") return exchange_through_host(share_, work_.vectors(), work_.stream());
    if (mode == "queue" || mode == "graph") {
      return exchange_in_queue(share_.comm, work_.vectors(), share_.neighbours,
                               partita::queue::cuda(work_.stream().get()), sums_);
    }
    throw std::logic_error(fmt::format("cg: there is no mode {} on GPUs.", mode));
  }

  std::function<void()> make_batch(std::string_view mode, Exchange& exchange, int count) override {
    std::function<void()> batch = one_by_one(work_, exchange, count);
    if (mode != "graph") return batch;
    const auto graph = std::make_shared<const partita::apps::CudaGraph>(work_.stream(), batch);
    return [graph] { graph->launch(); };
  }

 private:
  const Share share_;
  const cudaDeviceProp properties_;
  const bool shares_gpu_;
  bool kernels_can_sum_ = false;
  Sums sums_ = Sums::engine;
  GpuWork work_;
};

}  // namespace

std::optional<std::string> choose_device(MPI_Comm comm) {
  return partita::apps::choose_gpu(comm);
}

std::unique_ptr<Machine> make_device(const Share& share, const std::string& sums) {
  return std::make_unique<Device>(share, sums);
}

}  // namespace cg::gpu
