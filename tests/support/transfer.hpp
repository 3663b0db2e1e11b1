// Plain transfers of bytes for tests whose subject is not the data: buffer and request together.
#pragma once

#include <gtest/gtest.h>
#include <mpi.h>
#include <sched.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "support/face.hpp"
#include "support/job.hpp"
#include "support/memory.hpp"
#include "support/pattern.hpp"

namespace partita::test {

/// One info key and its value; the caller frees the object. MPI_INFO_NULL for an empty value.
inline MPI_Info info_with(const char* key, const std::string& value) {
  if (value.empty()) return MPI_INFO_NULL;
  MPI_Info info = MPI_INFO_NULL;
  MPI_Info_create(&info);
  MPI_Info_set(info, key, value.c_str());
  return info;
}

/// A partitioned request for bytes and its buffer. Free it before the end of the test case.
template <class Face>
class Transfer {
 public:
  void wait() { ASSERT_OK(Face::wait(&request, MPI_STATUS_IGNORE)); }
  void free() { ASSERT_OK(Face::free(&request)); }
  int partitions() const { return partitions_; }

  typename Face::Request request = Face::null();

 protected:
  /// `init_call` is one of the two init calls, with `buffer` as its first argument.
  template <class InitCall>
  void init_with(InitCall init_call, Direction direction, int partitions, std::int64_t partition_bytes, int peer,
                 int tag, MPI_Comm comm, MPI_Info info) {
    partitions_ = partitions;
    partition_bytes_ = partition_bytes;
    const Memory memory = peer == MPI_PROC_NULL ? Memory::plain : memory_of_next(direction, tag);
    bytes_ = Bytes(memory, partitions * partition_bytes);
    overwrite(0);
    ASSERT_OK(init_call(bytes_.address(), partitions, partition_bytes, MPI_BYTE, peer, tag, comm, info, &request));
  }
  std::int64_t first_byte(int partition) const { return partition * partition_bytes_; }
  void overwrite(std::uint8_t value) {
    const std::int64_t size_bytes = bytes_.size_bytes();
    bytes_.write(0, size_bytes,
                 [&](std::uint8_t* bytes) { std::memset(bytes, value, static_cast<std::size_t>(size_bytes)); });
  }

  Bytes bytes_;

 private:
  int partitions_ = 0;
  std::int64_t partition_bytes_ = 0;
};

template <class Face>
class Sending : public Transfer<Face> {
 public:
  using Transfer<Face>::request;

  void init(int partitions, std::int64_t partition_bytes, int dest, int tag, MPI_Comm comm = MPI_COMM_WORLD,
            MPI_Info info = MPI_INFO_NULL) {
    this->init_with(Face::psend_init, Direction::send, partitions, partition_bytes, dest, tag, comm, info);
  }
  void start() { ASSERT_OK(Face::start(&request)); }
  /// Writes partition `p` of the data `key` and marks it.
  void mark(int p, std::uint64_t key) {
    fill(p, key);
    ASSERT_OK(Face::pready(p, request));
  }
  void mark_all(std::uint64_t key) {
    for (int p = 0; p < this->partitions(); ++p) fill(p, key);
    ASSERT_OK(Face::pready_range(0, this->partitions() - 1, request));
  }
  void fill(int p, std::uint64_t key) {
    const std::int64_t first = this->first_byte(p), last = this->first_byte(p + 1);
    this->bytes_.write(first, last, [&](std::uint8_t* bytes) { write_pattern(bytes, key, first, last); });
  }
};

template <class Face>
class Receiving : public Transfer<Face> {
 public:
  using Transfer<Face>::request;

  void init(int partitions, std::int64_t partition_bytes, int source, int tag, MPI_Comm comm = MPI_COMM_WORLD,
            MPI_Info info = MPI_INFO_NULL) {
    this->init_with(Face::precv_init, Direction::receive, partitions, partition_bytes, source, tag, comm, info);
  }
  void start() {
    this->overwrite(0xa5);
    ASSERT_OK(Face::start(&request));
  }
  bool arrived(int p) {
    int flag = 0;
    EXPECT_OK(Face::parrived(request, p, &flag));
    return flag != 0;
  }
  /// Polls until partition `p` has arrived and holds the data `key`.
  void await(int p, std::uint64_t key) {
    step("polling Parrived of partition " + std::to_string(p));
    while (!arrived(p)) {
      if (testing::Test::HasFailure()) return;
      sched_yield();
    }
    ASSERT_TRUE(holds(p, key));
  }
  testing::AssertionResult holds(int p, std::uint64_t key) const {
    const std::int64_t first = this->first_byte(p), last = this->first_byte(p + 1);
    return this->bytes_.read(first, last, [&](const std::uint8_t* bytes) -> testing::AssertionResult {
      const std::int64_t wrong = first_off_pattern(bytes, key, first, last);
      if (wrong == last) return testing::AssertionSuccess();
      return testing::AssertionFailure() << "byte " << wrong << " (partition " << p << ") is "
                                         << int{bytes[wrong - first]} << ", expected " << int{pattern(key, wrong)}
                                         << " of data " << key;
    });
  }
  testing::AssertionResult holds_all(std::uint64_t key) const {
    for (int p = 0; p < this->partitions(); ++p) {
      if (auto result = holds(p, key); !result) return result;
    }
    return testing::AssertionSuccess();
  }
  void wait_for(std::uint64_t key) {
    this->wait();
    ASSERT_TRUE(holds_all(key));
  }
};

/// An epoch of a send and a receive of this rank.
template <class Face>
void run_epoch(Sending<Face>& send, Receiving<Face>& recv, std::uint64_t key) {
  recv.start();
  send.start();
  send.mark_all(key);
  recv.wait_for(key);
  send.wait();
}

}  // namespace partita::test

/// Leaves the function when a check in a called function failed.
#define RETURN_IF_FAILED() \
  if (::testing::Test::HasFailure()) return
