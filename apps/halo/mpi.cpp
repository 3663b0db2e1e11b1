// The halo in plain MPI; its twins with Partita are in partita.cpp and turns.cpp.
#include "apps/halo/messages.hpp"
#include "apps/support/own_mpi.hpp"

namespace partita {
namespace {

/// The MPI's own calls: what Partita is compared with has no part of the drop-in in it.
// A program that does not find the MPI's functions ends before main().
const struct {
  decltype(&PMPI_Alloc_mem) alloc_mem = PARTITA_OF_MPI(Alloc_mem);
  decltype(&PMPI_Free_mem) free_mem = PARTITA_OF_MPI(Free_mem);
  decltype(&PMPI_Recv_init) recv_init = PARTITA_OF_MPI(Recv_init);
  decltype(&PMPI_Send_init) send_init = PARTITA_OF_MPI(Send_init);
  decltype(&PMPI_Startall) startall = PARTITA_OF_MPI(Startall);
  decltype(&PMPI_Waitall) waitall = PARTITA_OF_MPI(Waitall);
  decltype(&PMPI_Request_free) request_free = PARTITA_OF_MPI(Request_free);
} own_mpi;  // NOLINT(bugprone-throwing-static-initialization)

class Traditional final : public framed_halo::exchanger {
 public:
  Traditional(MPI_Comm comm, const halo_shape& shape) : messages_(shape, {own_mpi.alloc_mem, own_mpi.free_mem}) {
    for (const halo_message& m : messages_) {
      own_mpi.recv_init(m.received, m.length, MPI_UINT64_T, m.neighbour, m.receive_tag(), comm,
                        &receives_.emplace_back());
      own_mpi.send_init(m.sent, m.length, MPI_UINT64_T, m.neighbour, m.send_tag(), comm, &sends_.emplace_back());
    }
  }
  ~Traditional() override { Traditional::free_requests(); }
  Traditional(const Traditional&) = delete;
  Traditional& operator=(const Traditional&) = delete;

  void exchange(const framed_block& block) override {
    if (messages_.empty()) return;  // Open MPI 4 refuses to start nothing.
    own_mpi.startall(static_cast<int>(receives_.size()), receives_.data());
    messages_.pack(block);
    own_mpi.startall(static_cast<int>(sends_.size()), sends_.data());
    own_mpi.waitall(static_cast<int>(receives_.size()), receives_.data(), MPI_STATUSES_IGNORE);
    own_mpi.waitall(static_cast<int>(sends_.size()), sends_.data(), MPI_STATUSES_IGNORE);
    messages_.unpack(block);
  }

  void free_requests() override {
    for (auto* requests : {&receives_, &sends_}) {
      for (MPI_Request& request : *requests) own_mpi.request_free(&request);
      requests->clear();
    }
  }
  void free_memory() override { messages_.free_memory(); }

 private:
  halo_messages messages_;
  std::vector<MPI_Request> receives_, sends_;
};

}  // namespace

std::unique_ptr<framed_halo::exchanger> make_traditional_halo(MPI_Comm comm, const halo_shape& shape) {
  return std::make_unique<Traditional>(comm, shape);
}

}  // namespace partita
