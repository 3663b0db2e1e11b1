// What kernels find of a message between two GPU memories, and do to it: those of the library, which are a stream's
// starts and waits, and those of the program, which ask for its end.
//
// A send that finds the receiver's start pushes. One that does not offers its buffer, and whichever side looks first
// for the end moves it: the receiver by pulling, the sender, which then has seen the start, by pushing. So no start
// waits, and waits that come in another order on the two sides still end.
//
// Who of the two moves it is settled as by Dekker: each says what it wants and then looks at what the other wants, both
// in one order of all, so that of two that want at a time one at least finds the other. The receiver yields where it
// does. The sender then waits to hear which it was: that the receiver has yielded, or pulls, both of which the same
// thread says right behind its look. A sender that only looks waits for that, too: a receiver that has yielded never
// pulls, and would wait for the sender's next look. It does not wait for the end of the pull, which may need room on a
// GPU that the sender's kernel fills. No atomic exchange goes to a peer's memory, which not every bus between GPUs has.
#pragma once

#include <partita/device/completion.h>
#include <partita/device/impl/copy.cuh>
#include <partita/device/impl/message.hpp>
#include <partita/device/impl/platform.cuh>

namespace partita::device {

using WordOfSystem = SystemWord<partita_u32>;
using WordOfDevice = DeviceWord<partita_u32>;

/// Others may look at the state meanwhile.
PARTITA_DEVICE_INLINE void set(partita_u32& word, partita_u32 value) {
  WordOfDevice(word).store(value, order::memory_order_relaxed);
}

PARTITA_DEVICE_INLINE Epoch seen(Epoch& word) {
  return WordOfSystem(word).load(order::memory_order_acquire);
}
/// Tells the peer, behind all that this thread's stream has done, and its block before a barrier.
PARTITA_DEVICE_INLINE void tell(Epoch& word, Epoch epoch) {
  WordOfSystem(word).store(epoch, order::memory_order_release);
}
/// Says in the peer's memory what this side wants; whether the peer, in this one's, wants the same.
PARTITA_DEVICE_INLINE bool both_want(Epoch& mine, Epoch& theirs, Epoch epoch) {
  WordOfSystem(mine).store(epoch, order::memory_order_seq_cst);
  return WordOfSystem(theirs).load(order::memory_order_seq_cst) == epoch;
}

/// Where an epoch that is open stands for one side.
enum class Look : partita_u32 { not_yet, over, moves };

/// `asked`: whether this side has said what it wants, in a look before.
PARTITA_DEVICE_INLINE Look look_at_receive(const MessageEnds& ends, Epoch epoch, bool& asked) {
  ReceiverWords& own = *ends.receiver;
  if (seen(own.pushed) == epoch) return Look::over;
  if (asked || seen(own.offered) != epoch) return Look::not_yet;
  asked = true;
  const bool yields = both_want(ends.sender->will_pull, own.will_push, epoch);
  tell(yields ? ends.sender->yielded : ends.sender->pulls, epoch);
  return yields ? Look::not_yet : Look::moves;
}
PARTITA_DEVICE_INLINE Look look_at_send(const MessageEnds& ends, Epoch epoch, bool& asked) {
  SenderWords& own = *ends.sender;
  if (seen(own.pulled) == epoch) return Look::over;
  if (seen(own.started) != epoch) return Look::not_yet;
  if (!asked && !both_want(ends.receiver->will_push, own.will_pull, epoch)) return Look::moves;
  asked = true;
  return seen(own.yielded) == epoch ? Look::moves : Look::not_yet;
}
/// Where `moves` comes back, this side moves the message now, and ends that by end_move.
PARTITA_DEVICE_INLINE Look look_at_message(MessageState& state, const MessageEnds& ends, Epoch epoch, bool& asked) {
  const Look found = ends.sends != 0 ? look_at_send(ends, epoch, asked) : look_at_receive(ends, epoch, asked);
  if (found == Look::over) set(state.over, epoch);
  if (found == Look::moves) set(state.moves, epoch);
  return found;
}
/// A look of a side that may not come back for long. A sender that both sides' wishes have met leaves when it has the
/// receiver's answer, which is soon there, or when nobody is to wait any longer.
PARTITA_DEVICE_INLINE Look look_once(MessageState& state, const MessageEnds& ends, Epoch epoch) {
  bool asked = false;
  for (;; relax()) {
    const Look found = look_at_message(state, ends, epoch, asked);
    if (found != Look::not_yet || !asked || ends.sends == 0) return found;
    if (seen(ends.sender->pulls) == epoch) return Look::not_yet;
    if (WordOfSystem(state.released).load(order::memory_order_relaxed) != 0) return Look::not_yet;
  }
}

/// Words that are compared for equality would be taken for those of the same number, when epochs have gone round: what
/// a push leaves old is cleared now and then. Nobody else stores those words in this epoch any more, or to any harm.
PARTITA_DEVICE_INLINE void forget_old(const MessageEnds& ends, Epoch epoch) {
  constexpr Epoch epochs_between = 1u << 24;
  if (epoch % epochs_between != 0 || ends.sends == 0) return;
  tell(ends.receiver->offered, no_epoch);
  tell(ends.sender->will_pull, no_epoch);
  tell(ends.sender->yielded, no_epoch);
  tell(ends.sender->pulls, no_epoch);
}

/// One thread, behind a barrier of those that have moved the message: both sides' words of its end say so.
PARTITA_DEVICE_INLINE void end_move(MessageState& state, const MessageEnds& ends) {
  const Epoch epoch = state.epoch;
  set(state.over, epoch);
  forget_old(ends, epoch);
  // The peer's word pairs with its looks, this side's with those of the program's kernels.
  release_fence();
  WordOfSystem(ends.receiver->pushed).store(epoch, order_after_fence);
  WordOfSystem(ends.sender->pulled).store(epoch, order_after_fence);
}

// ---- Kernels of the program ----------------------------------------------------------------------------------------

/// What calls return on a struct with nothing behind it; to or from nobody all is complete.
PARTITA_DEVICE_INLINE int completed_without_message(partita_u32 origin, int* flag) {
  *flag = origin == PARTITA_PREQUEST_NOBODY ? 1 : 0;
  return *flag != 0 ? PARTITA_DEVICE_SUCCESS : PARTITA_DEVICE_ERR_FREED;
}

/// Why the epoch never ends, or 0.
PARTITA_DEVICE_INLINE int code_of_fault(MessageState& state) {
  const auto fault = static_cast<MessageFault>(WordOfDevice(state.fault).load(order::memory_order_relaxed));
  if (fault == MessageFault::none) return PARTITA_DEVICE_SUCCESS;
  return fault == MessageFault::too_late ? PARTITA_DEVICE_ERR_TIMEOUT : PARTITA_DEVICE_ERR_ABORTED;
}
/// Whether the host lets nobody wait any longer: then the wait behind, in the stream, records the fault.
PARTITA_DEVICE_INLINE int code_of_release(MessageState& state) {
  const bool released = WordOfSystem(state.released).load(order::memory_order_relaxed) != 0;
  return released ? PARTITA_DEVICE_ERR_ABORTED : PARTITA_DEVICE_SUCCESS;
}

/// Any thread.
PARTITA_DEVICE_INLINE int completed(const Partita_Completion& completion, int* flag) {
  if (completion.origin != PARTITA_PREQUEST_MADE) return completed_without_message(completion.origin, flag);
  MessageState& state = static_cast<StreamMessage*>(completion.message)->state;
  *flag = 0;
  if (const int code = code_of_fault(state)) return code;
  const Epoch epoch = WordOfDevice(state.epoch).load(order::memory_order_relaxed);
  *flag = seen(const_cast<Epoch&>(*completion.word)) == epoch ? 1 : 0;
  return *flag != 0 ? PARTITA_DEVICE_SUCCESS : code_of_release(state);
}

/// What thread 0 of a block has found for all: a Look, and from bit 8 on a code.
PARTITA_DEVICE_INLINE partita_u32 look_for_block(StreamMessage& message) {
  MessageState& state = message.state;
  if (const int code = code_of_fault(state)) return static_cast<partita_u32>(code) << 8;
  const Epoch epoch = state.epoch;
  const Look found = state.over == epoch ? Look::over : look_once(state, message.ends, epoch);
  if (found != Look::not_yet) return static_cast<partita_u32>(found);
  return static_cast<partita_u32>(code_of_release(state)) << 8;
}

/// All threads of one block, between the start of the epoch and its wait.
PARTITA_DEVICE_INLINE int completed_block(const Partita_Completion& completion, int* flag) {
  if (completion.origin != PARTITA_PREQUEST_MADE) {
    block_barrier();
    return completed_without_message(completion.origin, flag);
  }
  StreamMessage& message = *static_cast<StreamMessage*>(completion.message);
  const partita_u32 found = block_broadcast(block_rank() == 0 ? look_for_block(message) : 0);
  if (found == static_cast<partita_u32>(Look::moves)) {
    const MessageEnds& ends = message.ends;
    copy(ends.to, ends.from, ends.size_bytes, {block_rank(), block_threads()});
    block_barrier();
    if (block_rank() == 0) end_move(message.state, ends);
  }
  block_barrier();  // before the next broadcast
  *flag = (found & 0xff) != 0 ? 1 : 0;
  return static_cast<int>(found >> 8);
}

}  // namespace partita::device
