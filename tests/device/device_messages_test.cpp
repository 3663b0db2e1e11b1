// The protocol of messages that streams move, on CPU threads: whichever side comes when, just one of them moves each.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <thread>

#include "memory/message_bodies.cuh"
#include "support/random.hpp"
#include "support/sanitized.hpp"

namespace partita::test {
namespace {

constexpr partita_u64 limit_ns = 20'000'000'000;

/// Both ends of a message in one process.
class Message {
 public:
  explicit Message(Epoch before, bool ready = false) {
    words_of_sender = {before, before, 0, 0};
    for (memory::StreamMessage* const side : {&send, &receive}) {
      side->state.epoch = side->state.moves = side->state.over = before;
      side->sender = &words_of_sender;
      side->receiver = &words_of_receiver;
      side->to = reinterpret_cast<unsigned char*>(&received);
      side->from = reinterpret_cast<const unsigned char*>(&sent);
      side->size_bytes = sizeof sent;
      side->fault_on_host = &fault;
    }
    send.sends = 1;
    send.is_ready = ready ? 1 : 0;
  }

  static void run(memory::StreamMessage& side, memory::MessageStep step, partita_u64 limit = limit_ns) {
    memory::RunMessages run;
    run.messages[0] = &side;
    run.count = 1;
    run.step = step;
    run.limit_ns = limit;
    memory::run_messages(run, 0);
  }

  memory::StreamMessage send{};
  memory::StreamMessage receive{};
  memory::SenderWords words_of_sender{};
  memory::ReceiverWords words_of_receiver{};
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  partita_u32 fault = 0;
};

using memory::MessageStep;

void idle_for(int turns) {
  for (int i = 0; i < turns; ++i) device::relax();
}

TEST(DeviceMessages, one_side_moves_each) {
  constexpr int epochs = repetitions(20'000, 2'000);
  Message message(~Epoch{0} - epochs / 2);
  int pushed = 0, pulled = 0;
  std::thread sender([&] {
    Random random(1, 0);
    for (int i = 1; i <= epochs; ++i) {
      message.sent = static_cast<std::uint64_t>(i);
      idle_for(random.integer(0, 3));
      Message::run(message.send, MessageStep::start);
      idle_for(random.integer(0, 3));
      Message::run(message.send, MessageStep::wait);
      pushed += message.send.state.moves == message.send.state.epoch ? 1 : 0;
      message.sent = 0;  // the wait is over
    }
  });
  int wrong = 0;
  Random random(2, 0);
  for (int i = 1; i <= epochs; ++i) {
    idle_for(random.integer(0, 3));
    Message::run(message.receive, MessageStep::start);
    idle_for(random.integer(0, 3));
    Message::run(message.receive, MessageStep::wait);
    wrong += message.received == static_cast<std::uint64_t>(i) ? 0 : 1;
    pulled += message.receive.state.moves == message.receive.state.epoch ? 1 : 0;
  }
  sender.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(pushed + pulled, epochs);
  EXPECT_EQ(message.fault, 0U);
}

/// Looks instead of waits, one side's after the other's, from each state in which they can meet.
TEST(DeviceMessages, looks_move_what_was_offered) {
  for (const bool sender_first : {true, false}) {
    Message message(41);
    message.sent = 7;
    Message::run(message.send, MessageStep::start);
    Message::run(message.send, MessageStep::look);
    Message::run(message.receive, MessageStep::start);
    EXPECT_EQ(message.received, 0U);
    Message::run(sender_first ? message.send : message.receive, MessageStep::look);
    EXPECT_EQ(message.received, 7U);
    message.received = 0;
    Message::run(sender_first ? message.receive : message.send, MessageStep::look);
    EXPECT_EQ(message.received, 0U) << "it was moved twice";
    EXPECT_EQ(message.send.state.over, message.send.state.epoch);
    EXPECT_EQ(message.receive.state.over, message.receive.state.epoch);
  }
}

TEST(DeviceMessages, an_offer_that_was_taken_back_is_not_pulled) {
  Message message(41);
  message.sent = 7;
  Message::run(message.send, MessageStep::start);
  Message::run(message.send, MessageStep::wait, 1);
  EXPECT_EQ(message.fault, static_cast<partita_u32>(memory::MessageFault::too_late));
  Message::run(message.receive, MessageStep::start);
  Message::run(message.receive, MessageStep::look);
  EXPECT_EQ(message.received, 0U);
}

/// No word still reads the number of an epoch long ago when that comes again.
TEST(DeviceMessages, old_words_are_cleared_now_and_then) {
  constexpr Epoch clearing = 1U << 24;
  {
    Message message(clearing - 1);
    message.words_of_receiver.offered = message.words_of_sender.pulled = message.words_of_sender.yielded = 123;
    Message::run(message.receive, MessageStep::start);
    Message::run(message.send, MessageStep::start);  // pushes
    EXPECT_EQ(message.words_of_receiver.offered, no_epoch);
    EXPECT_EQ(message.words_of_sender.pulled, no_epoch);
    EXPECT_EQ(message.words_of_sender.yielded, no_epoch);
  }
  {
    Message message(clearing - 1);
    message.words_of_receiver.pushed = 123;
    Message::run(message.send, MessageStep::start);
    Message::run(message.receive, MessageStep::start);
    Message::run(message.receive, MessageStep::wait);  // pulls
    EXPECT_EQ(message.words_of_receiver.pushed, no_epoch);
    EXPECT_EQ(message.words_of_sender.pulled, clearing);
  }
}

TEST(DeviceMessages, a_ready_send_pushes_at_once) {
  Message message(41, true);
  message.sent = 7;
  Message::run(message.receive, MessageStep::start);
  Message::run(message.send, MessageStep::start);
  EXPECT_EQ(message.received, 7U);
  EXPECT_EQ(message.send.state.over, message.send.state.epoch);
  Message::run(message.receive, MessageStep::look);
  EXPECT_EQ(message.receive.state.over, message.receive.state.epoch);
}

}  // namespace
}  // namespace partita::test
