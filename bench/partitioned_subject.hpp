// Partitioned sends through any set of calls: Partita's C API, the standard names, another library's.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "bench/failure.hpp"
#include "bench/owned.hpp"
#include "bench/subject.hpp"

namespace partita::bench {

/// A set of partitioned calls; each member has the signature of the MPI call of its name for its own Request type.
template <class C>
concept PartitionedCalls =
    requires(const C& calls, typename C::Request& request, void* buffer, MPI_Comm comm, MPI_Info info, int& flag) {
      { calls.psend_init(buffer, 1, MPI_Count{1}, MPI_BYTE, 0, 0, comm, info, &request) } -> std::same_as<int>;
      { calls.precv_init(buffer, 1, MPI_Count{1}, MPI_BYTE, 0, 0, comm, info, &request) } -> std::same_as<int>;
      { calls.start(&request) } -> std::same_as<int>;
      { calls.pready(0, request) } -> std::same_as<int>;
      { calls.parrived(request, 0, &flag) } -> std::same_as<int>;
      { calls.wait(&request, MPI_STATUS_IGNORE) } -> std::same_as<int>;
      { calls.request_free(&request) } -> std::same_as<int>;
      { calls.link_used(request) } -> std::same_as<LinkUsed>;
    };

/// A request made by one of the two init calls; inactive when it goes.
template <PartitionedCalls Calls>
class PartitionedRequest {
 public:
  template <class Init>
  PartitionedRequest(const Calls& calls, Init init, const char* name, const Message& message, MPI_Comm comm,
                     MPI_Info info)
      : calls_(calls) {
    const auto count = static_cast<MPI_Count>(message.bytes.size()) / message.partitions;
    check(init(message.bytes.data(), message.partitions, count, MPI_BYTE, message.peer, message.tag, comm, info,
               &request_),
          name);
  }
  ~PartitionedRequest() { calls_.request_free(&request_); }
  PartitionedRequest(const PartitionedRequest&) = delete;
  PartitionedRequest& operator=(const PartitionedRequest&) = delete;

  void start() { check(calls_.start(&request_), "Start"); }
  void pready(int partition) { check(calls_.pready(partition, request_), "Pready"); }
  bool arrived(int partition) {
    int flag = 0;
    check(calls_.parrived(request_, partition, &flag), "Parrived");
    return flag != 0;
  }
  void wait() { check(calls_.wait(&request_, MPI_STATUS_IGNORE), "Wait"); }
  LinkUsed link_used() const { return calls_.link_used(request_); }

 private:
  Calls calls_;
  typename Calls::Request request_{};
};

template <PartitionedCalls Calls>
class PartitionedSending final : public Sending {
 public:
  PartitionedSending(const Calls& calls, const Message& message, MPI_Comm comm, MPI_Info info)
      : request_(calls, calls.psend_init, "Psend_init", message, comm, info) {}

  void start() override { request_.start(); }
  void mark(int first, int last) override {
    for (int partition = first; partition < last; ++partition) request_.pready(partition);
  }
  void release() override {}
  void wait() override { request_.wait(); }
  LinkUsed link_used() const override { return request_.link_used(); }

 private:
  PartitionedRequest<Calls> request_;
};

template <PartitionedCalls Calls>
class PartitionedReceiving final : public Receiving {
 public:
  PartitionedReceiving(const Calls& calls, const Message& message, MPI_Comm comm, MPI_Info info)
      : request_(calls, calls.precv_init, "Precv_init", message, comm, info) {}

  void start() override { request_.start(); }
  bool arrived(int partition) override { return request_.arrived(partition); }
  void wait() override { request_.wait(); }
  LinkUsed link_used() const override { return request_.link_used(); }

 private:
  PartitionedRequest<Calls> request_;
};

/// What a partitioned subject is made of beside its calls.
struct PartitionedSetup {
  std::string name;
  OwnedComm own_comm{MPI_COMM_NULL};  ///< null: MPI_COMM_WORLD, the only one that every face of Partita knows
  std::function<Buffer(std::size_t)> allocate;
  OwnedInfo info{MPI_INFO_NULL};
  std::unique_ptr<Subject> link_teller;  ///< see Subject::link_teller
};

template <PartitionedCalls Calls>
class PartitionedSubject final : public Subject {
 public:
  PartitionedSubject(const Calls& calls, PartitionedSetup setup) : calls_(calls), setup_(std::move(setup)) {}

  std::string name() const override { return setup_.name; }
  Buffer allocate(std::size_t size_bytes) override { return setup_.allocate(size_bytes); }
  std::unique_ptr<Sending> sending(const Message& message) override {
    return std::make_unique<PartitionedSending<Calls>>(calls_, message, comm(), setup_.info.get());
  }
  std::unique_ptr<Receiving> receiving(const Message& message) override {
    return std::make_unique<PartitionedReceiving<Calls>>(calls_, message, comm(), setup_.info.get());
  }
  Subject* link_teller() override { return setup_.link_teller.get(); }

 private:
  MPI_Comm comm() const { return setup_.own_comm.get() != MPI_COMM_NULL ? setup_.own_comm.get() : MPI_COMM_WORLD; }

  Calls calls_;
  PartitionedSetup setup_;
};

}  // namespace partita::bench
