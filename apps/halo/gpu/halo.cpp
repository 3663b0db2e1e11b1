#include "apps/halo/gpu/halo.hpp"

#include <utility>

#include "apps/halo/gpu/runs.hpp"

namespace partita {
namespace {

std::unique_ptr<gpu_halo::exchanger> make_exchanger(MPI_Comm comm, const halo_shape& shape, const framed_pair& blocks,
                                                    gpu_halo_way way, const apps::Stream& stream) {
  gpu_halo_kernels::load();
  switch (way) {
    case gpu_halo_way::staged:
      return make_staged_gpu_halo(comm, shape, stream);
    case gpu_halo_way::traditional:
      return make_traditional_gpu_halo(comm, shape, stream);
    case gpu_halo_way::queue_regular:
      return make_queue_gpu_halo(comm, shape, blocks, halo_sends::regular, stream);
    case gpu_halo_way::queue_ready:
      return make_queue_gpu_halo(comm, shape, blocks, halo_sends::ready, stream);
    case gpu_halo_way::in_kernel:
      return make_in_kernel_gpu_halo(comm, shape, stream);
  }
  return {};
}

gpu_halo_kernels::Runs runs_of(const halo_messages& messages, const framed_block& block, bool in_frame) {
  gpu_halo_kernels::Runs runs;
  for (const halo_message& message : messages) {
    const halo_run run = run_of(block, message.direction, in_frame);
    std::byte* const packed = in_frame ? message.received : message.sent;
    runs.runs[runs.count++] = {reinterpret_cast<std::uint64_t*>(run.first),
                               run.step_bytes / static_cast<std::ptrdiff_t>(sizeof(std::uint64_t)),
                               reinterpret_cast<std::uint64_t*>(packed), message.length};
  }
  return runs;
}

int result_of(cudaError_t code) {
  return code == cudaSuccess ? MPI_SUCCESS : MPI_ERR_NO_MEM;
}

}  // namespace

gpu_halo_kernels::Runs own_runs(const halo_messages& messages, const framed_block& block) {
  return runs_of(messages, block, false);
}

gpu_halo_kernels::Runs ghost_runs(const halo_messages& messages, const framed_block& block) {
  return runs_of(messages, block, true);
}

halo_memory memory_of_gpu() {
  return {[](MPI_Aint size_bytes, MPI_Info, void* base) {
            return result_of(cudaMalloc(static_cast<void**>(base), static_cast<std::size_t>(size_bytes)));
          },
          [](void* base) { return result_of(cudaFree(base)); }};
}

halo_memory memory_of_host() {
  return {[](MPI_Aint size_bytes, MPI_Info, void* base) {
            return result_of(cudaMallocHost(static_cast<void**>(base), static_cast<std::size_t>(size_bytes)));
          },
          [](void* base) { return result_of(cudaFreeHost(base)); }};
}

void gpu_halo::exchanger::pack(const halo_messages& messages, const framed_block& block) const {
  gpu_halo_kernels::launch_pack(own_runs(messages, block), stream_.get());
}

void gpu_halo::exchanger::unpack(const halo_messages& messages, const framed_block& block) const {
  gpu_halo_kernels::launch_unpack(ghost_runs(messages, block), stream_.get());
}

gpu_halo::gpu_halo(MPI_Comm comm, const halo_shape& shape, const framed_pair& blocks, gpu_halo_way way,
                   const apps::Stream& stream)
    : gpu_halo(comm, make_exchanger(comm, shape, blocks, way, stream)) {}

gpu_halo::gpu_halo(MPI_Comm comm, std::unique_ptr<exchanger> made) : exchanger_(*made), halo_(comm, std::move(made)) {}

void gpu_halo::exchange(const framed_block& block, halo_place place) {
  exchanger_.set_place(place);
  halo_.exchange(block);
}

void gpu_halo::finish() {
  exchanger_.finish();
}

}  // namespace partita
