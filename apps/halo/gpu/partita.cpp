// The halo in GPU memory by Partita's requests; its twin in plain MPI is mpi.cpp.
#include <fmt/format.h>

#include <partita/partita.hpp>
#include <stdexcept>

#include "apps/halo/gpu/halo.hpp"
#include "apps/halo/gpu/runs.hpp"
#include "apps/support/time_limit.hpp"

namespace partita {
namespace {

void free_all(std::vector<request>& requests) {
  for (request& each : requests) each.free();
  requests.clear();
}

/// The host waits for the packing kernel, marks, waits, and launches the unpacking one.
class Traditional final : public gpu_halo::exchanger {
 public:
  Traditional(MPI_Comm comm, const halo_shape& shape, const apps::Stream& stream)
      : exchanger(stream), messages_(shape, memory_of_gpu()) {
    const communicator neighbours(comm);
    for (const halo_message& m : messages_) {
      receives_.push_back(neighbours.precv_init(m.received, 1, m.length, MPI_UINT64_T, m.neighbour, m.receive_tag()));
      sends_.push_back(neighbours.psend_init(m.sent, 1, m.length, MPI_UINT64_T, m.neighbour, m.send_tag()));
    }
    // Together: a rank that waited for its receives alone would not get to its sends.
    request matching[] = {imatchall(receives_), imatchall(sends_)};
    waitall(matching);
  }

  void exchange(const framed_block& block) override {
    unpacked_.synchronise();  // what was received before
    startall(receives_);
    pack(messages_, block);
    stream().synchronise();
    startall(sends_);
    for (const request& send : sends_) send.pready(0);
    waitall(receives_);
    waitall(sends_);
    unpack(messages_, block);
    unpacked_.record(stream());
  }
  void free_requests() override {
    free_all(receives_);
    free_all(sends_);
  }
  void free_memory() override { messages_.free_memory(); }

 private:
  halo_messages messages_;
  std::vector<request> receives_, sends_;
  apps::StreamEvent unpacked_;
};

/// As cpu-free-stream-triggered-mpi, figure 3. Only the library packs, and only what has gaps.
class InQueue final : public gpu_halo::exchanger {
 public:
  InQueue(MPI_Comm comm, const halo_shape& shape, const framed_pair& blocks, halo_sends sends,
          const apps::Stream& stream)
      : exchanger(stream),
        queue_(queue::cuda(stream.get())),
        halos_(std::make_unique<turning_halos>(comm, shape, blocks, sends)) {}

  void exchange(const framed_block& block) override { halos_->enqueue(queue_, block, place()); }
  void finish() override {
    queue_.wait();
    stream().synchronise();
    halos_->check_graphs();
  }
  void free_requests() override { halos_.reset(); }
  void leave() noexcept override { halos_->leave(); }

 private:
  queue queue_;
  std::unique_ptr<turning_halos> halos_;
};

/// Device-driven requests of one partition.
class InKernel final : public gpu_halo::exchanger {
 public:
  InKernel(MPI_Comm comm, const halo_shape& shape, const apps::Stream& stream)
      : exchanger(stream), messages_(shape, memory_of_gpu()) {
    MPI_Info info = MPI_INFO_NULL;
    MPI_Info_create(&info);
    MPI_Info_set(info, "partita_driver", "device");
    for (const halo_message& m : messages_) {
      check(Partita_Precv_init(m.received, 1, m.length, MPI_UINT64_T, m.neighbour, m.receive_tag(), comm, info,
                               &requests_.emplace_back().receive));
      check(Partita_Psend_init(m.sent, 1, m.length, MPI_UINT64_T, m.neighbour, m.send_tag(), comm, info,
                               &requests_.back().send));
    }
    MPI_Info_free(&info);
    gpu_halo_kernels::Link* link = links_.links;
    for (const Pair& pair : requests_) {
      check(Partita_Prequest_create(&link->receive, pair.receive));
      check(Partita_Prequest_create(&link->send, pair.send));
      for (MPIX_Prequest* const made : {&link->receive, &link->send}) {
        if (made->limit_ns == 0) made->limit_ns = apps::wait_limit_ns();
      }
      ++link;
    }
  }

  void exchange(const framed_block& block) override {
    gpu_halo_kernels::launch_exchange(links_, own_runs(messages_, block), ghost_runs(messages_, block), failure_.data(),
                                      stream().get());
  }
  void finish() override {
    stream().synchronise();
    int code = 0;
    PARTITA_APPS_CUDA(cudaMemcpy(&code, failure_.data(), sizeof code, cudaMemcpyDeviceToHost));
    if (code == 0) return;
    throw std::runtime_error(
        fmt::format("halo: a call in a kernel returned {} (PARTITA_DEVICE_ERR_*, partita/device/prequest.h).", code));
  }

  void free_requests() override {
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      check(Partita_Prequest_free(&links_.links[i].receive));
      check(Partita_Prequest_free(&links_.links[i].send));
      check(Partita_Request_free(&requests_[i].receive));
      check(Partita_Request_free(&requests_[i].send));
    }
    requests_.clear();
  }
  void free_memory() override { messages_.free_memory(); }

 private:
  struct Pair {
    Partita_Request send = PARTITA_REQUEST_NULL, receive = PARTITA_REQUEST_NULL;
  };

  halo_messages messages_;
  std::vector<Pair> requests_;
  gpu_halo_kernels::Links links_{};
  apps::DeviceMemory<int> failure_{1};
};

}  // namespace

std::unique_ptr<gpu_halo::exchanger> make_traditional_gpu_halo(MPI_Comm comm, const halo_shape& shape,
                                                               const apps::Stream& stream) {
  return std::make_unique<Traditional>(comm, shape, stream);
}
std::unique_ptr<gpu_halo::exchanger> make_queue_gpu_halo(MPI_Comm comm, const halo_shape& shape,
                                                         const framed_pair& blocks, halo_sends sends,
                                                         const apps::Stream& stream) {
  return std::make_unique<InQueue>(comm, shape, blocks, sends, stream);
}
std::unique_ptr<gpu_halo::exchanger> make_in_kernel_gpu_halo(MPI_Comm comm, const halo_shape& shape,
                                                             const apps::Stream& stream) {
  return std::make_unique<InKernel>(comm, shape, stream);
}

}  // namespace partita
