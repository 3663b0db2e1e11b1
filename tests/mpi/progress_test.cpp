// MPI's progress rule (MPI-4, section 3.5 and 4.2): what both sides have started and marked completes, also while one
// of them is blocked in another call of the MPI.
#include <gtest/gtest.h>
#include <mpi.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "support/face.hpp"
#include "support/job.hpp"
#include "support/transfer.hpp"

namespace partita::test {
namespace {

constexpr int partitions = 4;
constexpr int plain_tag = 901;
const std::vector<std::int64_t> sizes = {8, 1024, 40 * 1024, 256 * 1024, 4 << 20};

template <class Face>
class Progress : public testing::Test {
 protected:
  void SetUp() override {
    if (ranks() != 2) GTEST_SKIP() << "needs two ranks";
  }

  /// Runs `as_sender` on rank 0 and `as_receiver` on rank 1 for every size, with fresh requests and in later epochs.
  template <class AsSender, class AsReceiver>
  void for_each_size(const AsSender& as_sender, const AsReceiver& as_receiver, bool with_largest = false) {
    auto all_sizes = sizes;
    if (with_largest) all_sizes.push_back(64 << 20);
    for (const std::int64_t size : all_sizes) {
      SCOPED_TRACE(std::to_string(size) + " bytes");
      Sending<Face> send;
      Receiving<Face> recv;
      if (rank() == 0) send.init(partitions, size / partitions, 1, 3);
      if (rank() == 1) recv.init(partitions, size / partitions, 0, 3);
      RETURN_IF_FAILED();
      const std::uint64_t epochs = size > (1 << 24) ? 2 : 3;
      for (std::uint64_t key = 1; key <= epochs; ++key) {
        step(std::to_string(size) + " bytes, epoch " + std::to_string(key));
        if (rank() == 0) as_sender(send, key);
        if (rank() == 1) as_receiver(recv, key);
        RETURN_IF_FAILED();
      }
      if (rank() == 0) send.free();
      if (rank() == 1) recv.free();
      RETURN_IF_FAILED();
    }
  }

  /// Calls of the MPI in an epoch.
  struct Calls {
    void (*before_wait)() = nullptr;
    void (*after_wait)() = nullptr;
  };
  static auto sender(Calls calls) {
    return [calls](Sending<Face>& send, std::uint64_t key) {
      send.start();
      send.mark_all(key);
      if (calls.before_wait != nullptr) calls.before_wait();
      send.wait();
      if (calls.after_wait != nullptr) calls.after_wait();
    };
  }
  static auto receiver(Calls calls) {
    return [calls](Receiving<Face>& recv, std::uint64_t key) {
      recv.start();
      if (calls.before_wait != nullptr) calls.before_wait();
      recv.wait_for(key);
      if (calls.after_wait != nullptr) calls.after_wait();
    };
  }

  static void barrier() { ASSERT_EQ(MPI_Barrier(MPI_COMM_WORLD), MPI_SUCCESS); }
  static void send_plain() { ASSERT_EQ(MPI_Send(nullptr, 0, MPI_BYTE, 1 - rank(), plain_tag, MPI_COMM_WORLD), 0); }
  static void recv_plain() {
    ASSERT_EQ(MPI_Recv(nullptr, 0, MPI_BYTE, 1 - rank(), plain_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE), 0);
  }
};

TYPED_TEST_SUITE(Progress, Faces, FaceNames);

TYPED_TEST(Progress, the_receiver_completes_while_the_sender_is_in_a_barrier) {
  this->for_each_size(this->sender({.before_wait = this->barrier}), this->receiver({.after_wait = this->barrier}),
                      true);
}

TYPED_TEST(Progress, the_sender_completes_while_the_receiver_is_in_a_barrier) {
  this->for_each_size(this->sender({.after_wait = this->barrier}), this->receiver({.before_wait = this->barrier}));
}

TYPED_TEST(Progress, the_sender_completes_while_the_receiver_is_in_a_plain_receive) {
  this->for_each_size(this->sender({.after_wait = this->send_plain}),
                      this->receiver({.before_wait = this->recv_plain}));
}

TYPED_TEST(Progress, the_receiver_sees_arrivals_while_the_sender_is_in_a_plain_receive) {
  this->for_each_size(this->sender({.before_wait = this->recv_plain}), [](auto& recv, std::uint64_t key) {
    recv.start();
    for (int p = 0; p < partitions; ++p) recv.await(p, key);
    TestFixture::send_plain();
    recv.wait();
  });
}

TYPED_TEST(Progress, partitions_marked_before_the_receiver_starts_travel_while_the_sender_is_in_a_plain_receive) {
  this->for_each_size(this->sender({.before_wait = this->recv_plain}), [](auto& recv, std::uint64_t key) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    recv.start();
    recv.wait_for(key);
    TestFixture::send_plain();
  });
}

TYPED_TEST(Progress, the_sender_may_be_an_epoch_ahead) {
  // The receiver has not yet waited for epoch n when the sender has marked all of epoch n + 1.
  this->for_each_size(
      [](auto& send, std::uint64_t key) {
        if (key == 1) send.start();
        if (key == 1) send.mark_all(key);
        send.wait();
        send.start();
        send.mark_all(key + 1);
        TestFixture::send_plain();
        if (key == 3) send.wait();
      },
      [](auto& recv, std::uint64_t key) {
        if (key == 1) recv.start();
        TestFixture::recv_plain();
        recv.wait_for(key);
        recv.start();
        if (key == 3) recv.wait_for(key + 1);
      });
}

TYPED_TEST(Progress, requests_in_both_directions_complete_in_opposite_order) {
  for (const std::int64_t size : sizes) {
    Sending<TypeParam> send;
    Receiving<TypeParam> recv;
    send.init(partitions, size / partitions, 1 - rank(), 3);
    recv.init(partitions, size / partitions, 1 - rank(), 3);
    RETURN_IF_FAILED();
    for (std::uint64_t key = 1; key <= 3; ++key) {
      step(std::to_string(size) + " bytes both ways, epoch " + std::to_string(key));
      recv.start();
      send.start();
      send.mark_all(key);
      if (rank() == 0) send.wait();
      recv.wait_for(key);
      if (rank() == 1) send.wait();
      RETURN_IF_FAILED();
    }
    send.free();
    recv.free();
  }
}

}  // namespace
}  // namespace partita::test
