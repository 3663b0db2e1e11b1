// The body of Kernel::run_messages (cpu-free-stream-triggered-mpi, section IV, for memory that both GPUs map).
//
// A send that finds the receiver's start pushes. One that does not offers its buffer, and whichever side's wait comes
// first moves it: the receiver's by pulling, the sender's, which then has seen the start, by pushing. So no start
// waits, and waits that come in another order on the two sides still end.
//
// Who of the two moves it is settled as by Dekker: each says what it wants and then looks at what the other wants, both
// in one order of all, so that of two that want at a time one at least finds the other. The receiver yields where it
// does. The sender then waits to hear which it was: that the receiver has yielded, or pulled, which is under way then.
// No atomic exchange goes to a peer's memory, which not every bus between GPUs has.
#pragma once

#include <partita/device/impl/copy.cuh>
#include <partita/device/impl/platform.cuh>
#include "memory/messages.hpp"

namespace partita::memory {

using WordOfSystem = device::SystemWord<partita_u32>;
using WordOfDevice = device::DeviceWord<partita_u32>;

/// The host may look at the state meanwhile.
PARTITA_DEVICE_INLINE void set(partita_u32& word, partita_u32 value) {
  WordOfDevice(word).store(value, device::order::memory_order_relaxed);
}

PARTITA_DEVICE_INLINE Epoch seen(Epoch& word) {
  return WordOfSystem(word).load(device::order::memory_order_acquire);
}
/// Tells the peer, behind all that this thread's stream has done, and its block before a barrier.
PARTITA_DEVICE_INLINE void tell(Epoch& word, Epoch epoch) {
  WordOfSystem(word).store(epoch, device::order::memory_order_release);
}
/// Says in the peer's memory what this side wants; whether the peer, in this one's, wants the same.
PARTITA_DEVICE_INLINE bool both_want(Epoch& mine, Epoch& theirs, Epoch epoch) {
  WordOfSystem(mine).store(epoch, device::order::memory_order_seq_cst);
  return WordOfSystem(theirs).load(device::order::memory_order_seq_cst) == epoch;
}

PARTITA_DEVICE_INLINE void start_message(StreamMessage& message) {
  MessageState& state = message.state;
  const Epoch epoch = next(state.epoch);
  set(state.epoch, epoch);
  if (message.sends == 0) {
    tell(message.sender->started, epoch);
  } else if (message.is_ready != 0 || seen(message.sender->started) == epoch) {
    set(state.moves, epoch);
  } else {
    tell(message.receiver->offered, epoch);
  }
}

/// Where an epoch that is open stands for one side.
enum class Look : partita_u32 { not_yet, over, moves };

/// `asked`: whether this side has said what it wants, in a look before.
PARTITA_DEVICE_INLINE Look look_at_receive(StreamMessage& message, Epoch epoch, bool& asked) {
  ReceiverWords& own = *message.receiver;
  if (seen(own.pushed) == epoch) return Look::over;
  if (asked || seen(own.offered) != epoch) return Look::not_yet;
  asked = true;
  if (!both_want(message.sender->will_pull, own.will_push, epoch)) return Look::moves;
  tell(message.sender->yielded, epoch);
  return Look::not_yet;
}
PARTITA_DEVICE_INLINE Look look_at_send(StreamMessage& message, Epoch epoch, bool& asked) {
  SenderWords& own = *message.sender;
  if (seen(own.pulled) == epoch) return Look::over;
  if (seen(own.started) != epoch) return Look::not_yet;
  if (!asked && !both_want(message.receiver->will_push, own.will_pull, epoch)) return Look::moves;
  asked = true;
  return seen(own.yielded) == epoch ? Look::moves : Look::not_yet;
}

/// An offer that nobody has taken is taken back: nothing is read of the buffer from here on. Where the receiver wants
/// to pull, that is under way, or it yields: both are heard soon. Returns whether it has pulled.
PARTITA_DEVICE_INLINE bool take_back(StreamMessage& message, Epoch epoch, bool asked) {
  constexpr partita_u64 soon_ns = 1'000'000'000;
  SenderWords& own = *message.sender;
  if (!asked && !both_want(message.receiver->will_push, own.will_pull, epoch)) return false;
  for (const partita_u64 begin = device::now_ns(); device::now_ns() - begin < soon_ns; device::relax()) {
    if (seen(own.pulled) == epoch) return true;
    if (seen(own.yielded) == epoch) return false;
  }
  return false;
}

PARTITA_DEVICE_INLINE void end_with(StreamMessage& message, bool asked, MessageFault fault) {
  if (message.sends != 0 && take_back(message, message.state.epoch, asked)) {
    set(message.state.over, message.state.epoch);
    return;
  }
  set(message.state.fault, static_cast<partita_u32>(fault));
  WordOfSystem(*message.fault_on_host).store(message.state.fault, device::order::memory_order_release);
}

PARTITA_DEVICE_INLINE void await_message(StreamMessage& message, bool waits, partita_u64 limit_ns) {
  constexpr partita_u32 polls_per_look_aside = 64;
  MessageState& state = message.state;
  if (state.over == state.epoch || state.moves == state.epoch) return;
  bool asked = false;
  const partita_u64 begin = device::now_ns();
  for (partita_u32 polls = 1;; ++polls) {
    const Look found =
        message.sends != 0 ? look_at_send(message, state.epoch, asked) : look_at_receive(message, state.epoch, asked);
    if (found == Look::over) set(state.over, state.epoch);
    if (found == Look::moves) set(state.moves, state.epoch);
    if (found != Look::not_yet || !waits) return;
    device::relax();
    if (polls % polls_per_look_aside != 0) continue;
    if (WordOfSystem(state.released).load(device::order::memory_order_relaxed) != 0) {
      return end_with(message, asked, MessageFault::released);
    }
    if (limit_ns != 0 && device::now_ns() - begin >= limit_ns) {
      return end_with(message, asked, MessageFault::too_late);
    }
  }
}

/// One thread.
PARTITA_DEVICE_INLINE void decide(StreamMessage& message, const RunMessages& run) {
  if (message.state.fault != 0) return;
  if (run.step == MessageStep::start) return start_message(message);
  await_message(message, run.step == MessageStep::wait, run.limit_ns);
}

/// Words that are compared for equality would be taken for those of the same number, when epochs have gone round: what
/// this side's move leaves old is cleared now and then. Nobody else stores those words in this epoch any more, or to
/// any harm.
PARTITA_DEVICE_INLINE void forget_old(StreamMessage& message, Epoch epoch) {
  constexpr Epoch epochs_between = 1u << 24;
  if (epoch % epochs_between != 0) return;
  if (message.sends == 0) return tell(message.receiver->pushed, no_epoch);
  tell(message.receiver->offered, no_epoch);
  tell(message.sender->pulled, no_epoch);
  tell(message.sender->will_pull, no_epoch);
  tell(message.sender->yielded, no_epoch);
}

/// All threads of the message's blocks, of which this is `block`.
PARTITA_DEVICE_INLINE void move(StreamMessage& message, partita_u32 block, partita_u32 blocks) {
  MessageState& state = message.state;
  const Epoch epoch = state.epoch;
  if (state.moves != epoch || state.over == epoch) return;
  const partita_u32 threads = device::block_threads();
  device::copy(message.to, message.from, message.size_bytes,
               {block * threads + device::block_rank(), blocks * threads});
  device::block_barrier();  // the block's bytes lie before thread 0's eyes
  if (device::block_rank() != 0) return;
  if (blocks > 1) {
    device::release_fence();  // to the other GPU too: the word below goes there
    WordOfDevice done(state.blocks_done);
    if (done.fetch_add(1, device::order::memory_order_acq_rel) != blocks - 1) return;
    done.store(0, device::order::memory_order_relaxed);  // for the next step
  }
  set(state.over, epoch);
  forget_old(message, epoch);
  tell(message.sends != 0 ? message.receiver->pushed : message.sender->pulled, epoch);
}

/// All threads of the grid, of which this is `block`.
PARTITA_DEVICE_INLINE void run_messages(const RunMessages& run, partita_u32 block) {
  if (run.moving_blocks != 0) return move(*run.messages[0], block, run.moving_blocks);
  StreamMessage& message = *run.messages[block];
  if (device::block_rank() == 0) decide(message, run);
  device::block_barrier();
  if (message.size_bytes <= most_bytes_of_a_block) move(message, 0, 1);
}

}  // namespace partita::memory
