// The halo by Partita's queues and by partitions; its twin in plain MPI is mpi.cpp.
#include <algorithm>
#include <partita/partita.hpp>
#include <thread>

#include "apps/halo/messages.hpp"

namespace partita {
namespace {

void free_all(std::vector<request>& requests) {
  for (request& each : requests) each.free();
  requests.clear();
}

/// As cpu-free-stream-triggered-mpi, figure 3.
class Queued final : public packed_halo::exchanger {
 public:
  Queued(MPI_Comm comm, const halo_shape& shape) : messages_(shape), queue_(queue::host()) {
    const communicator neighbours(comm);
    for (const halo_message& m : messages_) {
      receives_.push_back(neighbours.recv_init(m.received, m.length, MPI_UINT64_T, m.neighbour, m.receive_tag()));
      sends_.push_back(neighbours.send_init(m.sent, m.length, MPI_UINT64_T, m.neighbour, m.send_tag()));
    }
    // Together: a rank that waited for its receives alone would not get to its sends.
    request matching[] = {imatchall(receives_), imatchall(sends_)};
    waitall(matching);
  }

  void exchange(const framed_block& block) override {
    queue_.enqueue_startall(receives_);
    messages_.pack(block);
    queue_.enqueue_startall(sends_);
    queue_.enqueue_waitall(receives_);
    queue_.enqueue_waitall(sends_);
    queue_.wait();
    messages_.unpack(block);
  }

  void free_requests() override {
    free_all(receives_);
    free_all(sends_);
  }
  void free_memory() override { messages_.free_memory(); }

 private:
  halo_messages messages_;
  queue queue_;
  std::vector<request> receives_, sends_;
};

/// A ready send may start only once its receive has. So receives are started one exchange ahead, in a second set of
/// messages, and before the rank's own sends: whoever has received this exchange's message knows that the sender has
/// started its receive of the next one.
class QueuedReady final : public packed_halo::exchanger {
 public:
  QueuedReady(MPI_Comm comm, const halo_shape& shape)
      : queue_(queue::host()), sets_{Set(comm, shape, 0), Set(comm, shape, 1)} {
    request matching[] = {imatchall(sets_[0].receives), imatchall(sets_[0].sends), imatchall(sets_[1].receives),
                          imatchall(sets_[1].sends)};
    waitall(matching);
    queue_.enqueue_startall(sets_[0].receives);
    MPI_Barrier(comm);
  }

  void exchange(const framed_block& block) override {
    Set& set = sets_[current_];
    queue_.enqueue_startall(sets_[1 - current_].receives);
    set.messages->pack(block);
    send_and_wait(set);
    set.messages->unpack(block);
    current_ = 1 - current_;
  }

  /// The receives that were started ahead get messages that nobody reads.
  void free_requests() override {
    send_and_wait(sets_[current_]);
    for (Set& set : sets_) {
      free_all(set.receives);
      free_all(set.sends);
    }
  }
  void free_memory() override {
    for (Set& set : sets_) set.messages->free_memory();
  }

 private:
  struct Set {
    Set(MPI_Comm comm, const halo_shape& shape, int number) : messages(std::make_unique<halo_messages>(shape)) {
      const communicator neighbours(comm);
      const int first_tag = number * static_cast<int>(halo_directions<2>);
      for (const halo_message& m : *messages) {
        receives.push_back(
            neighbours.recv_init(m.received, m.length, MPI_UINT64_T, m.neighbour, first_tag + m.receive_tag()));
        sends.push_back(neighbours.rsend_init(m.sent, m.length, MPI_UINT64_T, m.neighbour, first_tag + m.send_tag()));
      }
    }

    std::unique_ptr<halo_messages> messages;
    std::vector<request> receives, sends;
  };

  void send_and_wait(Set& set) {
    queue_.enqueue_startall(set.sends);
    queue_.enqueue_waitall(set.receives);
    queue_.enqueue_waitall(set.sends);
    queue_.wait();
  }

  queue queue_;
  std::array<Set, 2> sets_;
  std::size_t current_ = 0;
};

class Partitioned final : public packed_halo::exchanger {
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

std::unique_ptr<packed_halo::exchanger> make_queue_halo(MPI_Comm comm, const halo_shape& shape) {
  return std::make_unique<Queued>(comm, shape);
}
std::unique_ptr<packed_halo::exchanger> make_ready_queue_halo(MPI_Comm comm, const halo_shape& shape) {
  return std::make_unique<QueuedReady>(comm, shape);
}
std::unique_ptr<packed_halo::exchanger> make_partitioned_halo(MPI_Comm comm, const halo_shape& shape) {
  return std::make_unique<Partitioned>(comm, shape);
}

}  // namespace partita
