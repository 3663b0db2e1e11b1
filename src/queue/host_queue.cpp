// Queues of the host: the thread that calls is the stream.
#include "queue/kinds.hpp"

namespace partita {
namespace {

/// What is enqueued has run when the call returns, and nothing is ever left to be waited for.
class HostQueue final : public Queue {
 public:
  explicit HostQueue(const QueueServices& services) : services_(services) {}

  void finish() override {}
  bool may_be_under_way() const override { return false; }
  void end_soon() noexcept override {}
  void let_go() noexcept override {}
  void give_up() noexcept override {}
  void look_at_stream(int) noexcept override {}
  std::string explain() const override { return "All that is enqueued has run"; }
  int waits_for() const override { return -1; }

 private:
  void run_starts(std::span<Operation* const> operations) override {
    for (Operation* const each : operations) {
      about(*each, [each] {
        each->start();
        each->loop_watch().begin();
      });
    }
  }
  void run_waits(std::span<Operation* const> operations) override {
    for (Operation* const each : operations) {
      about(*each, [&] {
        if (each->open()) services_.complete(*each);  // a start that failed has opened nothing
      });
      each->queue_use().count_enqueued(-1);
    }
  }

  const QueueServices& services_;
};

}  // namespace

std::unique_ptr<Queue> make_host_queue(const QueueServices& services, void* stream) {
  if (stream != nullptr) {
    throw Error(ErrorClass::arg, "argument stream is not null; expected is null for a queue of the host");
  }
  return std::make_unique<HostQueue>(services);
}

}  // namespace partita
