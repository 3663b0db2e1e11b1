// A send's mark: counted, checked, and settled by the last one of its transport partition. docs/design/device.md, "From
// Pready to Parrived", has the steps.
#pragma once

#include <partita/device/impl/copy.cuh>
#include <partita/device/impl/failure.cuh>
#include <partita/device/impl/packets.cuh>
#include <partita/device/impl/plan.hpp>
#include <partita/device/impl/platform.cuh>
#include <partita/device/impl/words.hpp>

namespace partita::device {

PARTITA_DEVICE_INLINE Plan plan_of(const Partita_Prequest& request) {
  return Plan(request.send_partitions, request.recv_partitions, request.transport_partitions, request.total_bytes);
}
PARTITA_DEVICE_INLINE bool has(const Partita_Prequest& request, partita_u32 flag) {
  return (request.flags & flag) != 0;
}

/// The transport partition `t` of a send partition, and the send partitions that travel in it.
struct Run {
  partita_i32 partition;  ///< the one of which it is told
  partita_i32 t;
  Range sends;

  PARTITA_DEVICE_INLINE partita_u32 marks() const { return static_cast<partita_u32>(sends.size()); }
};

/// The transport partition of `partition`, where each takes as many marks. It makes no call, which would cost
/// registers.
PARTITA_DEVICE_INLINE partita_i32 even_transport_of(partita_i32 partition, const Partita_Prequest& request) {
  const partita_u32 each = request.marks_each;
  partita_u32 t = static_cast<partita_u32>(partition);
  if (each != 1) t = request.transport_partitions == 1 ? 0 : t / each;
  return static_cast<partita_i32>(t);
}

/// Divisions are slow on a GPU: one at most, but where transport partitions differ in length.
PARTITA_DEVICE_INLINE Run run_of(partita_i32 partition, const Partita_Prequest& request) {
  const partita_u32 each = request.marks_each;
  if (each == 0) {
    const Plan plan = plan_of(request);
    const partita_i32 t = plan.transport_of_send(partition);
    return {partition, t, plan.send_run(t)};
  }
  const partita_i32 t = even_transport_of(partition, request);
  const partita_i64 begin = partita_i64{each} * t;
  return {partition, t, {begin, begin + each}};
}

/// One mark: whether it counts, in which epoch, and who moves its bytes.
struct Mark {
  int code;  ///< not 0: it does not count, and is to be refused
  Epoch epoch;
  bool noted;          ///< `head` said that this epoch was looked at and may be written
  bool deferred;       ///< the progress engine moves the bytes
  partita_u32 before;  ///< marks of the partition before this one; not waited for until it is looked at
  partita_u32 due;     ///< as many as there should be: one in each epoch before
};

/// Whether a request was made and has this side: PARTITA_PREQUEST_SEND or _RECV.
PARTITA_DEVICE_INLINE bool is_made_with(const Partita_Prequest& request, partita_u32 side) {
  return (request.flags & (PARTITA_PREQUEST_ORIGIN | side)) == (PARTITA_PREQUEST_MADE | side);
}

/// Why a call for a partition of a receive (`of_recv`) or of a send cannot be made at all; 0 if it can.
PARTITA_DEVICE_INLINE int refusal_of(int partition, const Partita_Prequest& request, bool of_recv) {
  if (!is_made_with(request, of_recv ? PARTITA_PREQUEST_RECV : PARTITA_PREQUEST_SEND)) return PARTITA_DEVICE_ERR_SIDE;
  const partita_i32 partitions = of_recv ? request.recv_partitions : request.send_partitions;
  return static_cast<partita_u32>(partition) < static_cast<partita_u32>(partitions) ? 0 : PARTITA_DEVICE_ERR_PARTITION;
}

/// Where a request stands: words of its state, on their way at once.
struct Standing {
  partita_u64 head;
  partita_u32 round;
  partita_u32 decided;  ///< of a device-driven request
  partita_u32 live;
};

/// Reads a host-driven request. `head_order`: acquire, where the receiver's memory is stored into afterwards; else
/// relaxed.
PARTITA_DEVICE_INLINE Standing read_host_driven(Partita_Prequest_state& state,
                                                order::memory_order head_order = order::memory_order_acquire) {
  Standing standing{};
  standing.round = DeviceWord<partita_u32>(state.round).load(order::memory_order_relaxed);
  standing.live = DeviceWord<partita_u32>(state.live).load(order::memory_order_relaxed);
  // Pairs with the release store in ask_promise, whose thread saw the credit.
  standing.head = DeviceWord<partita_u64>(state.head).load(head_order);
  return standing;
}

/// Reads a device-driven request, whose caller has synchronised with the block whose Pbuf_prepare saw the credit.
PARTITA_DEVICE_INLINE Standing read_device_driven(Partita_Prequest_state& state) {
  Standing standing{};
  standing.head = DeviceWord<partita_u64>(state.head).load(order::memory_order_relaxed);
  standing.round = DeviceWord<partita_u32>(state.round).load(order::memory_order_relaxed);
  standing.decided = DeviceWord<partita_u32>(state.decided).load(order::memory_order_relaxed);
  standing.live = DeviceWord<partita_u32>(state.live).load(order::memory_order_relaxed);
  return standing;
}

PARTITA_DEVICE_INLINE Standing read_standing(const Partita_Prequest& request) {
  const bool device_driven = has(request, PARTITA_PREQUEST_DEVICE_DRIVEN);
  return device_driven ? read_device_driven(*request.state) : read_host_driven(*request.state);
}

/// Whether all of a device-driven request's epochs so far are complete.
PARTITA_DEVICE_INLINE bool is_complete(const Standing& standing, const Partita_Prequest& request) {
  return standing.decided == all_decided(standing.round, request.transport_partitions);
}

/// Whether marks of a device-driven request may store into the receiver's memory.
PARTITA_DEVICE_INLINE bool may_store(const Standing& standing, const Partita_Prequest& request) {
  const bool prepared = high_half(standing.head) == low_half(standing.head);
  return prepared && !is_complete(standing, request) && standing.live == request.life;
}

/// Step 1: counts the mark of a partition that exists. How often it was marked before is not waited for until end_mark.
PARTITA_DEVICE_INLINE partita_u32 add_mark(int partition, const Partita_Prequest& request) {
  return increment(marks(request.state, request.transport_partitions)[partition]);
}

/// What is known of a mark when the request's standing is; `before`: what add_mark gave.
PARTITA_DEVICE_INLINE Mark begin_mark(const Partita_Prequest& request, partita_u32 before, const Standing& standing) {
  const Epoch epoch = low_half(standing.head);
  Mark mark{0, epoch, high_half(standing.head) == epoch, request.remote == nullptr, before, standing.round - 1};
  if (standing.live != request.life) mark.code = code_of_life(standing.live, request);
  return mark;
}

/// The verdict on a mark's count. A mark that does not count may have moved bytes, but settles nothing.
PARTITA_DEVICE_INLINE int code_of_count(const Mark& mark, const Partita_Prequest& request) {
  if (mark.code != 0) return mark.code;
  if (mark.before != mark.due) return PARTITA_DEVICE_ERR_TWICE;
  const bool open = mark.noted || !has(request, PARTITA_PREQUEST_DEVICE_DRIVEN);
  return open ? 0 : PARTITA_DEVICE_ERR_UNPREPARED;
}

/// Step 1 where nothing is gained by waiting for the count later, of a partition that exists.
PARTITA_DEVICE_INLINE Mark count_mark(int partition, const Partita_Prequest& request) {
  const partita_u32 before = add_mark(partition, request);
  Mark mark = begin_mark(request, before, read_standing(request));
  mark.code = code_of_count(mark, request);
  return mark;
}

/// Step 5: `count` more are decided; how many were before. `fenced`: behind a release fence, with nothing but flags
/// after it.
PARTITA_DEVICE_INLINE partita_u32 add_decided(Partita_Prequest_state& state, partita_u32 count, bool fenced) {
  // Pairs with the acquire in await_decided, check_epoch_call, decide or announce_group. The flags need not lie before
  // it: the receiver has seen them when it opens the next epoch.
  DeviceWord<partita_u32> decided(state.decided);
  return fenced ? decided.fetch_add(count, order_between_fences) : decided.fetch_add(count, order_release_before_fence);
}

/// Step 5, first half, by the last decider of a host-driven epoch, before the host hears of its end: everything is as
/// the next epoch needs it.
PARTITA_DEVICE_INLINE void open_next(Partita_Prequest_state& state, Epoch epoch) {
  // Both are read in the next epoch only, which starts after the host has seen `completed`.
  DeviceWord<partita_u64>(state.head).store(pair_of(next(epoch), epoch), order::memory_order_relaxed);
  DeviceWord<partita_u32>(state.round).fetch_add(1, order::memory_order_relaxed);
}

/// Step 5, second half. `fenced`: a release fence lies behind everything that `completed` stands for.
PARTITA_DEVICE_INLINE void tell_host(Partita_Prequest_host& host, Epoch epoch, bool fenced) {
  if (!fenced) release_fence();
  // Pairs with the acquire loads of the host's Wait, Test and Start.
  SystemWord<partita_u32>(host.completed).store(epoch, order_after_fence);
}

// ---- Marks of neighbours that come together -------------------------------------------------------------------------

PARTITA_DEVICE_INLINE bool announces_together(const Partita_Prequest& request) {
  return has(request, PARTITA_PREQUEST_TOGETHER);
}
PARTITA_DEVICE_INLINE partita_u64* group_word(const Partita_Prequest& request, partita_i32 t) {
  return groups(request.state, request.send_partitions, request.transport_partitions) + group_of(t);
}

/// Step 1 of a mark that is known to be of a live request. From here to leave_group it waits for nothing that the
/// program does. Not waited for; the same thread leaves, or one behind a barrier with it.
PARTITA_DEVICE_INLINE void enter_group(partita_i32 partition, const Partita_Prequest& request) {
  const partita_i32 t = even_transport_of(partition, request);
  DeviceWord<partita_u64>(*group_word(request, t)).fetch_add(one_inside, order::memory_order_relaxed);
}

/// Stores `epoch` into those of `words` that `which` names, behind a release fence.
PARTITA_DEVICE_INLINE void raise(partita_u32* words, partita_u32 which, Epoch epoch) {
  const bool aligned = reinterpret_cast<partita_u64>(words) % 16 == 0;
  for (partita_u32 i = 0; which >> i != 0; i += 4) {
    const partita_u32 four = which >> i & 15;
    if (four == 15 && aligned) {
      store_four(words + i, epoch);
    } else {
      for (partita_u32 j = 0; j < 4; ++j) {
        if ((four >> j & 1) != 0) SystemWord<partita_u32>(words[i + j]).store(epoch, order_after_fence);
      }
    }
  }
}

/// Steps 4 and 5 for all of a group that is complete and not announced, by one that has seen nobody inside. Two may
/// have seen that; each announces what it claims. All arguments fit in registers.
PARTITA_DEVICE_OUT_OF_LINE void announce_group(Partita_Prequest_state& state, Partita_Prequest_host& host,
                                               partita_u32* arrival_device, partita_u32* arrival_host,
                                               partita_i32 send_partitions, partita_i32 transport_partitions,
                                               partita_u32 flags, partita_u32 group) {
  DeviceWord<partita_u64> word(groups(&state, send_partitions, transport_partitions)[group]);
  // Pairs with the releases in leave_group, which go on in each other's additions, behind acquire_fence.
  const partita_u64 claimed = word.fetch_and(~(one_inside - 1), order_between_fences);
  const partita_u32 put = put_in_group(claimed);
  const partita_u32 to_engine = handed_over_in_group(claimed);
  if ((put | to_engine) == 0) return;
  acquire_fence();
  // This thread's own mark may be of the epoch before: one that neither completed nor announced anything. What was
  // claimed keeps its epoch open, and whoever completed it had read both words.
  const Epoch epoch = low_half(DeviceWord<partita_u64>(state.head).load(order::memory_order_relaxed));
  const partita_u32 round = DeviceWord<partita_u32>(state.round).load(order::memory_order_relaxed);
  // The host looks once more where it sees this, as announce says; one that moves everything does not look at it.
  if (to_engine != 0) {
    SystemWord<partita_u32>(host.newest_hand_over).store(epoch, order::memory_order_relaxed);
  }
  const partita_u32 first = group * group_size;
  release_fence();
  if (arrival_device != nullptr) raise(arrival_device + first, put, epoch);
  raise(handed_over(&host) + first, to_engine, epoch);
  if (arrival_host != nullptr && put != 0) {
    if (arrival_device != nullptr) release_fence();
    raise(arrival_host + first, put, epoch);
  }
  const partita_u32 count = ones_in(put) + ones_in(to_engine);
  const partita_u32 decided = count + add_decided(state, count, to_engine == 0);
  if ((flags & PARTITA_PREQUEST_DEVICE_DRIVEN) != 0 || decided != all_decided(round, transport_partitions)) return;
  acquire_fence();  // the last one has all announcements behind it
  open_next(state, epoch);
  tell_host(host, epoch, false);
}

/// Step 4 of `count` marks that have entered the group of `t`; `complete`: what they complete of it, as bit_in_group
/// says. `released`: behind a release fence that lies behind all that they have done. The last one out announces: each
/// addition sees how many it leaves inside, and the one that leaves nobody there comes at or after every completion.
PARTITA_DEVICE_INLINE void leave_group(const Partita_Prequest& request, partita_i32 t, partita_u32 count,
                                       partita_u64 complete, bool released) {
  t = worked_out_later(t);
  const partita_u64 mine = complete - count * one_inside;
  DeviceWord<partita_u64> word(*group_word(request, t));
  const partita_u64 now =
      mine + (released ? word.fetch_add(mine, order_between_fences) : word.fetch_add(mine, order_release_before_fence));
  if (now == 0 || now >= one_inside) return;
  announce_group(*request.state, *request.host, request.arrival_device, request.arrival_host, request.send_partitions,
                 request.transport_partitions, request.flags, group_of(t));
}

// ---- Marks that do not count ----------------------------------------------------------------------------------------

/// The end of a mark that does not count: taken back, so that kernels can still complete the epoch, and recorded.
/// `word`: of the marks; null: the mark was not counted.
PARTITA_DEVICE_OUT_OF_LINE void take_back(partita_u32* word, Partita_Prequest_state& state, Partita_Prequest_host& host,
                                          partita_u32 life, int code, int partition, Epoch epoch) {
  if (word != nullptr) DeviceWord<partita_u32>(*word).fetch_sub(1, order::memory_order_relaxed);
  record_failure(state, host, life, code, partition, epoch);
}
PARTITA_DEVICE_INLINE int refuse_mark(int partition, const Partita_Prequest& request, int code, Epoch epoch) {
  const bool counted = refusal_of(partition, request, false) == 0;
  partita_u32* const word = counted ? marks(request.state, request.transport_partitions) + partition : nullptr;
  take_back(word, *request.state, *request.host, request.life, code, partition, epoch);
  return code;
}

/// Whether kernels give all to the progress engine, ready or not: then a mark looks at the host's word behind step 4.
PARTITA_DEVICE_INLINE bool hands_over(const Partita_Prequest& request) {
  return request.remote == nullptr;
}

/// Whether step 2 is needed.
PARTITA_DEVICE_INLINE bool must_ask(const Mark& mark, const Partita_Prequest& request) {
  return mark.code == 0 && !mark.noted && !hands_over(request);
}

/// What the host's word says about an epoch of a host-driven send.
enum class Promise : partita_u32 { not_started, not_ready, ready };

/// The newest epoch that the host has started. No data hangs on it. `promise` as in Partita_Prequest.
PARTITA_DEVICE_INLINE Epoch read_started(const partita_u64* promise) {
  auto* const halves = reinterpret_cast<partita_u32*>(const_cast<partita_u64*>(promise));
  return SystemWord<partita_u32>(halves[1]).load(order::memory_order_relaxed);
}

/// The host's word is written by halves, so read by halves, both on their way at once.
PARTITA_DEVICE_INLINE Promise read_promise(const partita_u64* promise, Epoch epoch) {
  const Epoch started = read_started(promise);
  auto* const halves = reinterpret_cast<partita_u32*>(const_cast<partita_u64*>(promise));
  // Pairs with the release store with which the receiver opened the epoch, after it had done with what it received
  // before.
  const Epoch credit = SystemWord<partita_u32>(halves[0]).load(order::memory_order_acquire);
  if (started != epoch) return Promise::not_started;
  return reached(credit, epoch) ? Promise::ready : Promise::not_ready;
}

/// Step 2 where kernels store into the receiver's memory, and `head` does not know yet. One of all threads that ask at
/// the same time reads the host's word and the others take its answer: such reads go to the host one by one, a
/// microsecond each.
PARTITA_DEVICE_OUT_OF_LINE Promise ask_promise(Partita_Prequest_state& state, const partita_u64* host_word,
                                               Epoch epoch) {
  DeviceWord<partita_u32> looking(state.looking);
  DeviceWord<partita_u32> refusals(state.refusals);
  DeviceWord<partita_u64> head(state.head);
  const partita_u32 before = refusals.load(order::memory_order_relaxed);
  for (bool again = false;; again = true) {
    partita_u32 nobody = no_epoch;
    const bool worth_it = !again || looking.load(order::memory_order_relaxed) == nobody;
    if (worth_it &&
        looking.compare_exchange_strong(nobody, epoch, order::memory_order_acquire, order::memory_order_relaxed)) {
      // On its way with the host's word. One that does not mark (MPIX_Pbuffer) may come when the epoch is over: then
      // `head` stays as it is.
      partita_u64 known = head.load(order::memory_order_relaxed);
      const Promise promise = read_promise(host_word, epoch);
      if (promise == Promise::ready) {
        // Pairs with the acquire loads in read_host_driven and below.
        if (low_half(known) == epoch) {
          head.compare_exchange_strong(known, pair_of(epoch, epoch), order::memory_order_release,
                                       order::memory_order_relaxed);
        }
      } else {
        const partita_u32 count = (refusals.load(order::memory_order_relaxed) & ~1u) + 2;
        refusals.store(count | (promise == Promise::not_started ? 1u : 0u), order::memory_order_relaxed);
      }
      // Pairs with the exchange of the next one to look. One that sees this before `head` looks once more, no harm
      // done.
      looking.store(no_epoch, promise == Promise::ready ? order::memory_order_relaxed : order::memory_order_release);
      return promise;
    }
    if (high_half(head.load(order::memory_order_acquire)) == epoch) return Promise::ready;
    const partita_u32 now = refusals.load(order::memory_order_relaxed);
    if (now != before) return (now & 1u) != 0 ? Promise::not_started : Promise::not_ready;
    relax();
  }
}
PARTITA_DEVICE_INLINE Promise look_at_promise(const Partita_Prequest& request, Epoch epoch) {
  return ask_promise(*request.state, request.promise, epoch);
}

/// Step 2 of one mark, with what look_at_promise said.
PARTITA_DEVICE_INLINE Mark judge(Mark mark, Promise promise, const Partita_Prequest& request) {
  if (promise == Promise::not_started) {
    mark.code = PARTITA_DEVICE_ERR_INACTIVE;
  } else if (promise == Promise::not_ready && has(request, PARTITA_PREQUEST_IN_PLACE)) {
    mark.code = PARTITA_DEVICE_ERR_UNPREPARED;
  }
  mark.deferred = promise == Promise::not_ready;
  return mark;
}

/// Steps 1 and 2 for one thread.
PARTITA_DEVICE_INLINE Mark make_mark(int partition, const Partita_Prequest& request) {
  if (const int code = refusal_of(partition, request, false)) {
    refuse(request, code, partition);
    return {code, no_epoch, false, false, 0, 0};
  }
  Mark mark = count_mark(partition, request);
  if (must_ask(mark, request)) mark = judge(mark, look_at_promise(request, mark.epoch), request);
  if (mark.code != 0) {
    refuse_mark(partition, request, mark.code, mark.epoch);
  } else if (announces_together(request)) {
    enter_group(partition, request);
  }
  return mark;
}

/// Where the packets of the bytes from `offset_bytes` on go.
PARTITA_DEVICE_INLINE unsigned char* packet_slots(const Partita_Prequest& request, partita_i64 offset_bytes) {
  return request.remote + packet_bytes / packet_data_bytes * offset_bytes;
}

/// Step 3 for `size_bytes` of the buffer from `offset_bytes` on. No barrier at either end.
PARTITA_DEVICE_INLINE void move(const Partita_Prequest& request, partita_i64 offset_bytes, partita_i64 size_bytes,
                                Epoch epoch, Team team) {
  const unsigned char* const from = request.buffer + offset_bytes;
  if (has(request, PARTITA_PREQUEST_PACKETS)) {
    send_packets(packet_slots(request, offset_bytes), from, 0, packets_of(size_bytes), epoch, team);
  } else {
    copy(request.remote + offset_bytes, from, size_bytes, team);
  }
}

/// Whether the marking threads move the bytes of a mark.
PARTITA_DEVICE_INLINE bool moves_bytes(const Partita_Prequest& request, bool deferred) {
  return !deferred && !has(request, PARTITA_PREQUEST_IN_PLACE);
}

/// Step 4, by the decider of transport partition `t`: announces it, or gives all of it to the progress engine. True if
/// it made a release fence and stored nothing that a host looks for at `completed` after it.
PARTITA_DEVICE_INLINE bool announce(const Partita_Prequest& request, partita_i32 t, Epoch epoch, bool deferred) {
  if (deferred) {
    // The host looks for what follows once it sees this, and once more behind `completed`. Without a remote it always
    // looks.
    if (request.remote != nullptr) {
      SystemWord<partita_u32>(request.host->newest_hand_over).store(epoch, order::memory_order_relaxed);
    }
    // Pairs with the acquire load of the progress engine, which then reads the buffer.
    SystemWord<partita_u32>(handed_over(request.host)[t]).store(epoch, order::memory_order_release);
    return false;
  }
  if (has(request, PARTITA_PREQUEST_PACKETS)) return false;  // the bytes speak for themselves
  release_fence();
  // Pair with the acquire loads of the receiver's kernels (parrived, pwait) and host.
  if (request.arrival_device != nullptr) {
    SystemWord<partita_u32>(request.arrival_device[t]).store(epoch, order_after_fence);
  }
  if (request.arrival_host != nullptr) {
    // What the receiver's host has seen, a kernel after it sees, and a flag of the next epoch comes behind.
    if (request.arrival_device != nullptr) release_fence();
    SystemWord<partita_u32>(request.arrival_host[t]).store(epoch, order_after_fence);
  }
  return true;
}

/// Step 2 where kernels hand over, behind step 4, which is the sooner for it. One of the threads that come at the same
/// time looks. Too late to refuse the mark: what is wrong is recorded.
PARTITA_DEVICE_OUT_OF_LINE void check_started(Partita_Prequest_state& state, Partita_Prequest_host& host,
                                              const partita_u64* promise, partita_u32 life, int partition,
                                              Epoch epoch) {
  DeviceWord<partita_u32> looking(state.looking);
  partita_u32 nobody = no_epoch;
  const bool alone =
      looking.compare_exchange_strong(nobody, epoch, order::memory_order_relaxed, order::memory_order_relaxed);
  // One that still looks for an epoch that is over says nothing of this one.
  if (!alone && nobody == epoch) return;
  if (!reached(read_started(promise), epoch)) {
    record_failure(state, host, life, PARTITA_DEVICE_ERR_INACTIVE, partition, epoch);
  } else {
    // So that no other mark of the epoch looks. The epoch may be over by now: then `head` stays as it is.
    DeviceWord<partita_u64> head(state.head);
    partita_u64 known = head.load(order::memory_order_relaxed);
    if (low_half(known) == epoch) {
      head.compare_exchange_strong(known, pair_of(epoch, epoch), order::memory_order_relaxed,
                                   order::memory_order_relaxed);
    }
  }
  if (alone) looking.store(no_epoch, order::memory_order_relaxed);
}
PARTITA_DEVICE_INLINE void check_if_handing_over(const Partita_Prequest& request, const Run& run, const Mark& mark) {
  if (!hands_over(request) || mark.noted) return;
  check_started(*request.state, *request.host, request.promise, request.life, run.partition, mark.epoch);
}

/// Step 4: adds `count` marks, `*deferred` of them deferred, to transport partition `t`, which takes `wanted` marks.
/// Whether they are its last; then `*deferred` comes to count those of the others. `released`: behind a release fence.
PARTITA_DEVICE_INLINE bool count_in(Partita_Prequest_state* state, partita_i32 t, partita_u32 wanted, partita_u32 count,
                                    partita_u32* deferred, bool released) {
  if (count == wanted) return true;
  DeviceWord<partita_u64> counter(counters(state)[t]);
  const partita_u64 mine = pair_of(count, *deferred);
  const partita_u64 sum = mine + (released ? counter.fetch_add(mine, order_between_fences)
                                           : counter.fetch_add(mine, order_release_before_fence));
  if (low_half(sum) != wanted) return false;
  *deferred = high_half(sum);
  counter.store(0, order::memory_order_relaxed);  // read next in the next epoch
  acquire_fence();                                // the last one to arrive has everybody's bytes behind it
  return true;
}

/// Steps 4 and 5 for the last mark of the transport partition of `run`, which is like `mark`.
PARTITA_DEVICE_INLINE void decide(const Partita_Prequest& request, const Run& run, bool deferred, const Mark& mark) {
  const Epoch epoch = mark.epoch;
  if (has(request, PARTITA_PREQUEST_DEVICE_DRIVEN)) {
    const bool fenced = announce(request, run.t, epoch, deferred);
    add_decided(*request.state, 1, fenced);
    return;
  }
  const bool only_one = request.transport_partitions == 1;
  // Ahead of the fence in announce, which then serves `completed` too. A host that copies hears the sooner for less in
  // front of it, and looks for `completed` later.
  const bool opens_first = only_one && !deferred;
  if (opens_first) open_next(*request.state, epoch);
  const bool fenced = announce(request, run.t, epoch, deferred);
  check_if_handing_over(request, run, mark);
  if (!only_one) {
    const partita_u32 round = mark.due + 1;
    if (add_decided(*request.state, 1, fenced) + 1 != all_decided(round, request.transport_partitions)) return;
    acquire_fence();  // the last one has all announcements behind it
  }
  if (!opens_first) open_next(*request.state, epoch);
  tell_host(*request.host, epoch, opens_first && fenced);
}

/// Step 4 where marks are announced together: adds `count` marks, `deferred` of them deferred, to the transport
/// partition of `run`. What they complete of its group.
PARTITA_DEVICE_INLINE partita_u64 completed_by(const Partita_Prequest& request, const Run& run, partita_u32 count,
                                               partita_u32 deferred, bool released) {
  if (!count_in(request.state, run.t, run.marks(), count, &deferred, released)) return 0;
  return bit_in_group(worked_out_later(run.t), deferred != 0);
}

/// Steps 4 and 5: adds `count` marks like `mark`, `deferred` of them deferred, to the transport partition of `run`.
/// Called by one thread, after a barrier with those that moved the bytes. `released`: it has made a release fence
/// since. `refused`: they do not count, and only leave their group.
PARTITA_DEVICE_INLINE void settle(const Partita_Prequest& request, const Run& run, partita_u32 count,
                                  partita_u32 deferred, const Mark& mark, bool released = false, bool refused = false) {
  if (announces_together(request)) {
    const partita_u64 complete = refused ? 0 : completed_by(request, run, count, deferred, released);
    const bool others_counted = count != run.marks();  // what they have released was acquired after that fence
    leave_group(request, run.t, count, complete, released && !others_counted);
    if (!refused) check_if_handing_over(request, run, mark);
  } else if (count_in(request.state, run.t, run.marks(), count, &deferred, released)) {
    decide(request, run, deferred != 0, mark);
  } else {
    check_if_handing_over(request, run, mark);
  }
}

/// Settles one mark, which is that of `partition`.
PARTITA_DEVICE_INLINE void settle_one(const Partita_Prequest& request, int partition, const Mark& mark) {
  settle(request, run_of(partition, request), 1, mark.deferred ? 1 : 0, mark);
}

}  // namespace partita::device
