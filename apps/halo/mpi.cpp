// The halo in plain MPI; its twins with Partita are in partita.cpp.
#include "apps/halo/messages.hpp"

namespace partita {
namespace {

class Traditional : public halo::exchanger {
 public:
  Traditional(MPI_Comm comm, const halo_shape& shape) : messages_(shape) {
    for (const halo_message& m : messages_) {
      MPI_Recv_init(m.received, m.length, MPI_UINT64_T, m.neighbour, m.receive_tag(), comm, &receives_.emplace_back());
      MPI_Send_init(m.sent, m.length, MPI_UINT64_T, m.neighbour, m.send_tag(), comm, &sends_.emplace_back());
    }
  }
  ~Traditional() override {
    for (auto* requests : {&receives_, &sends_}) {
      for (MPI_Request& request : *requests) MPI_Request_free(&request);
    }
  }
  Traditional(const Traditional&) = delete;
  Traditional& operator=(const Traditional&) = delete;

  void exchange(const halo_block& block) override {
    if (messages_.empty()) return;  // Open MPI 4 refuses to start nothing.
    MPI_Startall(static_cast<int>(receives_.size()), receives_.data());
    messages_.pack(block);
    MPI_Startall(static_cast<int>(sends_.size()), sends_.data());
    MPI_Waitall(static_cast<int>(receives_.size()), receives_.data(), MPI_STATUSES_IGNORE);
    MPI_Waitall(static_cast<int>(sends_.size()), sends_.data(), MPI_STATUSES_IGNORE);
    messages_.unpack(block);
  }

 private:
  halo_messages messages_;
  std::vector<MPI_Request> receives_, sends_;
};

}  // namespace

std::unique_ptr<halo::exchanger> make_traditional_halo(MPI_Comm comm, const halo_shape& shape) {
  return std::make_unique<Traditional>(comm, shape);
}

}  // namespace partita
