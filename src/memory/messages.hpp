// Messages between two GPU memories that streams move by themselves: what their kernels share, and their arguments.
// docs/design/queues.md, "Without the CPU".
#pragma once

#include <partita/device/impl/epoch.hpp>

#include "memory/kernels.hpp"

namespace partita::memory {

/// In the sender's GPU memory; the receiver's stream stores them. Each holds the newest epoch of which it is true.
struct SenderWords {
  Epoch started;    ///< the receive buffer may be written
  Epoch pulled;     ///< the receiver has copied the message
  Epoch will_pull;  ///< the receiver wants to, unless the sender wants to push
  Epoch yielded;    ///< the sender wants to, and may
};

/// In the receiver's GPU memory; the sender's stream stores them.
struct ReceiverWords {
  Epoch pushed;     ///< the message lies in the receive buffer
  Epoch offered;    ///< it may be copied out of the send buffer
  Epoch will_push;  ///< the sender wants to move what it has offered
};

/// How an epoch of a message has ended on one side, or why it never will.
enum class MessageFault : partita_u32 { none, too_late, released };

/// What the block of a launch that comes first has found for all blocks of its message; none between launches.
enum class Verdict : partita_u32 { none, rests, moves };

/// What one side keeps in its GPU memory from step to step. The steps run one after the other, in streams.
struct MessageState {
  Epoch epoch;                 ///< started last
  Epoch moves;                 ///< in which this side moves the message
  Epoch over;                  ///< whose end this side has seen
  partita_u32 blocks_entered;  ///< of the launch; 0 between launches, as ...
  partita_u32 verdict;         ///< ... Verdict, and ...
  partita_u32 blocks_done;     ///< ... this
  partita_u32 fault;           ///< MessageFault; not none: no step does anything any more
  partita_u32 released;        ///< the host's: not 0 ends waits
};

/// What the steps tell the host, in its memory.
struct MessageReport {
  partita_u32 fault;   ///< a copy of the state's
  partita_u32 number;  ///< of the launch that was told to report, and has; ...
  Epoch epoch;         ///< ... these are as it has left them
  Epoch over;
};

/// What no step changes. Addresses are as this GPU uses them.
struct MessageEnds {
  SenderWords* sender = nullptr;
  ReceiverWords* receiver = nullptr;
  unsigned char* to = nullptr;  ///< the receive buffer
  const unsigned char* from = nullptr;
  partita_i64 size_bytes = 0;
  MessageReport* report = nullptr;
  partita_u32 sends = 0;  ///< 0: this side receives
  /// The program has started the receive before each start of the send.
  partita_u32 is_ready = 0;
};

/// One side of a message, in its GPU memory.
struct StreamMessage {
  MessageState state;
  MessageEnds ends;
};

/// What a step does with messages that were matched once, at both sides: an epoch's start, later its wait. Only waits
/// wait for the peer. A look is a wait that does not: its report tells.
enum class MessageStep : partita_u32 { start, wait, look };

/// What a launch does of a step. A side whose wait may be long and may have much to move decides in a launch of one
/// block, and moves in a second one, of many.
enum class MessageStage : partita_u32 { all, decide, move };

/// The arguments of Kernel::run_messages: blocks for each message, of which the one that comes first decides whether
/// this side moves it, and all move it at once.
struct RunMessages {
  static constexpr Kernel kernel = Kernel::run_messages;
  static constexpr partita_u32 most = 32;
  StreamMessage* messages[most] = {};
  partita_u32 blocks[most] = {};  ///< of each
  partita_u32 count = 0;          ///< of messages
  MessageStep step = MessageStep::start;
  MessageStage stage = MessageStage::all;
  partita_u32 report = 0;    ///< not 0: what the launch reports itself as when its work is done
  partita_u64 limit_ns = 0;  ///< of a wait; 0: none
};

}  // namespace partita::memory
