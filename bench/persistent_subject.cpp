#include "bench/persistent_subject.hpp"

#include "apps/support/own_mpi.hpp"
#include "bench/failure.hpp"
#include "bench/own_buffer.hpp"
#include "bench/owned.hpp"

namespace partita::bench {

namespace {

/// Without the drop-in's part in them.
// A program that does not find the MPI's functions ends before main().
const struct {
  decltype(&PMPI_Start) start = PARTITA_OF_MPI(Start);
  decltype(&PMPI_Test) test = PARTITA_OF_MPI(Test);
  decltype(&PMPI_Wait) wait = PARTITA_OF_MPI(Wait);
} persistent_calls;  // NOLINT(bugprone-throwing-static-initialization)

int byte_count(const Message& message) {
  return static_cast<int>(message.bytes.size());
}

/// Marking costs nothing and sends nothing: the whole message leaves in release().
class PersistentSending final : public Sending {
 public:
  PersistentSending(const Message& message, MPI_Comm comm) {
    check(
        PMPI_Send_init(message.bytes.data(), byte_count(message), MPI_BYTE, message.peer, message.tag, comm, &request_),
        "MPI_Send_init");
  }
  ~PersistentSending() override { PMPI_Request_free(&request_); }

  void start() override {}
  void mark(int, int) override {}
  void release() override { check(persistent_calls.start(&request_), "MPI_Start"); }
  void wait() override { check(persistent_calls.wait(&request_, MPI_STATUS_IGNORE), "MPI_Wait"); }
  bool sends_at_release() const override { return true; }

 private:
  MPI_Request request_ = MPI_REQUEST_NULL;
};

/// Every partition arrives when the whole message does.
class PersistentReceiving final : public Receiving {
 public:
  PersistentReceiving(const Message& message, MPI_Comm comm) {
    check(
        PMPI_Recv_init(message.bytes.data(), byte_count(message), MPI_BYTE, message.peer, message.tag, comm, &request_),
        "MPI_Recv_init");
  }
  ~PersistentReceiving() override { PMPI_Request_free(&request_); }

  void start() override {
    complete_ = 0;
    check(persistent_calls.start(&request_), "MPI_Start");
  }
  bool arrived(int) override {
    if (complete_ == 0) check(persistent_calls.test(&request_, &complete_, MPI_STATUS_IGNORE), "MPI_Test");
    return complete_ != 0;
  }
  void wait() override { check(persistent_calls.wait(&request_, MPI_STATUS_IGNORE), "MPI_Wait"); }

 private:
  MPI_Request request_ = MPI_REQUEST_NULL;
  int complete_ = 0;
};

class PersistentSubject final : public Subject {
 public:
  PersistentSubject(MPI_Comm comm, Memory memory) : comm_(duplicate(comm)), memory_(memory) {}

  std::string name() const override { return persistent_name; }
  Buffer allocate(std::size_t size_bytes) override { return own_mpi_buffer(memory_, size_bytes); }
  std::unique_ptr<Sending> sending(const Message& message) override {
    return std::make_unique<PersistentSending>(message, comm_.get());
  }
  std::unique_ptr<Receiving> receiving(const Message& message) override {
    return std::make_unique<PersistentReceiving>(message, comm_.get());
  }

 private:
  OwnedComm comm_;
  Memory memory_;
};

}  // namespace

std::unique_ptr<Subject> make_persistent(MPI_Comm comm, Memory memory) {
  return std::make_unique<PersistentSubject>(comm, memory);
}

}  // namespace partita::bench
