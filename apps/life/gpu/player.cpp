#include "apps/life/gpu/player.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <partita/error.hpp>
#include <stdexcept>

#include "apps/halo/gpu/halo.hpp"
#include "apps/life/frame.hpp"
#include "apps/life/gpu/kernels.hpp"
#include "apps/support/clock.hpp"
#include "apps/support/cuda_graph.hpp"
#include "apps/support/gpus.hpp"
#include "apps/support/node.hpp"
#include "apps/support/progress.hpp"
#include "apps/support/rank_values.hpp"

namespace life::gpu {
namespace {

using partita::gpu_halo;
using partita::gpu_halo_way;
using partita::apps::Clock;
using partita::apps::CudaGraph;
using partita::apps::DeviceMemory;
using partita::apps::Progress;
using partita::apps::seconds_since;

struct Mode {
  std::string_view name;
  gpu_halo_way way;
  bool in_graphs;
};

constexpr std::array modes{
    Mode{"traditional", gpu_halo_way::traditional, false},     Mode{"staged-mpi", gpu_halo_way::staged, false},
    Mode{"queue-regular", gpu_halo_way::queue_regular, false}, Mode{"queue-ready", gpu_halo_way::queue_ready, false},
    Mode{"graph-regular", gpu_halo_way::queue_regular, true},  Mode{"graph-ready", gpu_halo_way::queue_ready, true},
    Mode{"in-kernel", gpu_halo_way::in_kernel, false},         Mode{"graph-in-kernel", gpu_halo_way::in_kernel, true},
};

const Mode& mode_named(std::string_view name) {
  const auto* const found = std::ranges::find(modes, name, &Mode::name);
  if (found == modes.end()) throw std::logic_error(fmt::format("life: there is no mode {} on GPUs.", name));
  return *found;
}

/// Even, so that the last one of a graph lies where the first one of the next begins.
constexpr int generations_of_graph = 20;

}  // namespace

class Player::Implementation {
 public:
  Implementation(MPI_Comm comm, const partita::halo_shape& shape)
      : comm_(comm),
        shape_(shape),
        properties_(partita::apps::properties_of_current_gpu()),
        shares_gpu_(partita::apps::ranks_share_a_gpu(comm, properties_.uuid)),
        cells_(static_cast<std::size_t>(partita::apps::size_of(shape.rows, shape.columns))),
        memory_(2 * cells_),
        fields_{partita::apps::framed_in(memory_.data(), shape.rows, shape.columns),
                partita::apps::framed_in(memory_.data() + cells_, shape.rows, shape.columns)} {
    load_kernels();
    int ranks = 1;
    MPI_Comm_size(comm, &ranks);
    spans_nodes_ = partita::apps::on_any_rank(comm, partita::apps::find_node(comm).ranks < ranks);
  }

  std::string describe() const {
    return fmt::format("{}, {}", properties_.name, shares_gpu_ ? "shared by several ranks" : "a GPU for each rank");
  }

  std::optional<std::string> problem_with(std::string_view name) const {
    const Mode& mode = mode_named(name);
    if (!spans_nodes_ || (!mode.in_graphs && mode.way != gpu_halo_way::in_kernel)) return std::nullopt;
    return fmt::format("mode {} needs all ranks on one node", name);
  }

  Outcome play(std::string_view name, const Game& game, const partita::apps::Block& block, int generations) {
    Outcome outcome;
    const double steps_s = time_step() * generations;
    fill({game.seed, game.density, block.first_row, block.first_column});
    MPI_Barrier(comm_);
    auto begin = Clock::now();
    const Mode& mode = mode_named(name);
    gpu_halo halo(comm_, shape_, {frame_of(fields_[0]), frame_of(fields_[1])}, mode.way, stream_);
    const int in_graphs = mode.in_graphs ? generations - generations % generations_of_graph : 0;
    std::unique_ptr<CudaGraph> graph;
    if (in_graphs > 0) {
      graph = std::make_unique<CudaGraph>(stream_, [&] { enqueue(halo, generations_of_graph); });
    }
    outcome.setup_s = seconds_since(begin);

    Progress progress(is_first());
    MPI_Barrier(comm_);
    begin = Clock::now();
    while (outcome.generations < in_graphs) {
      graph->launch();
      outcome.generations += generations_of_graph;
      tell(progress, name, outcome.generations, generations);
    }
    enqueue(halo, generations - in_graphs, [&](int done) { tell(progress, name, in_graphs + done, generations); });
    outcome.generations = generations;
    halo.finish();
    MPI_Barrier(comm_);
    outcome.time_s = seconds_since(begin);
    outcome.halo_s = std::max(0.0, outcome.time_s - steps_s);
    last_ = static_cast<std::size_t>(generations % 2);
    return outcome;
  }

  void copy_last(const Field& to) const {
    PARTITA_APPS_CUDA(
        cudaMemcpyAsync(to.cells, fields_[last_].cells, cells_ * sizeof(Cell), cudaMemcpyDeviceToHost, stream_.get()));
    stream_.synchronise();
  }

 private:
  bool is_first() const {
    int rank = 0;
    MPI_Comm_rank(comm_, &rank);
    return rank == 0;
  }

  static void tell(Progress& progress, std::string_view mode, int generation, int generations) {
    if (progress.due()) Progress::say(mode, fmt::format("generation {} of {} asked for", generation, generations));
  }

  /// A series of generations, from the first field on.
  template <class Told = void (*)(int)>
  void enqueue(gpu_halo& halo, int generations, const Told& told = [](int) {}) {
    for (int i = 0; i < generations; ++i) {
      const Field& from = fields_[static_cast<std::size_t>(i % 2)];
      halo.exchange(frame_of(from), {i == 0, i + 1 == generations});
      launch_next(from, fields_[static_cast<std::size_t>(1 - i % 2)], stream_.get());
      told(i + 1);
    }
  }

  /// Seconds of a generation without a halo, the mean of several.
  double time_step() {
    constexpr int untimed = 4, timed = 20;
    for (int i = 0; i < untimed; ++i) launch_next(fields_[0], fields_[1], stream_.get());
    stream_.synchronise();
    const auto begin = Clock::now();
    for (int i = 0; i < timed; ++i) launch_next(fields_[0], fields_[1], stream_.get());
    stream_.synchronise();
    return seconds_since(begin) / timed;
  }

  /// Dead cells into both frames, too: beyond the rim of a bounded board nobody fills them.
  void fill(const FirstGeneration& first) {
    PARTITA_APPS_CUDA(cudaMemsetAsync(memory_.data(), 0, memory_.bytes(), stream_.get()));
    launch_fill(fields_[0], first, stream_.get());
    stream_.synchronise();
  }

  MPI_Comm comm_;
  partita::halo_shape shape_;
  cudaDeviceProp properties_;
  bool shares_gpu_;
  bool spans_nodes_ = false;
  std::size_t cells_;  ///< of a field, the frame included
  partita::apps::Stream stream_;
  DeviceMemory<Cell> memory_;
  std::array<Field, 2> fields_;
  std::size_t last_ = 0;  ///< that of them which holds the last generation
};

std::optional<std::string> Player::choose_device(MPI_Comm world) {
  return partita::apps::choose_gpu(world);
}

Player::Player(MPI_Comm comm, const partita::halo_shape& shape)
    : implementation_(std::make_unique<Implementation>(comm, shape)) {}
Player::~Player() = default;

std::string Player::describe() const {
  return implementation_->describe();
}
std::optional<std::string> Player::problem_with(std::string_view mode) const {
  return implementation_->problem_with(mode);
}
Outcome Player::play(std::string_view mode, const Game& game, const partita::apps::Block& block, int generations) {
  return implementation_->play(mode, game, block, generations);
}
void Player::copy_last(const Field& to) const {
  implementation_->copy_last(to);
}

}  // namespace life::gpu
