// The bodies of Kernel::run_message and Kernel::run_messages (cpu-free-stream-triggered-mpi, section IV, for memory
// that both GPUs map). Who moves a message, and when, is told in partita/device/impl/message.cuh, which kernels of the
// program's use, too.
#pragma once

#include <partita/device/impl/copy.cuh>
#include <partita/device/impl/message.cuh>
#include <partita/device/impl/platform.cuh>

#include "memory/messages.hpp"

namespace partita::memory {

using device::both_want;
using device::Look;
using device::seen;
using device::set;
using device::tell;
using device::WordOfDevice;
using device::WordOfSystem;

/// Whether this side moves the message now.
PARTITA_DEVICE_INLINE bool start_message(MessageState& state, const MessageEnds& ends) {
  const Epoch epoch = next(state.epoch);
  set(state.epoch, epoch);
  if (ends.sends == 0) {
    tell(ends.sender->started, epoch);
    return false;
  }
  if (ends.is_ready != 0 || seen(ends.sender->started) == epoch) {
    set(state.moves, epoch);
    return true;
  }
  tell(ends.receiver->offered, epoch);
  return false;
}

/// An offer that nobody has taken is taken back: nothing is read of the buffer from here on. Where the receiver wants
/// to pull, that is under way, or it yields: both are heard soon. Returns whether it has pulled.
PARTITA_DEVICE_INLINE bool take_back(const MessageEnds& ends, Epoch epoch, bool asked) {
  constexpr partita_u64 soon_ns = 1'000'000'000;
  SenderWords& own = *ends.sender;
  if (!asked && !both_want(ends.receiver->will_push, own.will_pull, epoch)) return false;
  for (const partita_u64 begin = device::now_ns(); device::now_ns() - begin < soon_ns; device::relax()) {
    if (seen(own.pulled) == epoch) return true;
    if (seen(own.yielded) == epoch) return false;
  }
  return false;
}

PARTITA_DEVICE_INLINE void end_with(MessageState& state, const MessageEnds& ends, bool asked, MessageFault fault) {
  if (ends.sends != 0 && take_back(ends, state.epoch, asked)) {
    set(state.over, state.epoch);
    return;
  }
  set(state.fault, static_cast<partita_u32>(fault));
  WordOfSystem(ends.report->fault).store(state.fault, device::order::memory_order_release);
}

/// Whether this side moves the message now.
PARTITA_DEVICE_INLINE bool await_message(MessageState& state, const MessageEnds& ends, bool waits,
                                         partita_u64 limit_ns) {
  constexpr partita_u32 polls_per_look_aside = 64;
  if (state.over == state.epoch || state.moves == state.epoch) return false;
  const Epoch epoch = state.epoch;
  if (!waits) return device::look_once(state, ends, epoch) == Look::moves;
  bool asked = false;
  partita_u64 begin = 0;  // 0: it does not wait yet
  for (partita_u32 polls = 1;; ++polls) {
    const Look found = device::look_at_message(state, ends, epoch, asked);
    if (found != Look::not_yet) return found == Look::moves;
    device::relax();
    if (polls % polls_per_look_aside != 0) continue;
    const partita_u64 now = device::now_ns();
    if (begin == 0) begin = now;
    if (WordOfSystem(state.released).load(device::order::memory_order_relaxed) != 0) {
      end_with(state, ends, asked, MessageFault::released);
      return false;
    }
    if (limit_ns != 0 && now - begin >= limit_ns) {
      end_with(state, ends, asked, MessageFault::too_late);
      return false;
    }
  }
}

/// One thread; whether this side moves the message now.
PARTITA_DEVICE_INLINE bool decide(MessageState& state, const MessageEnds& ends, const MessageWork& work) {
  if (state.fault != 0) return false;
  if (work.step == MessageStep::start) return start_message(state, ends);
  return await_message(state, ends, work.step == MessageStep::wait, work.limit_ns);
}

/// One thread of each of the message's `blocks`. The first one to come decides, and waits for none of the others, so
/// that it does not matter whether the GPU has room for all.
PARTITA_DEVICE_INLINE bool decide_together(MessageState& state, const MessageEnds& ends, const MessageWork& work,
                                           partita_u32 blocks) {
  if (work.stage == MessageStage::move) return state.moves == state.epoch && state.over != state.epoch;
  if (blocks == 1) return decide(state, ends, work) && work.stage == MessageStage::all;
  WordOfDevice verdict(state.verdict);
  if (WordOfDevice(state.blocks_entered).fetch_add(1, device::order::memory_order_relaxed) == 0) {
    const bool moves = decide(state, ends, work);
    verdict.store(static_cast<partita_u32>(moves ? Verdict::moves : Verdict::rests),
                  device::order::memory_order_release);
    return moves;
  }
  for (;; device::relax()) {
    const Verdict found = static_cast<Verdict>(verdict.load(device::order::memory_order_acquire));
    if (found != Verdict::none) return found == Verdict::moves;
  }
}

/// One thread of each of the message's `blocks`, which has `moved` its part. Whether it is the last one of them.
PARTITA_DEVICE_INLINE bool is_last_to_end(MessageState& state, partita_u32 blocks, bool moved) {
  if (blocks == 1) return true;
  if (moved) device::release_fence();  // to the other GPU too: the word that tells of it goes there
  if (WordOfDevice(state.blocks_done).fetch_add(1, device::order::memory_order_acq_rel) != blocks - 1) return false;
  set(state.blocks_entered, 0);  // for the next launch
  set(state.verdict, static_cast<partita_u32>(Verdict::none));
  set(state.blocks_done, 0);
  return true;
}

PARTITA_DEVICE_INLINE void report(const MessageState& state, MessageReport& to, partita_u32 number) {
  WordOfSystem(to.epoch).store(state.epoch, device::order::memory_order_relaxed);
  WordOfSystem(to.over).store(state.over, device::order::memory_order_relaxed);
  WordOfSystem(to.number).store(number, device::order::memory_order_release);
}

/// All threads of the message's `blocks`, of which this is `part`.
PARTITA_DEVICE_INLINE void run_part(StreamMessage& message, const MessageWork& work, partita_u32 part,
                                    partita_u32 blocks) {
  MessageState& state = message.state;
  const MessageEnds ends = message.ends;
  const bool first = device::block_rank() == 0;
  const bool moves = device::block_broadcast(first && decide_together(state, ends, work, blocks) ? 1 : 0) != 0;
  if (moves) {
    const partita_u32 threads = device::block_threads();
    device::copy(ends.to, ends.from, ends.size_bytes, {part * threads + device::block_rank(), blocks * threads});
    device::block_barrier();  // the block's bytes lie before thread 0's eyes
  }
  if (!first || !is_last_to_end(state, blocks, moves)) return;
  if (moves) device::end_move(state, ends);
  if (work.report != 0) report(state, *ends.report, work.report);
}

/// All threads of the grid, of which this is `block`; likewise the next.
PARTITA_DEVICE_INLINE void run_message(const RunMessage& run, partita_u32 block) {
  run_part(*run.message, run.work, block, run.blocks);
}

PARTITA_DEVICE_INLINE void run_messages(const RunMessages& run, partita_u32 block) {
  partita_u32 index = 0;
  partita_u32 part = block;  // of the message
  for (; part >= run.blocks[index]; ++index) part -= run.blocks[index];
  run_part(*run.messages[index], run.work, part, run.blocks[index]);
}

}  // namespace partita::memory
