// Messages between two GPU memories that streams move by themselves: what both sides keep of them in their GPUs. One
// layout for the library and for kernels. docs/design/queues.md, "Messages without the CPU".
#pragma once

#include <partita/device/prequest.h>
#include <partita/device/impl/epoch.hpp>

namespace partita::device {

/// In the sender's GPU memory. Each holds the newest epoch of which it is true. The receiver's stream stores them, and
/// the sender's own `pulled` where it has pushed: so that word alone says that an epoch is complete.
struct SenderWords {
  Epoch started;    ///< the receive buffer may be written
  Epoch pulled;     ///< the message has been copied: the send buffer may be written again
  Epoch will_pull;  ///< the receiver wants to, unless the sender wants to push
  Epoch yielded;    ///< the sender wants to, and may
  Epoch pulls;      ///< the receiver wanted to, and does
};

/// In the receiver's GPU memory; the sender's stream stores them, and the receiver's own `pushed` where it has pulled.
struct ReceiverWords {
  Epoch pushed;     ///< the message lies in the receive buffer
  Epoch offered;    ///< it may be copied out of the send buffer
  Epoch will_push;  ///< the sender wants to move what it has offered
};

/// How an epoch of a message has ended on one side, or why it never will.
enum class MessageFault : partita_u32 { none, too_late, released };

/// What one side keeps in its GPU memory from step to step. The steps run one after the other, in streams.
struct MessageState {
  Epoch epoch;                 ///< started last
  Epoch moves;                 ///< in which this side moves the message
  Epoch over;                  ///< whose end this side has seen
  partita_u32 blocks_entered;  ///< of the launch; 0 between launches, as ...
  partita_u32 verdict;         ///< ... memory::Verdict, and ...
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

}  // namespace partita::device
