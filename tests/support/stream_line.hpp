// A queue of a fake GPU's stream, with what the program itself asks of that.
#pragma once

#include <gtest/gtest.h>
#include <partita/partita.h>

#include <atomic>
#include <functional>
#include <utility>
#include <vector>

#include "support/errors.hpp"
#include "support/fake_stream.hpp"
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

}  // namespace partita::test
