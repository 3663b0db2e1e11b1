#include "apps/fft/gpu/device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <stdexcept>

#include "apps/fft/gpu/cufft.hpp"
#include "apps/fft/gpu/kernels.hpp"
#include "apps/support/cuda_memory.hpp"
#include "apps/support/gpus.hpp"
#include "apps/support/rank_values.hpp"

namespace fft::gpu {
namespace {

using partita::apps::DeviceMemory;
using partita::apps::StreamEvent;

std::size_t cells_to_take(std::int64_t cells) {
  return static_cast<std::size_t>(std::max<std::int64_t>(cells, 1));
}

std::int64_t extent(const Stage& stage, const Box& box, std::size_t i) {
  return box.axes[static_cast<std::size_t>(stage.order[i])].count;
}

CufftPlans::Planes planes_of(const Stage& stage, const Box& box, std::int64_t planes) {
  return {planes, extent(stage, box, 1), extent(stage, box, 2), stage.transformed};
}

/// Prepares what a work for these hops transforms. Gives the bytes of the plans' work area.
std::size_t prepare(CufftPlans& plans, const std::vector<Hop>& hops) {
  for (const Hop& hop : hops) {
    const Route& route = hop.route;
    for (int slice = 0; slice < route.slices; ++slice) {
      const std::int64_t count = route.slice(route.self, slice).count;
      plans.prepare(planes_of(route.from, route.before, count));
      if (hop.last && route.arrives_in_planes()) plans.prepare(planes_of(route.to, route.after, count));
    }
    if (hop.last && !route.arrives_in_planes()) {
      plans.prepare(planes_of(route.to, route.after, extent(route.to, route.after, 0)));
    }
  }
  return plans.work_bytes();
}

/// What each rank needs of its GPU, with how much it finds free there now. Collective.
std::vector<GpuDemand> gather_demands(MPI_Comm comm, std::int64_t needed_bytes) {
  int ranks = 1;
  MPI_Comm_size(comm, &ranks);
  GpuDemand mine;
  const cudaUUID_t uuid = partita::apps::properties_of_current_gpu().uuid;
  std::ranges::copy(uuid.bytes, mine.gpu.begin());
  mine.needed_bytes = needed_bytes;
  // Who shares the GPU takes memory for its context and its plans first.
  MPI_Barrier(comm);
  std::size_t free_bytes = 0, all_bytes = 0;
  PARTITA_APPS_CUDA(cudaMemGetInfo(&free_bytes, &all_bytes));
  mine.free_bytes = static_cast<std::int64_t>(free_bytes);
  std::vector<GpuDemand> all(static_cast<std::size_t>(ranks));
  MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE, comm);
  return all;
}

/// All of it is put into one stream: the transforms and the copies of all slices ahead, each with a mark behind it for
/// which the host waits before it sends the slice.
class GpuWork final : public Work {
 public:
  GpuWork(const CufftLibrary& cufft, const std::vector<Hop>& hops) : GpuWork(cufft, hops, room_for(hops)) {}

  Buffers buffers() const override {
    return {reinterpret_cast<Complex*>(sent_.data()), reinterpret_cast<Complex*>(received_.data())};
  }
  void load(const std::vector<Complex>& cells) override {
    PARTITA_APPS_CUDA(cudaMemcpy(stage_.data(), cells.data(), cells.size() * sizeof(Complex), cudaMemcpyHostToDevice));
    PARTITA_APPS_CUDA(cudaStreamSynchronize(cudaStreamLegacy));  // for which a Stream does not wait
  }
  std::vector<Complex> cells(std::int64_t count) const override {
    std::vector<Complex> cells(static_cast<std::size_t>(count));
    PARTITA_APPS_CUDA(cudaMemcpy(cells.data(), stage_.data(), cells.size() * sizeof(Complex), cudaMemcpyDeviceToHost));
    return cells;
  }

  void begin(const Hop& hop) override {
    hop_ = &hop;
    const Route& route = hop.route;
    for (int slice = 0; slice < route.slices; ++slice) {
      transform(route.from, route.before, route.slice(route.self, slice));
      for (int peer = 0; peer < route.peers; ++peer) {
        launch_pack(piece_sent(hop, peer, slice), stage_.data(), sent_.data(), stream_.get());
      }
      packed_[static_cast<std::size_t>(slice)].record(stream_);
    }
    unpacked_.synchronise();
  }
  void pack(int slice) override { packed_[static_cast<std::size_t>(slice)].synchronise(); }
  void unpack(int slice) override {
    const Route& route = hop_->route;
    for (int peer = 0; peer < route.peers; ++peer) {
      launch_unpack(piece_received(*hop_, peer, slice), received_.data(), stage_.data(), hop_->scale, stream_.get());
    }
    if (slice + 1 == route.slices) unpacked_.record(stream_);
    if (hop_->last && route.arrives_in_planes()) transform(route.to, route.after, route.slice(route.self, slice));
  }
  void end() override {
    const Route& route = hop_->route;
    if (!route.arrives_in_planes()) transform(route.to, route.after, {0, extent(route.to, route.after, 0)});
    stream_.synchronise();
  }

 private:
  GpuWork(const CufftLibrary& cufft, const std::vector<Hop>& hops, const Room& room)
      : plans_(cufft, stream_.get()),
        work_area_(std::max<std::size_t>(prepare(plans_, hops), 1)),
        stage_(cells_to_take(room.stage)),
        sent_(cells_to_take(room.sent)),
        received_(cells_to_take(room.received)) {
    load_kernels();
    plans_.work_in(work_area_.data());
    for (const Hop& hop : hops) {
      while (packed_.size() < static_cast<std::size_t>(hop.route.slices)) packed_.emplace_back();
    }
  }

  void transform(const Stage& stage, const Box& box, const Range& planes) {
    const std::int64_t plane_cells = extent(stage, box, 1) * extent(stage, box, 2);
    plans_.transform(planes_of(stage, box, planes.count), hop_->direction, stage_.data() + planes.first * plane_cells);
  }

  partita::apps::Stream stream_;
  CufftPlans plans_;
  DeviceMemory<std::byte> work_area_;
  DeviceMemory<double2> stage_, sent_, received_;
  std::deque<StreamEvent> packed_;  ///< by slice
  StreamEvent unpacked_;            ///< the last slice of the hop before
  const Hop* hop_ = nullptr;
};

}  // namespace

std::optional<std::string> choose_device(MPI_Comm comm, const std::string& path) {
  if (auto problem = partita::apps::choose_gpu(comm)) return problem;
  std::string problem;
  try {
    const CufftLibrary cufft(path);
  } catch (const std::runtime_error& error) {
    problem = error.what();
    if (problem.ends_with('.')) problem.pop_back();  // the app ends its sentences itself
  }
  if (!partita::apps::on_any_rank(comm, !problem.empty())) return std::nullopt;
  return problem.empty() ? "--device gpu: another rank cannot load cuFFT" : problem;
}

std::string describe_device(MPI_Comm comm) {
  const cudaDeviceProp properties = partita::apps::properties_of_current_gpu();
  return fmt::format(
      "{}, {}", properties.name,
      partita::apps::ranks_share_a_gpu(comm, properties.uuid) ? "shared by several ranks" : "a GPU for each rank");
}

std::optional<Shortage> find_shortage(MPI_Comm comm, const std::string& path, const std::vector<Hop>& hops) {
  const std::int64_t cells = room_for(hops).all();
  // Before the plans, which cuFFT need not be able to make for what no GPU holds.
  if (const auto shortage = shortage_of(gather_demands(comm, bytes_of(cells)))) return shortage;
  const partita::apps::Stream stream;
  CufftPlans plans(CufftLibrary(path), stream.get());
  const auto work_bytes = static_cast<std::int64_t>(prepare(plans, hops));
  return shortage_of(gather_demands(comm, bytes_of(cells, work_bytes)));
}

WorkMaker work_maker(const std::string& path) {
  return [cufft = CufftLibrary(path)](const std::vector<Hop>& hops) { return std::make_unique<GpuWork>(cufft, hops); };
}

}  // namespace fft::gpu
