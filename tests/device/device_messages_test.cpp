// The protocol of messages that streams move, on CPU threads: whichever side comes when, just one of them moves each.
#include <gtest/gtest.h>
#include <partita/device.cuh>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

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
    words_of_sender = {before, before, 0, 0, 0};
    words_of_receiver.pushed = before;
    for (memory::StreamMessage* const side : {&send, &receive}) {
      side->state.epoch = side->state.moves = side->state.over = before;
      side->ends.sender = &words_of_sender;
      side->ends.receiver = &words_of_receiver;
      side->ends.to = reinterpret_cast<unsigned char*>(&received);
      side->ends.from = reinterpret_cast<const unsigned char*>(&sent);
      side->ends.size_bytes = sizeof sent;
      side->ends.report = &report;
    }
    send.ends.sends = 1;
    send.ends.is_ready = ready ? 1 : 0;
  }

  static memory::RunMessage launch_of(memory::StreamMessage& side, memory::MessageStep step, partita_u32 blocks,
                                      partita_u64 limit = limit_ns) {
    return {&side, blocks, {.step = step, .limit_ns = limit}};
  }
  static void run(memory::StreamMessage& side, memory::MessageStep step, partita_u64 limit = limit_ns) {
    memory::run_message(launch_of(side, step, 1, limit), 0);
  }

  /// As StreamSide::completion.
  MPIX_Completion completion(memory::StreamMessage& side) {
    MPIX_Completion made{};
    made.word = &side == &send ? &words_of_sender.pulled : &words_of_receiver.pushed;
    made.epoch = &side.state.epoch;
    made.message = &side;
    made.origin = PARTITA_PREQUEST_MADE;
    return made;
  }

  memory::StreamMessage send{};
  memory::StreamMessage receive{};
  memory::SenderWords words_of_sender{};
  memory::ReceiverWords words_of_receiver{};
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  memory::MessageReport report{};
};

using memory::MessageStep;

void idle_for(int turns) {
  for (int i = 0; i < turns; ++i) device::relax();
}

/// Gives the flag; `code`: what the call is to return.
int complete(const MPIX_Completion& completion, int code = PARTITA_DEVICE_SUCCESS) {
  int flag = -1;
  EXPECT_EQ(MPIX_Completed(completion, &flag), code);
  return flag;
}
int complete_block(const MPIX_Completion& completion, int code = PARTITA_DEVICE_SUCCESS) {
  int flag = -1;
  EXPECT_EQ(MPIX_Completed_block(completion, &flag), code);
  return flag;
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
  EXPECT_EQ(message.report.fault, 0U);
}

/// Whichever block of a launch comes first decides for all.
TEST(DeviceMessages, blocks_move_a_message_together) {
  constexpr partita_u32 blocks = 3;
  constexpr int epochs = repetitions(2'000, 200);
  Message message(41);
  std::array<int, 1000> sent{}, received{};
  for (memory::StreamMessage* const side : {&message.send, &message.receive}) {
    side->ends.to = reinterpret_cast<unsigned char*>(received.data());
    side->ends.from = reinterpret_cast<const unsigned char*>(sent.data());
    side->ends.size_bytes = sizeof sent;
  }
  // A launch is a round of a barrier, of all blocks.
  const auto run_side = [](memory::StreamMessage& side, const auto& before, const auto& behind) {
    std::barrier launches(blocks);
    const auto run_block = [&](partita_u32 block) {
      for (int i = 1; i <= epochs; ++i) {
        if (block == 0) before(i);
        launches.arrive_and_wait();
        memory::run_message(Message::launch_of(side, MessageStep::start, blocks), block);
        launches.arrive_and_wait();
        memory::run_message(Message::launch_of(side, MessageStep::wait, blocks), block);
        launches.arrive_and_wait();
        if (block == 0) behind(i);
      }
    };
    std::vector<std::jthread> others;
    for (partita_u32 block = 1; block < blocks; ++block) others.emplace_back(run_block, block);
    run_block(0);
  };
  int wrong = 0;
  std::jthread sender([&] { run_side(message.send, [&](int i) { sent.fill(i); }, [&](int) { sent.fill(0); }); });
  run_side(
      message.receive, [&](int) { received.fill(-1); },
      [&](int i) { wrong += std::ranges::all_of(received, [i](int each) { return each == i; }) ? 0 : 1; });
  sender.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(message.report.fault, 0U);
  for (const memory::StreamMessage* const side : {&message.send, &message.receive}) {
    EXPECT_EQ(side->state.blocks_entered, 0U);
    EXPECT_EQ(side->state.blocks_done, 0U);
  }
}

/// A block finds its message by what the messages before it have.
TEST(DeviceMessages, a_launch_has_blocks_of_several_messages) {
  std::array<std::unique_ptr<Message>, 3> messages;
  memory::RunMessages receives, sends;
  sends.work.report = 9;
  partita_u32 blocks = 0;
  for (partita_u32 i = 0; i < messages.size(); ++i) {
    messages[i] = std::make_unique<Message>(10 * i);
    messages[i]->sent = 7 + i;
    receives.messages[i] = &messages[i]->receive;
    sends.messages[i] = &messages[i]->send;
    receives.blocks[i] = 1;
    blocks += sends.blocks[i] = i + 1;
  }
  receives.count = sends.count = static_cast<partita_u32>(messages.size());
  for (partita_u32 i = 0; i < messages.size(); ++i) memory::run_messages(receives, i);
  for (partita_u32 block = 0; block < blocks; ++block) {
    EXPECT_EQ(messages[2]->report.number, 0U) << "no report before the last block's end";
    memory::run_messages(sends, block);
  }
  for (partita_u32 i = 0; i < messages.size(); ++i) {
    EXPECT_EQ(messages[i]->received, 7 + i);
    EXPECT_EQ(messages[i]->report.number, 9U);
    EXPECT_EQ(messages[i]->report.epoch, 10 * i + 1);
    EXPECT_EQ(messages[i]->report.over, 10 * i + 1);
  }
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
  EXPECT_EQ(message.report.fault, static_cast<partita_u32>(memory::MessageFault::too_late));
  Message::run(message.receive, MessageStep::start);
  Message::run(message.receive, MessageStep::look);
  EXPECT_EQ(message.received, 0U);
}

/// No word still reads the number of an epoch long ago when that comes again.
TEST(DeviceMessages, old_words_are_cleared_now_and_then) {
  constexpr Epoch clearing = 1U << 24;
  {
    Message message(clearing - 1);
    message.words_of_receiver.offered = message.words_of_sender.will_pull = 123;
    message.words_of_sender.yielded = message.words_of_sender.pulls = 123;
    Message::run(message.receive, MessageStep::start);
    Message::run(message.send, MessageStep::start);  // pushes
    EXPECT_EQ(message.words_of_receiver.offered, no_epoch);
    EXPECT_EQ(message.words_of_sender.will_pull, no_epoch);
    EXPECT_EQ(message.words_of_sender.yielded, no_epoch);
    EXPECT_EQ(message.words_of_sender.pulls, no_epoch);
  }
}

/// Whichever side moves it: so the words of the end are never those of an epoch long ago.
TEST(DeviceMessages, both_sides_words_of_the_end_are_stored_each_time) {
  for (const bool pushed : {true, false}) {
    Message message(41);
    memory::StreamMessage& first = pushed ? message.receive : message.send;
    memory::StreamMessage& second = pushed ? message.send : message.receive;
    Message::run(first, MessageStep::start);
    Message::run(second, MessageStep::start);
    if (!pushed) Message::run(message.receive, MessageStep::wait);
    EXPECT_EQ(message.words_of_receiver.pushed, 42U);
    EXPECT_EQ(message.words_of_sender.pulled, 42U);
  }
}

TEST(DeviceMessages, a_kernel_sees_when_an_epoch_is_complete) {
  Message message(41, true);
  message.sent = 7;
  EXPECT_EQ(complete(message.completion(message.receive)), 1) << "none was started yet";
  EXPECT_EQ(complete(message.completion(message.send)), 1);
  Message::run(message.receive, MessageStep::start);
  EXPECT_EQ(complete(message.completion(message.receive)), 0);
  Message::run(message.send, MessageStep::start);
  EXPECT_EQ(complete(message.completion(message.receive)), 1);
  EXPECT_EQ(complete(message.completion(message.send)), 1);
  EXPECT_EQ(message.received, 7U);
  Message::run(message.receive, MessageStep::wait);
  Message::run(message.receive, MessageStep::start);
  EXPECT_EQ(complete(message.completion(message.receive)), 0) << "the next epoch is another one";
  EXPECT_EQ(complete(message.completion(message.send)), 1) << "of this side none was started since";
}

/// One thread only looks; a block moves what was offered, from either side.
TEST(DeviceMessages, a_kernel_moves_what_was_offered) {
  for (const bool by_sender : {true, false}) {
    Message message(41);
    message.sent = 7;
    memory::StreamMessage& asking = by_sender ? message.send : message.receive;
    Message::run(message.send, MessageStep::start);
    if (by_sender) {
      EXPECT_EQ(complete_block(message.completion(asking)), 0) << "the receive has not started";
    }
    Message::run(message.receive, MessageStep::start);
    EXPECT_EQ(complete(message.completion(asking)), 0);
    EXPECT_EQ(message.received, 0U);
    EXPECT_EQ(complete_block(message.completion(asking)), 1);
    EXPECT_EQ(message.received, 7U);
    message.received = 0;
    for (memory::StreamMessage* const side : {&message.send, &message.receive}) {
      EXPECT_EQ(complete(message.completion(*side)), 1);
      EXPECT_EQ(complete_block(message.completion(*side)), 1);
      Message::run(*side, MessageStep::wait);
    }
    EXPECT_EQ(message.received, 0U) << "it was moved twice";
  }
}

/// Blocks of several threads on both sides, each of which asks until the epoch is complete, or leaves the rest to the
/// wait.
TEST(DeviceMessages, kernels_that_ask_on_both_sides_move_each_once) {
  constexpr partita_u32 threads = 3;
  constexpr int epochs = repetitions(2'000, 200);
  Message message(~Epoch{0} - epochs / 2);
  std::array<int, 100> sent{}, received{};
  for (memory::StreamMessage* const side : {&message.send, &message.receive}) {
    side->ends.to = reinterpret_cast<unsigned char*>(received.data());
    side->ends.from = reinterpret_cast<const unsigned char*>(sent.data());
    side->ends.size_bytes = sizeof sent;
  }
  std::atomic<int> wrong{0};
  const auto run_side = [&](memory::StreamMessage& side, int seed, const auto& before, const auto& is_right) {
    device::CpuBlock block(threads);
    const MPIX_Completion completion = message.completion(side);
    const auto run_thread = [&](partita_u32 rank) {
      Random random(static_cast<std::uint64_t>(seed));  // all threads of the block draw the same
      for (int i = 1; i <= epochs; ++i) {
        if (rank == 0) {
          before(i);
          Message::run(side, MessageStep::start);
        }
        block.barrier();
        const bool until_complete = random.one_in(2);
        int flag = 0;
        {
          const device::CpuBlockThread joined(block, rank);
          do {
            if (MPIX_Completed_block(completion, &flag) != PARTITA_DEVICE_SUCCESS) ++wrong;
          } while (flag == 0 && until_complete);
        }
        if (flag != 0 && !is_right(i)) ++wrong;  // each thread may read
        block.barrier();
        if (rank == 0) Message::run(side, MessageStep::wait);
        block.barrier();
        if (rank == 0 && !is_right(i)) ++wrong;
        block.barrier();
      }
    };
    std::vector<std::jthread> others;
    for (partita_u32 rank = 1; rank < threads; ++rank) others.emplace_back(run_thread, rank);
    run_thread(0);
  };
  std::jthread sender([&] { run_side(message.send, 3, [&](int i) { sent.fill(i); }, [](int) { return true; }); });
  run_side(
      message.receive, 4, [&](int) { received.fill(-1); },
      [&](int i) { return std::ranges::all_of(received, [i](int each) { return each == i; }); });
  sender.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(message.report.fault, 0U);
}

TEST(DeviceMessages, a_kernel_hears_why_an_epoch_is_never_complete) {
  {
    Message message(41);
    Message::run(message.receive, MessageStep::start);
    Message::run(message.receive, MessageStep::wait, 1);
    EXPECT_EQ(complete(message.completion(message.receive), PARTITA_DEVICE_ERR_TIMEOUT), 0);
    EXPECT_EQ(complete_block(message.completion(message.receive), PARTITA_DEVICE_ERR_TIMEOUT), 0);
  }
  {
    Message message(41, true);
    Message::run(message.receive, MessageStep::start);
    message.receive.state.released = 1;  // the host's
    EXPECT_EQ(complete(message.completion(message.receive), PARTITA_DEVICE_ERR_ABORTED), 0);
    EXPECT_EQ(complete_block(message.completion(message.receive), PARTITA_DEVICE_ERR_ABORTED), 0);
    message.send.state.epoch = 41;
    Message::run(message.send, MessageStep::start);
    EXPECT_EQ(complete(message.completion(message.receive)), 1) << "what has come is complete all the same";
    EXPECT_EQ(complete_block(message.completion(message.receive)), 1);
  }
}

/// Both sides want to move a message, and the receiver has not said yet who does. A sender that has said what it wants
/// is still there when the answer comes, since a receiver that yields waits for it.
enum class Answer : std::uint8_t { yields, pulls, released };
void meet_in_a_look(Answer answer, bool in_kernel) {
  Message message(41);
  message.sent = 7;
  Message::run(message.send, MessageStep::start);
  Message::run(message.receive, MessageStep::start);
  message.words_of_sender.will_pull = 42;
  std::atomic<bool> back{false};
  int flag = -1, code = -1;
  std::thread sender([&] {
    if (in_kernel) {
      code = MPIX_Completed_block(message.completion(message.send), &flag);
    } else {
      Message::run(message.send, MessageStep::look);
    }
    back = true;
  });
  while (device::seen(message.words_of_receiver.will_push) != 42) idle_for(1);
  idle_for(10'000);
  EXPECT_FALSE(back) << "it owes a move";
  if (answer == Answer::yields) device::tell(message.words_of_sender.yielded, 42);
  if (answer == Answer::pulls) device::tell(message.words_of_sender.pulls, 42);
  if (answer == Answer::released) device::tell(message.send.state.released, 1);
  sender.join();
  EXPECT_EQ(message.received, answer == Answer::yields ? 7U : 0U);
  if (in_kernel) {
    EXPECT_EQ(flag, answer == Answer::yields ? 1 : 0);
    EXPECT_EQ(code, answer == Answer::released ? PARTITA_DEVICE_ERR_ABORTED : PARTITA_DEVICE_SUCCESS);
  }
}

TEST(DeviceMessages, a_sender_that_looks_hears_whether_it_is_to_move) {
  for (const Answer answer : {Answer::yields, Answer::pulls, Answer::released}) {
    for (const bool in_kernel : {true, false}) meet_in_a_look(answer, in_kernel);
  }
}

/// So a sender that looks does not stand there until all has been copied.
TEST(DeviceMessages, a_receiver_says_that_it_pulls_before_it_does) {
  Message message(41);
  Message::run(message.send, MessageStep::start);
  Message::run(message.receive, MessageStep::start);
  memory::RunMessage decides = Message::launch_of(message.receive, MessageStep::wait, 1);
  decides.work.stage = memory::MessageStage::decide;
  memory::run_message(decides, 0);
  EXPECT_EQ(message.words_of_sender.pulls, 42U);
  EXPECT_EQ(complete_block(message.completion(message.send)), 0);
  decides.work.stage = memory::MessageStage::move;
  memory::run_message(decides, 0);
  EXPECT_EQ(complete_block(message.completion(message.send)), 1);
}

/// One look of each side and one wait of either, whichever comes when: nothing else is needed.
TEST(DeviceMessages, one_look_of_the_sender_leaves_no_receiver_behind) {
  constexpr int epochs = repetitions(2'000, 200);
  Message message(41);
  std::barrier both(2);
  std::thread sender([&] {
    for (int i = 1; i <= epochs; ++i) {
      message.sent = static_cast<std::uint64_t>(i);
      Message::run(message.send, MessageStep::start);
      both.arrive_and_wait();
      both.arrive_and_wait();
      Message::run(message.send, MessageStep::look);
      both.arrive_and_wait();  // behind the receiver's wait
      Message::run(message.send, MessageStep::wait);
    }
  });
  int wrong = 0;
  for (int i = 1; i <= epochs; ++i) {
    both.arrive_and_wait();
    Message::run(message.receive, MessageStep::start);
    both.arrive_and_wait();
    Message::run(message.receive, MessageStep::wait);
    wrong += message.received == static_cast<std::uint64_t>(i) ? 0 : 1;
    both.arrive_and_wait();
  }
  sender.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(message.report.fault, 0U);
}

/// As of any other struct: what a thread wrote before the call, the others of its block see behind it.
TEST(DeviceMessages, a_call_of_a_block_is_a_barrier_where_there_is_no_message) {
  constexpr int threads = 3;
  for (const partita_u32 origin : {partita_u32{PARTITA_PREQUEST_NOBODY}, partita_u32{0}}) {
    MPIX_Completion completion{};
    completion.origin = origin;
    device::CpuBlock block(threads);
    std::atomic<int> here{0}, early{0};
    const auto run_thread = [&](partita_u32 rank) {
      const device::CpuBlockThread joined(block, rank);
      for (int i = 1; i <= 100; ++i) {
        int flag = 0;
        ++here;
        MPIX_Completed_block(completion, &flag);
        if (here < i * threads) ++early;
      }
    };
    {
      std::vector<std::jthread> all;
      for (partita_u32 rank = 0; rank < threads; ++rank) all.emplace_back(run_thread, rank);
    }
    EXPECT_EQ(early, 0);
  }
}

TEST(DeviceMessages, calls_on_what_was_never_made_touch_nothing) {
  EXPECT_EQ(complete(MPIX_Completion{}, PARTITA_DEVICE_ERR_FREED), 0);
  EXPECT_EQ(complete_block(MPIX_Completion{}, PARTITA_DEVICE_ERR_FREED), 0);
  MPIX_Completion to_nobody{};
  to_nobody.origin = PARTITA_PREQUEST_NOBODY;
  EXPECT_EQ(complete(to_nobody), 1);
  EXPECT_EQ(complete_block(to_nobody), 1);
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
