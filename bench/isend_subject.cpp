#include "bench/isend_subject.hpp"

#include <vector>

#include "apps/support/own_mpi.hpp"
#include "bench/failure.hpp"
#include "bench/own_buffer.hpp"
#include "bench/owned.hpp"

namespace partita::bench {

namespace {

/// Without the drop-in's part in them.
// A program that does not find the MPI's functions ends before main().
const struct {
  decltype(&PMPI_Isend) isend = PARTITA_OF_MPI(Isend);
  decltype(&PMPI_Irecv) irecv = PARTITA_OF_MPI(Irecv);
  decltype(&PMPI_Test) test = PARTITA_OF_MPI(Test);
  decltype(&PMPI_Waitall) waitall = PARTITA_OF_MPI(Waitall);
} nonblocking_calls;  // NOLINT(bugprone-throwing-static-initialization)

/// The partitions of a message as messages. They have a tag each, as those of several threads have no order.
class Messages {
 public:
  Messages(const Message& message, MPI_Comm comm)
      : message_(message),
        comm_(comm),
        part_bytes_(static_cast<int>(message.bytes.size()) / message.partitions),
        requests_(static_cast<std::size_t>(message.partitions), MPI_REQUEST_NULL) {
    void* largest = nullptr;
    int known = 0;
    check(PMPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void*>(&largest), &known), "MPI_Comm_get_attr");
    const std::int64_t last = (std::int64_t{message.tag} + 1) * message.partitions - 1;
    if (known != 0 && last > *static_cast<const int*>(largest)) {
      throw Failure("{}: {} messages of {} partitions need tags to {}, but this MPI has them to {} only.", isend_name,
                    message.tag + 1, message.partitions, last, *static_cast<const int*>(largest));
    }
  }

  void send(int partition) {
    check(nonblocking_calls.isend(data(partition), part_bytes_, MPI_BYTE, message_.peer, tag(partition), comm_,
                                  &request(partition)),
          "MPI_Isend");
  }
  void receive(int partition) {
    check(nonblocking_calls.irecv(data(partition), part_bytes_, MPI_BYTE, message_.peer, tag(partition), comm_,
                                  &request(partition)),
          "MPI_Irecv");
  }
  /// A request that has completed is null, and stays so until the next epoch.
  bool is_complete(int partition) {
    int complete = 0;
    check(nonblocking_calls.test(&request(partition), &complete, MPI_STATUS_IGNORE), "MPI_Test");
    return complete != 0;
  }
  void wait() {
    check(nonblocking_calls.waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE),
          "MPI_Waitall");
  }

 private:
  std::byte* data(int partition) const {
    return message_.bytes.data() + static_cast<std::ptrdiff_t>(partition) * part_bytes_;
  }
  int tag(int partition) const { return message_.tag * message_.partitions + partition; }
  MPI_Request& request(int partition) { return requests_[static_cast<std::size_t>(partition)]; }

  Message message_;
  MPI_Comm comm_;
  int part_bytes_;
  std::vector<MPI_Request> requests_;
};

class IsendSending final : public Sending {
 public:
  IsendSending(const Message& message, MPI_Comm comm) : messages_(message, comm) {}

  void start() override {}
  void mark(int first, int last) override {
    for (int partition = first; partition < last; ++partition) messages_.send(partition);
  }
  void release() override {}
  void wait() override { messages_.wait(); }

 private:
  Messages messages_;
};

class IsendReceiving final : public Receiving {
 public:
  IsendReceiving(const Message& message, MPI_Comm comm) : messages_(message, comm), partitions_(message.partitions) {}

  void start() override {
    for (int partition = 0; partition < partitions_; ++partition) messages_.receive(partition);
  }
  bool arrived(int partition) override { return messages_.is_complete(partition); }
  void wait() override { messages_.wait(); }

 private:
  Messages messages_;
  int partitions_;
};

class IsendSubject final : public Subject {
 public:
  IsendSubject(MPI_Comm comm, Memory memory) : comm_(duplicate(comm)), memory_(memory) {}

  std::string name() const override { return isend_name; }
  Buffer allocate(std::size_t size_bytes) override { return own_mpi_buffer(memory_, size_bytes); }
  std::unique_ptr<Sending> sending(const Message& message) override {
    return std::make_unique<IsendSending>(message, comm_.get());
  }
  std::unique_ptr<Receiving> receiving(const Message& message) override {
    return std::make_unique<IsendReceiving>(message, comm_.get());
  }

 private:
  OwnedComm comm_;
  Memory memory_;
};

}  // namespace

std::unique_ptr<Subject> make_isend(MPI_Comm comm, Memory memory) {
  return std::make_unique<IsendSubject>(comm, memory);
}

}  // namespace partita::bench
