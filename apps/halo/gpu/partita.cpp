// The halo in GPU memory by Partita's requests; its twin in plain MPI is mpi.cpp.
#include <fmt/format.h>

#include <array>
#include <initializer_list>
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

/// The requests of a set of messages.
struct Set {
  enum class Kind { partitioned, regular, ready };

  Set(MPI_Comm comm, const halo_shape& shape, Kind kind, int number = 0)
      : messages(std::make_unique<halo_messages>(shape, memory_of_gpu())) {
    const communicator neighbours(comm);
    const int first_tag = number * static_cast<int>(halo_directions<2>);
    for (const halo_message& m : *messages) {
      const int from = first_tag + m.receive_tag(), to = first_tag + m.send_tag();
      if (kind == Kind::partitioned) {
        receives.push_back(neighbours.precv_init(m.received, 1, m.length, MPI_UINT64_T, m.neighbour, from));
        sends.push_back(neighbours.psend_init(m.sent, 1, m.length, MPI_UINT64_T, m.neighbour, to));
        continue;
      }
      receives.push_back(neighbours.recv_init(m.received, m.length, MPI_UINT64_T, m.neighbour, from));
      sends.push_back(kind == Kind::ready ? neighbours.rsend_init(m.sent, m.length, MPI_UINT64_T, m.neighbour, to)
                                          : neighbours.send_init(m.sent, m.length, MPI_UINT64_T, m.neighbour, to));
    }
  }

  std::unique_ptr<halo_messages> messages;
  std::vector<request> receives, sends;
};

/// Together: a rank that waited for its receives alone would not get to its sends.
void match(std::initializer_list<Set*> sets) {
  std::vector<request> matching;
  for (Set* const set : sets) {
    matching.push_back(imatchall(set->receives));
    matching.push_back(imatchall(set->sends));
  }
  waitall(matching);
}

void free_requests_of(Set& set) {
  free_all(set.receives);
  free_all(set.sends);
}

/// The host waits for the packing kernel, marks, waits, and launches the unpacking one.
class Traditional final : public gpu_halo::exchanger {
 public:
  Traditional(MPI_Comm comm, const halo_shape& shape, const apps::Stream& stream)
      : exchanger(stream), set_(comm, shape, Set::Kind::partitioned) {
    match({&set_});
  }

  void exchange(const framed_block& block) override {
    unpacked_.synchronise();  // what was received before
    startall(set_.receives);
    pack(*set_.messages, block);
    stream().synchronise();
    startall(set_.sends);
    for (const request& send : set_.sends) send.pready(0);
    waitall(set_.receives);
    waitall(set_.sends);
    unpack(*set_.messages, block);
    unpacked_.record(stream());
  }
  void free_requests() override { free_requests_of(set_); }
  void free_memory() override { set_.messages->free_memory(); }

 private:
  Set set_;
  apps::StreamEvent unpacked_;
};

class InQueue : public gpu_halo::exchanger {
 public:
  explicit InQueue(const apps::Stream& stream) : exchanger(stream), queue_(queue::cuda(stream.get())) {}

  /// What went wrong in a graph the queue does not see: its requests tell.
  void finish() final {
    queue_.wait();
    stream().synchronise();
    for (Set* const set : sets()) {
      for (auto* const requests : {&set->receives, &set->sends}) {
        for (request& each : *requests) static_cast<void>(each.test());
      }
    }
  }

 protected:
  virtual std::vector<Set*> sets() = 0;
  /// When the receives of `set` have started; `next`, if there is one, starts its receives before what is sent here.
  void exchange_in(Set& set, Set* next, const framed_block& block) {
    if (next != nullptr) queue_.enqueue_startall(next->receives);
    pack(*set.messages, block);
    queue_.enqueue_startall(set.sends);
    queue_.enqueue_waitall(set.receives);
    queue_.enqueue_waitall(set.sends);
    unpack(*set.messages, block);
  }
  void start_receives(Set& set) { queue_.enqueue_startall(set.receives); }

 private:
  queue queue_;
};

/// As cpu-free-stream-triggered-mpi, figure 3.
class Queued final : public InQueue {
 public:
  Queued(MPI_Comm comm, const halo_shape& shape, const apps::Stream& stream)
      : InQueue(stream), set_(comm, shape, Set::Kind::regular) {
    match({&set_});
  }

  void exchange(const framed_block& block) override {
    start_receives(set_);
    exchange_in(set_, nullptr, block);
  }
  void free_requests() override { free_requests_of(set_); }
  void free_memory() override { set_.messages->free_memory(); }

 private:
  std::vector<Set*> sets() override { return {&set_}; }

  Set set_;
};

/// A ready send may start only once its receive has. So receives are started one exchange ahead, in another set of
/// messages, and before the rank's own sends: whoever has received this exchange's message knows that the sender has
/// started its receive of the next one. The first exchange of a series has regular messages.
class QueuedReady final : public InQueue {
 public:
  QueuedReady(MPI_Comm comm, const halo_shape& shape, const apps::Stream& stream)
      : InQueue(stream),
        first_(comm, shape, Set::Kind::regular, 0),
        others_{Set(comm, shape, Set::Kind::ready, 1), Set(comm, shape, Set::Kind::ready, 2)} {
    match({&first_, others_.data(), &others_[1]});
  }

  void exchange(const framed_block& block) override {
    if (place().first) {
      start_receives(first_);
      next_ = 0;
      exchange_in(first_, place().last ? nullptr : others_.data(), block);
      return;
    }
    Set& set = others_[next_];
    next_ = 1 - next_;
    exchange_in(set, place().last ? nullptr : &others_[next_], block);
  }
  void free_requests() override {
    free_requests_of(first_);
    for (Set& set : others_) free_requests_of(set);
  }
  void free_memory() override {
    first_.messages->free_memory();
    for (Set& set : others_) set.messages->free_memory();
  }

 private:
  std::vector<Set*> sets() override { return {&first_, others_.data(), &others_[1]}; }

  Set first_;
  std::array<Set, 2> others_;
  std::size_t next_ = 0;
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
                                                         const apps::Stream& stream) {
  return std::make_unique<Queued>(comm, shape, stream);
}
std::unique_ptr<gpu_halo::exchanger> make_ready_queue_gpu_halo(MPI_Comm comm, const halo_shape& shape,
                                                               const apps::Stream& stream) {
  return std::make_unique<QueuedReady>(comm, shape, stream);
}
std::unique_ptr<gpu_halo::exchanger> make_in_kernel_gpu_halo(MPI_Comm comm, const halo_shape& shape,
                                                             const apps::Stream& stream) {
  return std::make_unique<InKernel>(comm, shape, stream);
}

}  // namespace partita
