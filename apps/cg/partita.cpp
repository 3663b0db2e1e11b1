// The exchange in a queue; its twin in plain MPI is mpi.cpp.
//
// All requests are matched once. From then on an iteration is a row of starts and waits in the queue, of the host or of
// a CUDA stream, and between two kernels of that no host takes part.
#include <array>
#include <exception>
#include <partita/partita.hpp>
#include <utility>
#include <vector>

#include "apps/cg/exchange.hpp"

namespace cg {
namespace {

class Queued final : public Exchange {
 public:
  Queued(MPI_Comm comm, const Vectors& v, const Neighbours& neighbours, partita::queue queue, Sums sums)
      : comm_(comm), queue_(std::move(queue)) {
    make_messages(v, neighbours);
    make_sums(v, sums);
    partita::matchall(messages_);
    partita::matchall(sums_);
  }
  /// What a neighbour has started may still write here. After an error neighbours may be anywhere.
  ~Queued() override {
    if (std::uncaught_exceptions() == 0) MPI_Barrier(comm_);
  }
  Queued(const Queued&) = delete;
  Queued& operator=(const Queued&) = delete;

  void halo() override {
    queue_.enqueue_startall(messages_);
    queue_.enqueue_waitall(messages_);
  }
  void sum(Product product) override {
    partita::request& request = sums_[static_cast<std::size_t>(product)];
    queue_.enqueue_start(request);
    queue_.enqueue_wait(request);
  }
  /// What went wrong in a graph the queue does not see: its requests tell.
  void finish() override {
    queue_.wait();
    for (partita::request& each : messages_) static_cast<void>(each.test());
    for (partita::request& each : sums_) static_cast<void>(each.test());
  }

 private:
  void make_messages(const Vectors& v, const Neighbours& neighbours) {
    const partita::communicator comm(comm_);
    const auto exchange = [&](const double* sent, double* received, int with, int sent_tag, int received_tag) {
      if (with == MPI_PROC_NULL) return;
      messages_.push_back(comm.recv_init(received, v.columns, MPI_DOUBLE, with, received_tag));
      messages_.push_back(comm.send_init(sent, v.columns, MPI_DOUBLE, with, sent_tag));
    };
    exchange(v.first_row(), v.row_before(), neighbours.before, upward_tag, downward_tag);
    exchange(v.last_row(), v.row_behind(), neighbours.behind, downward_tag, upward_tag);
  }
  void make_sums(const Vectors& v, Sums sums) {
    const partita::communicator comm(comm_);
    MPI_Info info = MPI_INFO_NULL;
    MPI_Info_create(&info);
    MPI_Info_set(info, "partita_driver", sums == Sums::kernels ? "device" : "host");
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      sums_[i] = comm.allreduce_init(&v.numbers->own[i], &v.numbers->all[i], 1, MPI_DOUBLE, MPI_SUM, info);
    }
    MPI_Info_free(&info);
  }

  MPI_Comm comm_;
  std::vector<partita::request> messages_;
  std::array<partita::request, 2> sums_;  ///< by Product
  partita::queue queue_;                  ///< goes first
};

}  // namespace

std::unique_ptr<Exchange> exchange_in_queue(MPI_Comm comm, const Vectors& vectors, const Neighbours& neighbours,
                                            partita::queue queue, Sums sums) {
  return std::make_unique<Queued>(comm, vectors, neighbours, std::move(queue), sums);
}

}  // namespace cg
