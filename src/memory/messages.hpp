// Messages between two GPU memories that streams move by themselves: what the library's kernels do with them, and their
// arguments. docs/design/queues.md, "Messages without the CPU".
#pragma once

#include <partita/device/impl/message.hpp>

#include "memory/kernels.hpp"

namespace partita::memory {

using device::MessageEnds;
using device::MessageFault;
using device::MessageReport;
using device::MessageState;
using device::ReceiverWords;
using device::SenderWords;
using device::StreamMessage;

/// What the block of a launch that comes first has found for all blocks of its message; none between launches.
enum class Verdict : partita_u32 { none, rests, moves };

/// What a step does with messages that were matched once, at both sides: an epoch's start, later its wait. Only waits
/// wait for the peer. A look is a wait that does not: its report tells.
enum class MessageStep : partita_u32 { start, wait, look };

/// What a launch does of a step. A side whose wait may be long and may have much to move decides in a launch of one
/// block, and moves in a second one, of many.
enum class MessageStage : partita_u32 { all, decide, move };

/// What a launch does with each of its messages.
struct MessageWork {
  MessageStep step = MessageStep::start;
  MessageStage stage = MessageStage::all;
  partita_u32 report = 0;    ///< not 0: what the launch reports itself as when its work is done
  partita_u64 limit_ns = 0;  ///< of a wait; 0: none
};

/// The arguments of Kernel::run_message: `blocks` for the message, of which the one that comes first decides whether
/// this side moves it, and all move it at once.
struct RunMessage {
  static constexpr Kernel kernel = Kernel::run_message;
  StreamMessage* message = nullptr;
  partita_u32 blocks = 0;
  MessageWork work;
};

/// The arguments of Kernel::run_messages: so many blocks for each message, likewise.
struct RunMessages {
  static constexpr Kernel kernel = Kernel::run_messages;
  static constexpr partita_u32 most = 32;
  StreamMessage* messages[most];  ///< this and the next one: the first `count`
  partita_u32 blocks[most];
  partita_u32 count = 0;
  MessageWork work;
};

}  // namespace partita::memory
