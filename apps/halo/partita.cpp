// The halo by Partita's queues and by partitions; its twin in plain MPI is mpi.cpp.
#include <algorithm>
#include <partita/partita.hpp>
#include <thread>

#include "apps/halo/messages.hpp"
#include "apps/halo/turns.hpp"

namespace partita {
namespace {

void free_all(std::vector<request>& requests) {
  for (request& each : requests) each.free();
  requests.clear();
}

/// As cpu-free-stream-triggered-mpi, figure 3.
class Queued final : public framed_halo::exchanger {
 public:
  Queued(MPI_Comm comm, const halo_shape& shape, const framed_pair& blocks, halo_sends sends)
      : queue_(queue::host()), halos_(std::make_unique<turning_halos>(comm, shape, blocks, sends)) {}

  void exchange(const framed_block& block) override {
    halos_->enqueue(queue_, block, {is_first_, false});
    is_first_ = false;
    queue_.wait();
  }
  void free_requests() override {
    halos_->enqueue_end(queue_);
    queue_.wait();
    halos_.reset();
  }
  void leave() noexcept override { halos_->leave(); }

 private:
  queue queue_;
  std::unique_ptr<turning_halos> halos_;
  bool is_first_ = true;
};

class Partitioned final : public framed_halo::exchanger {
 public:
  Partitioned(MPI_Comm comm, const halo_shape& shape) : messages_(shape) {
    const communicator neighbours(comm);
    for (const halo_message& m : messages_) {
      receives_.push_back(
          neighbours.precv_init(m.received, m.partitions, m.cells_each(), MPI_UINT64_T, m.neighbour, m.receive_tag()));
      sends_.push_back(
          neighbours.psend_init(m.sent, m.partitions, m.cells_each(), MPI_UINT64_T, m.neighbour, m.send_tag()));
    }
    request matching[] = {imatchall(receives_), imatchall(sends_)};
    waitall(matching);
  }

  void exchange(const framed_block& block) override {
    startall(receives_);
    startall(sends_);
    pack(block);
    unpack(block);
    waitall(receives_);
    waitall(sends_);
  }

  void free_requests() override {
    free_all(receives_);
    free_all(sends_);
  }
  void free_memory() override { messages_.free_memory(); }

 private:
  /// A partition that has not been unpacked.
  struct Awaited {
    const halo_message* message;
    const request* receive;
    int partition;
  };

  void pack(const framed_block& block) {
    auto send = sends_.begin();
    awaited_.clear();
    auto receive = receives_.begin();
    for (const halo_message& message : messages_) {
      for (int partition = 0; partition < message.partitions; ++partition) {
        pack_partition(block, message, partition);
        send->pready(partition);
        awaited_.push_back({&message, &*receive, partition});
      }
      ++send;
      ++receive;
    }
  }

  void unpack(const framed_block& block) {
    while (!awaited_.empty()) {
      const auto arrived = std::partition(awaited_.begin(), awaited_.end(), [](const Awaited& awaited) {
        return !awaited.receive->parrived(awaited.partition);
      });
      if (arrived == awaited_.end()) std::this_thread::yield();
      for (auto each = arrived; each != awaited_.end(); ++each)
        unpack_partition(block, *each->message, each->partition);
      awaited_.erase(arrived, awaited_.end());
    }
  }

  halo_messages messages_;
  std::vector<request> receives_, sends_;
  std::vector<Awaited> awaited_;
};

}  // namespace

std::unique_ptr<framed_halo::exchanger> make_queue_halo(MPI_Comm comm, const halo_shape& shape,
                                                        const framed_pair& blocks, halo_sends sends) {
  return std::make_unique<Queued>(comm, shape, blocks, sends);
}
std::unique_ptr<framed_halo::exchanger> make_partitioned_halo(MPI_Comm comm, const halo_shape& shape) {
  return std::make_unique<Partitioned>(comm, shape);
}

}  // namespace partita
