// The exchange in plain MPI; its twin in queues is partita.cpp.
#include "apps/cg/mpi.hpp"

#include "apps/support/own_mpi.hpp"

namespace cg {
namespace {

// A program that does not find the MPI's functions ends before main().
const struct {
  decltype(&PMPI_Recv_init) recv_init = PARTITA_OF_MPI(Recv_init);
  decltype(&PMPI_Send_init) send_init = PARTITA_OF_MPI(Send_init);
  decltype(&PMPI_Startall) startall = PARTITA_OF_MPI(Startall);
  decltype(&PMPI_Waitall) waitall = PARTITA_OF_MPI(Waitall);
  decltype(&PMPI_Request_free) request_free = PARTITA_OF_MPI(Request_free);
  decltype(&PMPI_Allreduce) allreduce = PARTITA_OF_MPI(Allreduce);
} own_mpi;  // NOLINT(bugprone-throwing-static-initialization)

class Traditional final : public Exchange {
 public:
  Traditional(MPI_Comm comm, const Vectors& v, const Neighbours& neighbours)
      : numbers_(*v.numbers),
        mpi_(comm, {v.columns, v.first_row(), v.last_row(), v.row_before(), v.row_behind()}, neighbours) {}

  void halo() override { mpi_.exchange_rows(); }
  void sum(Product product) override {
    const auto which = static_cast<std::size_t>(product);
    mpi_.sum(&numbers_.own[which], &numbers_.all[which]);
  }
  void finish() override {}

 private:
  Numbers& numbers_;
  OwnMpi mpi_;
};

}  // namespace

OwnMpi::OwnMpi(MPI_Comm comm, const HaloRows& rows, const Neighbours& neighbours) : comm_(comm) {
  const int count = rows.columns;
  own_mpi.recv_init(rows.before, count, MPI_DOUBLE, neighbours.before, downward_tag, comm, &requests_[0]);
  own_mpi.recv_init(rows.behind, count, MPI_DOUBLE, neighbours.behind, upward_tag, comm, &requests_[1]);
  own_mpi.send_init(rows.first, count, MPI_DOUBLE, neighbours.before, upward_tag, comm, &requests_[2]);
  own_mpi.send_init(rows.last, count, MPI_DOUBLE, neighbours.behind, downward_tag, comm, &requests_[3]);
}

OwnMpi::~OwnMpi() {
  for (MPI_Request& request : requests_) own_mpi.request_free(&request);
}

void OwnMpi::exchange_rows() {
  own_mpi.startall(static_cast<int>(requests_.size()), requests_.data());
  own_mpi.waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
}

void OwnMpi::sum(const double* own, double* all) {
  own_mpi.allreduce(own, all, 1, MPI_DOUBLE, MPI_SUM, comm_);
}

std::unique_ptr<Exchange> exchange_by_mpi(MPI_Comm comm, const Vectors& vectors, const Neighbours& neighbours) {
  return std::make_unique<Traditional>(comm, vectors, neighbours);
}

}  // namespace cg
