// The halo in GPU memory by an MPI that does not know such memory; its twins with Partita are in partita.cpp.
#include "apps/halo/gpu/halo.hpp"
#include "apps/support/own_mpi.hpp"

namespace partita {
namespace {

/// The MPI's own calls: what Partita is compared with has no part of the drop-in in it.
// A program that does not find the MPI's functions ends before main().
const struct {
  decltype(&PMPI_Recv_init) recv_init = PARTITA_OF_MPI(Recv_init);
  decltype(&PMPI_Send_init) send_init = PARTITA_OF_MPI(Send_init);
  decltype(&PMPI_Startall) startall = PARTITA_OF_MPI(Startall);
  decltype(&PMPI_Waitall) waitall = PARTITA_OF_MPI(Waitall);
  decltype(&PMPI_Request_free) request_free = PARTITA_OF_MPI(Request_free);
} own_mpi;  // NOLINT(bugprone-throwing-static-initialization)

class Staged final : public gpu_halo::exchanger {
 public:
  Staged(MPI_Comm comm, const halo_shape& shape, const apps::Stream& stream)
      : exchanger(stream), on_gpu_(shape, memory_of_gpu()), on_host_(shape, memory_of_host()) {
    for (const halo_message& m : on_host_) {
      own_mpi.recv_init(m.received, m.length, MPI_UINT64_T, m.neighbour, m.receive_tag(), comm,
                        &receives_.emplace_back());
      own_mpi.send_init(m.sent, m.length, MPI_UINT64_T, m.neighbour, m.send_tag(), comm, &sends_.emplace_back());
    }
  }
  ~Staged() override { Staged::free_requests(); }
  Staged(const Staged&) = delete;
  Staged& operator=(const Staged&) = delete;

  void exchange(const framed_block& block) override {
    if (on_gpu_.empty()) return;  // Open MPI 4 refuses to start nothing.
    copied_.synchronise();        // what was received before
    own_mpi.startall(static_cast<int>(receives_.size()), receives_.data());
    pack(on_gpu_, block);
    copy(on_host_.sent(), on_gpu_.sent(), cudaMemcpyDeviceToHost);
    stream().synchronise();
    own_mpi.startall(static_cast<int>(sends_.size()), sends_.data());
    own_mpi.waitall(static_cast<int>(receives_.size()), receives_.data(), MPI_STATUSES_IGNORE);
    own_mpi.waitall(static_cast<int>(sends_.size()), sends_.data(), MPI_STATUSES_IGNORE);
    copy(on_gpu_.received(), on_host_.received(), cudaMemcpyHostToDevice);
    copied_.record(stream());
    unpack(on_gpu_, block);
  }

  void free_requests() override {
    for (auto* requests : {&receives_, &sends_}) {
      for (MPI_Request& request : *requests) own_mpi.request_free(&request);
      requests->clear();
    }
  }
  void free_memory() override {
    on_gpu_.free_memory();
    on_host_.free_memory();
  }

 private:
  void copy(std::byte* to, const std::byte* from, cudaMemcpyKind kind) const {
    PARTITA_APPS_CUDA(cudaMemcpyAsync(to, from, static_cast<std::size_t>(on_gpu_.bytes()), kind, stream().get()));
  }

  halo_messages on_gpu_, on_host_;
  std::vector<MPI_Request> receives_, sends_;
  apps::StreamEvent copied_;
};

}  // namespace

std::unique_ptr<gpu_halo::exchanger> make_staged_gpu_halo(MPI_Comm comm, const halo_shape& shape,
                                                          const apps::Stream& stream) {
  return std::make_unique<Staged>(comm, shape, stream);
}

}  // namespace partita
