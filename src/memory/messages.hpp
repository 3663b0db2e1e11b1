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

/// What one side keeps in its GPU memory from step to step. The steps run one after the other, in streams.
struct MessageState {
  Epoch epoch;              ///< started last
  Epoch moves;              ///< in which this side moves the message
  Epoch over;               ///< whose end this side has seen
  partita_u32 blocks_done;  ///< of the step that moves; 0 between steps
  partita_u32 fault;        ///< MessageFault; not none: no step does anything any more
  partita_u32 released;     ///< the host's: not 0 ends waits
};

/// One side of a message, in its GPU memory. Addresses are as this GPU uses them.
struct StreamMessage {
  MessageState state;
  SenderWords* sender = nullptr;
  ReceiverWords* receiver = nullptr;
  unsigned char* to = nullptr;  ///< the receive buffer
  const unsigned char* from = nullptr;
  partita_i64 size_bytes = 0;
  partita_u32 sends = 0;  ///< 0: this side receives
  /// The program has started the receive before each start of the send.
  partita_u32 is_ready = 0;
  partita_u32* fault_on_host = nullptr;  ///< a copy of the state's
};

/// What a step does with messages that were matched once, at both sides: an epoch's start, later its wait. Only waits
/// wait for the peer. A look is a wait that does not: over() tells.
enum class MessageStep : partita_u32 { start, wait, look };

/// A message that is no larger is moved by one block, in the launch that decides: a second launch would cost more.
inline constexpr partita_i64 most_bytes_of_a_block = 32 * 1024;

/// The arguments of Kernel::run_messages. One thread of a message decides whether this side moves it, and its block
/// does so at once, unless the message is too large for that: then a second launch, of one message and many blocks,
/// follows.
struct RunMessages {
  static constexpr Kernel kernel = Kernel::run_messages;
  static constexpr partita_u32 most = 32;
  /// A block that waits keeps no more of the GPU than that: what it waits for needs room, too.
  static constexpr partita_u32 most_deciding_threads = 256;
  StreamMessage* messages[most] = {};
  partita_u32 count = 0;          ///< of blocks, one a message, where the launch decides
  partita_u32 moving_blocks = 0;  ///< not 0: the second launch, of so many blocks
  MessageStep step = MessageStep::start;
  partita_u64 limit_ns = 0;  ///< of a wait; 0: none
};

}  // namespace partita::memory
