// A queue of a fake GPU's stream, with what the program itself asks of that.
#pragma once

#include <gtest/gtest.h>
#include <partita/partita.h>

#include <atomic>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "support/errors.hpp"
#include "support/fake_stream.hpp"
#include "support/job.hpp"
#include "support/queue_kind.hpp"

namespace partita::test {

/// A queue with the stream of the program's behind it.
class Line {
 public:
  explicit Line(int which) : stream_(queue_stream(which)) {
    EXPECT_OK(Partita_Queue_init(&queue_, PARTITA_QUEUE_CUDA, stream_));
  }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;
  ~Line() {
    worker().drain();
    EXPECT_OK(Partita_Queue_free(&queue_));
  }

  FakeWorker& worker() const { return *static_cast<FakeWorker*>(*static_cast<void**>(stream_)); }
  void launch(std::function<void()> kernel) const { worker().ask(std::move(kernel)); }
  void launch(const std::vector<FakeWorker::Operation>& graph) const {
    for (const FakeWorker::Operation& node : graph) worker().ask(node);
  }
  void start(Partita_Request& request) { ASSERT_OK(Partita_Enqueue_start(queue_, &request)); }
  void wait(Partita_Request& request) { ASSERT_OK(Partita_Enqueue_wait(queue_, &request)); }
  /// Lets the stream come to the end of all that it was asked for.
  void expect_to_go_on() const {
    std::atomic<bool> over{false};
    launch([&] { over = true; });
    worker().drain();
    EXPECT_TRUE(over);
  }
  void finish() { ASSERT_OK(Partita_Queue_wait(queue_)); }
  Partita_Queue queue() const { return queue_; }

 private:
  void* stream_;
  Partita_Queue queue_ = PARTITA_QUEUE_NULL;
};

/// An epoch in which the sender's stream stands between its start and its wait until the receiver's has come to its
/// end, and `look` was called.
template <class Look>
void receive_before_the_senders_wait(Partita_Request& send, Partita_Request& receive, Look look) {
  Line sends(0), receives(1);
  sends.start(send);
  sends.worker().drain();
  harness_barrier();  // every send is started, and no receive
  std::atomic<bool> go{false};
  sends.launch([&] {
    while (!go) std::this_thread::yield();
  });
  sends.wait(send);
  receives.start(receive);
  receives.wait(receive);
  receives.finish();
  look();
  go = true;
  sends.finish();
}

}  // namespace partita::test
