// Collectives whose marks push, between ranks in one process, with no library behind them: CPU threads are kernels.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "memory/collective_bodies.cuh"
#include "support/device_group_contents.hpp"
#include "support/sanitized.hpp"
#include "support/trapping_host.hpp"

namespace partita::test {
namespace {

/// The words and inboxes that the hosts of such ranks would make. The buffers are those of a DeviceGroup.
class PushGroup {
 public:
  PushGroup(const GroupShape& shape, int partitions) : group_(shape) {
    const auto ranks = static_cast<std::size_t>(shape.ranks);
    const auto bytes = static_cast<partita_i64>(shape.block_bytes) / partitions;
    const device::Pieces pieces =
        device::pieces_of(partitions, device::bytes_by_inbox(shape.collective, static_cast<partita_u64>(bytes)));
    const auto inbox = device::inbox_bytes(partitions, device::bytes_by_inbox(shape.collective, shape.block_bytes));
    std::vector<unsigned char*> inboxes;
    for (std::size_t r = 0; r < ranks; ++r) inboxes.push_back(memory_.allocate(Spot::receiver_gpu, inbox * ranks));
    host_credits_ = reinterpret_cast<partita_u32*>(memory_.allocate(Spot::host, sizeof(partita_u32) * ranks));
    std::fill_n(host_credits_, ranks, shape.before);
    const auto root = static_cast<std::size_t>(shape.root);
    for (std::size_t r = 0; is_bcast() && r + 1 < ranks; ++r) {
      *device::credit_in_inbox(inboxes[root] + r * inbox) = shape.before;
    }
    for (std::size_t r = 0; r < ranks; ++r) {
      Partita_Prequest request = group_.request(r);
      auto* const peers =
          reinterpret_cast<Partita_Peer*>(memory_.allocate(Spot::receiver_gpu, sizeof(Partita_Peer) * ranks));
      for (std::size_t to = 0; to < ranks; ++to) {
        const auto own = static_cast<partita_i32>(to);
        const auto from = static_cast<partita_i32>(r);
        if (to == r) continue;
        peers[to].device_words = reinterpret_cast<partita_u32*>(
            inboxes[to] + static_cast<partita_u64>(device::index_of_inbox(own, from)) * inbox);
        if (!is_bcast()) continue;
        if (r == root) peers[to].buffer = group_.received(to);
        peers[to].host_words = host_credits_ + (r == root ? to : r);
      }
      promises_.push_back(reinterpret_cast<partita_u64*>(memory_.allocate(Spot::host, sizeof(partita_u64))));
      request.flags = PARTITA_PREQUEST_MADE | PARTITA_PREQUEST_PUSHED;
      request.algorithm = PARTITA_ALGORITHM_PUSH;
      request.peers = peers;
      request.remote = inboxes[r];
      request.promise = promises_.back();
      request.send_partitions = request.recv_partitions = request.transport_partitions = partitions;
      request.send_partition_bytes = request.recv_partition_bytes = bytes;
      request.rounds = pieces.count;
      request.share_units = pieces.units;
      request.state = reinterpret_cast<Partita_Prequest_state*>(
          memory_.allocate(Spot::receiver_gpu, device::pushed_state_bytes(partitions, pieces.count)));
      request.host =
          reinterpret_cast<Partita_Prequest_host*>(memory_.allocate(Spot::host, device::pushed_host_bytes(partitions)));
      *request.state = device::first_state(request.flags, shape.before, request.life);
      request.state->decided = 1;
      begin_host(*request.host, partitions, shape.before);
      std::memcpy(device::copy_of_request(request.state), &request, sizeof request);
      partita_u32* const words = device::push_words_of(request.state, device::push_marked, partitions);
      partita_u32* const claims = device::push_claims(request.state, partitions);
      std::fill(words, claims + pieces.count * static_cast<partita_u32>(partitions), shape.before);
      std::fill_n(device::push_words_of(request.state, device::push_pieces, partitions), partitions, 0U);
      requests_.push_back(request);
    }
  }

  const GroupShape& shape() const { return group_.shape(); }
  const DeviceGroup& buffers() const { return group_; }
  const Partita_Prequest& request(std::size_t rank) const { return requests_[rank]; }
  int partitions() const { return requests_[0].send_partitions; }
  Epoch completed(std::size_t rank) const { return load_word(&requests_[rank].state->completed); }
  bool may_mark(std::size_t rank) const { return device::may_mark(requests_[rank]); }
  /// As the host starts an epoch.
  void start(std::size_t rank, Epoch epoch) const {
    std::atomic_ref(*promises_[rank]).store(std::uint64_t{epoch} << 32 | epoch, std::memory_order_release);
    if (!may_mark(rank)) std::atomic_ref(host_credits_[rank]).store(epoch, std::memory_order_release);
  }
  /// All partitions, by one block, if this rank has any to mark.
  void mark(std::size_t rank, unsigned threads) const {
    if (!may_mark(rank)) return;
    CpuKernel kernel({1, threads}, [&](unsigned) {
      EXPECT_EQ(MPIX_Pbuf_prepare(requests_[rank]), PARTITA_DEVICE_SUCCESS);
      for (int p = partitions() - 1; p >= 0; --p) {
        EXPECT_EQ(MPIX_Pready_block(p, requests_[rank]), PARTITA_DEVICE_SUCCESS);
      }
    });
  }
  memory::ReducePushed launch(std::size_t rank, Epoch before) const { return {requests_[rank], before}; }
  /// The words of the rank's host lie there from now on.
  void move_host(std::size_t rank, Partita_Prequest_host& host) {
    begin_host(host, partitions(), shape().before);
    requests_[rank].host = device::copy_of_request(requests_[rank].state)->host = &host;
  }
  /// As above, the word in which its host names the epoch that it has started.
  void move_promise(std::size_t rank, partita_u64& promise) {
    promise = *promises_[rank];
    promises_[rank] = &promise;
    requests_[rank].promise = device::copy_of_request(requests_[rank].state)->promise = &promise;
  }

  /// As above, the word in the root's host memory that is for that rank's credit.
  void move_credit(std::size_t rank, partita_u32& word) {
    const auto root = static_cast<std::size_t>(shape().root);
    word = host_credits_[rank];
    const_cast<Partita_Peer&>(requests_[rank].peers[root]).host_words = &word;
    const_cast<Partita_Peer&>(requests_[root].peers[rank]).host_words = &word;
  }
  /// The word in the root's GPU.
  partita_u32* credit_on_gpu(std::size_t rank) const {
    const auto root = static_cast<std::size_t>(shape().root);
    return device::credit_in_inbox(device::inbox_of(requests_[root], static_cast<partita_i32>(rank)));
  }

 private:
  bool is_bcast() const { return shape().collective == PARTITA_COLLECTIVE_BCAST; }
  static void begin_host(Partita_Prequest_host& host, int partitions, Epoch before) {
    host = {};
    host.completed = host.newest_marked = before;
    std::fill_n(device::told_marked(&host), 2 * partitions, before);
  }

  const DeviceGroup group_;
  HostPairMemory memory_;
  partita_u32* host_credits_ = nullptr;  ///< in the memory of a bcast's root, of each rank
  std::vector<partita_u64*> promises_;
  std::vector<Partita_Prequest> requests_;
};

/// One block after another, as on a GPU with room for one.
void launch_block_by_block(const memory::ReducePushed& arguments, const GridShape& grid) {
  for (partita_u32 b = 0; b < grid.blocks; ++b) {
    device::CpuBlock block(grid.threads);
    std::vector<std::thread> threads;
    for (partita_u32 t = 0; t < grid.threads; ++t) {
      threads.emplace_back([&, t] {
        const device::CpuBlockThread self(block, t, {b, grid.blocks});
        memory::reduce_pushed(arguments);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

/// All ranks do so many epochs, each by itself: `reduce(group, rank, before)` behind its marks.
template <class Reduce>
void run(const GroupShape& shape, int partitions, int epochs, const Reduce& reduce) {
  SCOPED_TRACE(std::to_string(partitions) + " partitions of " + std::to_string(shape.block_bytes) + " bytes, element " +
               std::to_string(static_cast<int>(shape.element)) + ", " + std::to_string(shape.ranks) + " ranks, " +
               collective_names[shape.collective]);
  const PushGroup group(shape, partitions);
  std::vector<EpochOfGroup> all;
  for (int epoch = 1; epoch <= epochs; ++epoch) all.emplace_back(shape, epoch, group.buffers().sent_bytes());
  std::vector<std::thread> ranks;
  for (std::size_t r = 0; r < static_cast<std::size_t>(shape.ranks); ++r) {
    ranks.emplace_back([&, r] {
      Epoch before = shape.before;
      for (const EpochOfGroup& of : all) {
        std::memcpy(group.buffers().sent(r), of.sent[r].data(), of.sent[r].size());
        group.start(r, next(before));
        group.mark(r, 1 + static_cast<unsigned>(r % 3));
        reduce(group, r, before);
        const unsigned char* const out = group.buffers().received(r);
        EXPECT_TRUE(Bytes(out, out + group.buffers().received_bytes()) == of.received[r]) << "rank " << r;
        before = next(before);
        EXPECT_EQ(group.completed(r), before);
      }
      EXPECT_EQ(load_word(&group.request(r).host->failure), 0U);
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

void reduce_by_launch(const PushGroup& group, std::size_t rank, Epoch before) {
  const std::vector<GridShape> grids = {{1, 1}, {3, 2}, {2, 3}, {7, 1}};
  while (group.completed(rank) == before) launch_block_by_block(group.launch(rank, before), grids[rank % grids.size()]);
}

void reduce_by_wait(const PushGroup& group, std::size_t rank, Epoch) {
  CpuKernel kernel({1 + static_cast<unsigned>(rank) % 3, 2},
                   [&](unsigned) { EXPECT_EQ(MPIX_Pwait(group.request(rank)), PARTITA_DEVICE_SUCCESS); });
}

GroupShape pushed_of(partita_u32 collective, int ranks, std::size_t block_bytes) {
  GroupShape shape = shape_of({collective, PARTITA_ALGORITHM_PACKETS}, ranks, block_bytes);
  shape.root = ranks / 2;
  return shape;
}
GroupShape allreduce_of(int ranks, std::size_t block_bytes) {
  return pushed_of(PARTITA_COLLECTIVE_ALLREDUCE, ranks, block_bytes);
}

const auto by_inbox = testing::Values(PARTITA_COLLECTIVE_ALLREDUCE, PARTITA_COLLECTIVE_ALLGATHER,
                                      PARTITA_COLLECTIVE_REDUCE_SCATTER, PARTITA_COLLECTIVE_ALLTOALL);
const auto straight = testing::Values(PARTITA_COLLECTIVE_BCAST);
const auto name_of_pushed = [](const testing::TestParamInfo<partita_u32>& tested) {
  return std::string(collective_names[tested.param]);
};

class PushesOf : public testing::TestWithParam<partita_u32> {};
INSTANTIATE_TEST_SUITE_P(Pushes, PushesOf, by_inbox, name_of_pushed);
INSTANTIATE_TEST_SUITE_P(Straight, PushesOf, straight, name_of_pushed);
class PushesByInbox : public PushesOf {};
INSTANTIATE_TEST_SUITE_P(Pushes, PushesByInbox, by_inbox, name_of_pushed);

/// Bit by bit what the ranks' order gives, whoever reduces, in however many blocks.
TEST_P(PushesOf, give_the_same_bits_by_launches_and_by_waits) {
  for (const int ranks : {1, 2, 3, 8}) {
    for (const int partitions : {1, 5}) {
      for (const std::size_t elements : {std::size_t{1}, std::size_t{7}, std::size_t{9001}}) {
        const GroupShape shape =
            pushed_of(GetParam(), ranks, static_cast<std::size_t>(partitions) * elements * sizeof(float));
        run(shape, partitions, 3, reduce_by_launch);
        run(shape, partitions, 3, reduce_by_wait);
      }
    }
  }
}

TEST_P(PushesOf, move_every_element_wherever_it_lies) {
  struct Made {
    Element element;
    Combine by;
  };
  for (const Made& made : {Made{Element::i8, Combine::bxor}, Made{Element::f16, Combine::sum},
                           Made{Element::bf16, Combine::max}, Made{Element::f64, Combine::prod},
                           Made{Element::complex_f64, Combine::sum}, Made{Element::pair_i32, Combine::minloc}}) {
    for (const std::size_t misaligned : {std::size_t{0}, bytes_of(made.element)}) {
      GroupShape shape = pushed_of(GetParam(), 3, 3 * 11 * bytes_of(made.element));
      shape.element = made.element;
      shape.by = made.by;
      shape.misaligned_bytes = misaligned;
      run(shape, 3, 2, reduce_by_launch);
      shape.in_place = true;
      run(shape, 3, 2, reduce_by_wait);
    }
  }
}

TEST_P(PushesOf, go_on_where_epochs_wrap) {
  GroupShape shape = pushed_of(GetParam(), 2, 400);
  shape.before = 0xfffffffc;
  run(shape, 4, 9, [](const PushGroup& group, std::size_t rank, Epoch before) {
    before % 3 == 0 ? reduce_by_wait(group, rank, before) : reduce_by_launch(group, rank, before);
  });
}

/// Any size, at addresses that differ between the ranks, in and out of place: what moves alone need not be elements.
TEST_P(PushesOf, move_any_bytes_at_any_address) {
  std::minstd_rand random(GetParam() + 1);
  for (int i = 0; i < 12; ++i) {
    const int ranks = 1 + static_cast<int>(random() % 5);
    const int partitions = 1 + static_cast<int>(random() % 9);
    const std::size_t bytes_each = random() % 4 == 0 ? random() % 20000 : random() % 70;
    GroupShape shape = pushed_of(GetParam(), ranks, static_cast<std::size_t>(partitions) * bytes_each);
    shape.element = Element::u8;
    shape.misaligned_bytes = random() % 32;
    shape.more_misaligned_bytes = random() % 32;
    shape.in_place = random() % 2 == 0;
    shape.before = random() % 2 == 0 ? 0xfffffffe : static_cast<Epoch>(random());
    run(shape, partitions, 3, random() % 2 == 0 ? reduce_by_wait : reduce_by_launch);
  }
}

/// Those that wait and what is launched share the pieces; in place nothing may be reduced twice.
TEST_P(PushesOf, are_reduced_once_where_several_reduce) {
  GroupShape shape = pushed_of(GetParam(), 2, 4 * 40000);
  shape.in_place = true;
  run(shape, 4, 3, [](const PushGroup& group, std::size_t rank, Epoch before) {
    std::thread launch([&] {
      while (group.completed(rank) == before) launch_block_by_block(group.launch(rank, before), {3, 1});
    });
    reduce_by_wait(group, rank, before);
    launch.join();
  });
}

/// What is launched waits for nobody, and what is launched late finds its epoch over.
TEST(Pushes, are_reduced_by_launches_only_where_they_have_come) {
  const GroupShape shape = allreduce_of(2, 2 * 64);
  const PushGroup group(shape, 2);
  const EpochOfGroup of(shape, 1, shape.block_bytes);
  const Epoch before = shape.before;
  for (std::size_t r = 0; r < 2; ++r) {
    std::memcpy(group.buffers().sent(r), of.sent[r].data(), of.sent[r].size());
    group.start(r, next(before));
    EXPECT_EQ(MPIX_Pready(1, group.request(r)), PARTITA_DEVICE_SUCCESS);
  }
  EXPECT_EQ(MPIX_Pready(0, group.request(0)), PARTITA_DEVICE_SUCCESS);
  launch_block_by_block(group.launch(0, before), {2, 1});
  int flags[2] = {-1, -1};
  for (int p = 0; p < 2; ++p) EXPECT_EQ(MPIX_Parrived(group.request(0), p, &flags[p]), PARTITA_DEVICE_SUCCESS);
  EXPECT_EQ(flags[0], 0);
  EXPECT_EQ(flags[1], 1);
  EXPECT_EQ(group.completed(0), before);
  EXPECT_EQ(MPIX_Pready(0, group.request(1)), PARTITA_DEVICE_SUCCESS);
  launch_block_by_block(group.launch(0, before), {1, 2});
  EXPECT_EQ(group.completed(0), next(before));
  EXPECT_EQ(0, std::memcmp(group.buffers().received(0), of.received[0].data(), shape.block_bytes));
  launch_block_by_block(group.launch(0, before), {1, 2});
  EXPECT_EQ(group.completed(0), next(before));
}

/// A rank that is through marks the next epoch, while another one has yet to reduce this one: a set of inboxes each.
TEST_P(PushesByInbox, of_the_next_epoch_leave_alone_what_is_not_reduced_yet) {
  const GroupShape shape = pushed_of(GetParam(), 2, 256);
  const PushGroup group(shape, 1);
  const std::size_t sent_bytes = group.buffers().sent_bytes(), received_bytes = group.buffers().received_bytes();
  const EpochOfGroup first(shape, 1, sent_bytes), second(shape, 2, sent_bytes);
  const Epoch epoch = next(shape.before);
  for (std::size_t r = 0; r < 2; ++r) {
    std::memcpy(group.buffers().sent(r), first.sent[r].data(), sent_bytes);
    group.start(r, epoch);
    group.mark(r, 2);
  }
  reduce_by_launch(group, 0, shape.before);
  std::memcpy(group.buffers().sent(0), second.sent[0].data(), sent_bytes);
  group.start(0, next(epoch));
  group.mark(0, 2);
  reduce_by_launch(group, 1, shape.before);
  EXPECT_EQ(0, std::memcmp(group.buffers().received(1), first.received[1].data(), received_bytes));
  std::memcpy(group.buffers().sent(1), second.sent[1].data(), sent_bytes);
  group.start(1, next(epoch));
  group.mark(1, 1);
  for (std::size_t r = 0; r < 2; ++r) {
    reduce_by_wait(group, r, epoch);
    EXPECT_EQ(0, std::memcmp(group.buffers().received(r), second.received[r].data(), received_bytes));
  }
}

/// Who knows nothing of those that have reduced but the number of the newest epoch; thread sanitizers see more.
TEST(Pushes, are_before_the_eyes_of_a_wait_that_comes_when_the_epoch_is_over) {
  for (int call = 0; call < 3; ++call) {
    const GroupShape shape = allreduce_of(1, 4096);
    const PushGroup group(shape, 1);
    const EpochOfGroup of(shape, 1, shape.block_bytes);
    const Epoch epoch = next(shape.before);
    std::memcpy(group.buffers().sent(0), of.sent[0].data(), shape.block_bytes);
    group.start(0, epoch);
    std::thread late([&] {
      const std::atomic_ref completed(group.request(0).state->completed);
      while (completed.load(std::memory_order_relaxed) != epoch) std::this_thread::yield();
      int flag = 1;
      EXPECT_EQ(call == 0   ? MPIX_Pwait(group.request(0))
                : call == 1 ? MPIX_Pwait_partition(0, group.request(0))
                            : MPIX_Parrived(group.request(0), 0, &flag),
                PARTITA_DEVICE_SUCCESS);
      EXPECT_EQ(flag, 1);
      EXPECT_EQ(0, std::memcmp(group.buffers().received(0), of.received[0].data(), shape.block_bytes));
    });
    group.mark(0, 1);
    reduce_by_launch(group, 0, shape.before);
    late.join();
  }
}

/// Likewise a mark of the next epoch, which reads what it pushes.
TEST(Pushes, of_the_next_epoch_find_the_results_that_they_push) {
  GroupShape shape = allreduce_of(1, 4096);
  shape.in_place = true;
  const PushGroup group(shape, 1);
  const EpochOfGroup of(shape, 1, shape.block_bytes);
  const Epoch epoch = next(shape.before);
  std::memcpy(group.buffers().sent(0), of.sent[0].data(), of.sent[0].size());
  group.start(0, epoch);
  std::thread late([&] {
    const std::atomic_ref completed(group.request(0).state->completed);
    while (completed.load(std::memory_order_relaxed) != epoch) std::this_thread::yield();
    group.start(0, next(epoch));
    EXPECT_EQ(MPIX_Pready_thread(0, group.request(0)), PARTITA_DEVICE_SUCCESS);
  });
  group.mark(0, 1);
  reduce_by_launch(group, 0, shape.before);
  late.join();
  reduce_by_launch(group, 0, epoch);
  EXPECT_EQ(group.completed(0), next(epoch));
}

/// A block looks when others have ended its epoch, and the next one.
TEST(Pushes, waits_end_though_others_have_gone_on) {
  for (const Epoch first : {Epoch{7}, Epoch{0xfffffffe}, Epoch{0xffffffff}}) {
    GroupShape shape = allreduce_of(1, 64);
    shape.limit_ns = 50'000'000;
    shape.before = first;
    const PushGroup group(shape, 1);
    const Partita_Prequest& request = group.request(0);
    const Epoch epoch = next(first);
    EXPECT_FALSE(device::is_open(request, epoch));
    for (Epoch before = first, i = 0; i < 2; ++i, before = next(before)) {
      EXPECT_EQ(MPIX_Pstart(request), PARTITA_DEVICE_SUCCESS);
      group.mark(0, 1);
      reduce_by_wait(group, 0, before);
    }
    EXPECT_TRUE(device::is_open(request, epoch));
    EXPECT_EQ(device::await_result(request, &request.state->started, epoch), 0);
    EXPECT_EQ(device::await_result(request, device::push_words_of(request, device::push_reduced), epoch), 0);
  }
}

/// Or the host might find an older end in its word than it has seen, and wait for a newer one for ever.
TEST(Pushes, end_no_epoch_while_the_host_is_still_being_told_of_the_one_before) {
  GroupShape shape = allreduce_of(1, 64);
  shape.before = 0xffffffff;
  const PushGroup group(shape, 1);
  const Partita_Prequest& request = group.request(0);
  const Epoch epoch = next(shape.before);
  request.state->decided = 0;  // another block has ended the epoch before, and is about to tell
  group.start(0, epoch);
  group.mark(0, 1);
  launch_block_by_block(group.launch(0, shape.before), {1, 1});
  EXPECT_EQ(load_word(device::push_words_of(request, device::push_reduced)), epoch);
  EXPECT_EQ(group.completed(0), shape.before);
  device::count_towards_end(request, epoch);
  EXPECT_EQ(group.completed(0), epoch);
  EXPECT_EQ(load_word(&request.host->completed), epoch);
  EXPECT_EQ(load_word(&request.state->decided), 1U);
}

/// Who came in time, and who comes when the epoch is over: or the host might start an epoch that is over for kernels.
TEST(Pushes, waits_for_all_end_when_the_host_was_told) {
  if (thread_sanitized) GTEST_SKIP() << "the thread sanitizer holds locks where an access traps";
  for (const bool in_time : {true, false}) {
    GroupShape shape = allreduce_of(1, 64);
    shape.limit_ns = 20'000'000;
    PushGroup group(shape, 1);
    TrappingHost trapping;
    group.move_host(0, trapping.host());
    const Partita_Prequest& request = group.request(0);
    const Epoch epoch = next(shape.before);
    group.start(0, epoch);
    group.mark(0, 1);
    int code = -1;
    std::thread waiter;
    if (in_time) {
      *device::push_claims(request.state, 1) = epoch;  // this very thread reduces it
      waiter = std::thread([&] { code = MPIX_Pwait(request); });
      while (load_word(&request.host->awaited) != epoch) std::this_thread::yield();
    }
    Epoch completed = shape.before;
    Epoch told = epoch;
    const auto look = [&] {
      completed = group.completed(0);
      in_time ? waiter.join() : void(code = MPIX_Pwait(request));
      told = load_word(&request.host->completed);
    };
    // The waiter looks at the host's words, too, where the one that tells comes late.
    trapping.trap(TrappingHost::all, look, in_time ? std::optional(waiter.native_handle()) : std::nullopt);
    in_time ? device::count_towards_end(request, epoch) : launch_block_by_block(group.launch(0, shape.before), {1, 1});
    EXPECT_TRUE(trapping.has_trapped());
    EXPECT_EQ(completed, epoch);
    EXPECT_EQ(code, PARTITA_DEVICE_ERR_TIMEOUT);
    EXPECT_EQ(told, shape.before);
    EXPECT_EQ(load_word(&request.host->completed), epoch);
  }
}

/// Both have found the epoch before complete, and the host has not started this one.
TEST(Pushes, epochs_are_opened_by_one_of_two_that_come_at_once) {
  if (thread_sanitized) GTEST_SKIP() << "the thread sanitizer holds locks where an access traps";
  const GroupShape shape = allreduce_of(1, 64);
  PushGroup group(shape, 1);
  TrappingHost trapping;
  group.move_promise(0, trapping.promise());
  int other = -1;
  trapping.trap(TrappingHost::all, [&] { other = MPIX_Pstart(group.request(0)); });
  EXPECT_EQ(MPIX_Pstart(group.request(0)), PARTITA_DEVICE_ERR_ACTIVE);
  EXPECT_TRUE(trapping.has_trapped());
  EXPECT_EQ(other, PARTITA_DEVICE_SUCCESS);
}

/// A look a thread at a time, and then one thread takes one on.
TEST(Pushes, pass_over_pieces_that_others_have) {
  const GroupShape shape = allreduce_of(1, 9 * 16);
  const PushGroup group(shape, 9);
  const Partita_Prequest& request = group.request(0);
  const Epoch epoch = next(shape.before);
  std::fill_n(device::push_claims(request.state, 9), 7, epoch);
  CpuKernel kernel({1, 2}, [&](unsigned) {
    EXPECT_EQ(device::skip_claimed(request, {0, 9, 1}, shape.before), 6U);
    EXPECT_EQ(device::skip_claimed(request, {0, 7, 1}, shape.before), 8U);
    EXPECT_EQ(device::skip_claimed(request, {0, 9, 4}, shape.before), 8U);
  });
  kernel.end();
  EXPECT_EQ(device::claim_piece(request, {6, 9, 1}, shape.before, device::Inputs::awaited), 7U);
  EXPECT_EQ(device::claim_piece(request, {6, 9, 1}, shape.before, device::Inputs::only_if_there), 9U);
  EXPECT_EQ(device::claim_piece(request, {0, 9, 1}, shape.before, device::Inputs::awaited), 8U);
  EXPECT_EQ(device::skip_claimed(request, {0, 9, 1}, shape.before), 9U);
}

/// Each word of the host's in its place between those of the GPU: none may come late, when the epoch is over and its
/// words are the next one's, and those that tell of results come behind what kernels look at.
TEST(Pushes, tell_the_host_when_kernels_know_and_before_the_epoch_can_end) {
  if (thread_sanitized) GTEST_SKIP() << "the thread sanitizer holds locks where an access traps";
  const GroupShape shape = allreduce_of(2, 64);
  PushGroup group(shape, 1);
  TrappingHost trapping;
  group.move_host(0, trapping.host());
  const Partita_Prequest& request = group.request(0);
  const Epoch epoch = next(shape.before);
  const auto word = [&](device::PushWord which) { return load_word(device::push_words_of(request, which)); };
  for (std::size_t r = 0; r < 2; ++r) group.start(r, epoch);
  group.mark(1, 1);

  Epoch own_flag = epoch;
  Epoch flag_there = epoch;
  trapping.trap(TrappingHost::partitions, [&] {
    own_flag = word(device::push_pushed);
    flag_there = load_word(device::input_flag(group.request(1), 0, 0, epoch));
  });
  group.mark(0, 1);
  EXPECT_TRUE(trapping.has_trapped());
  EXPECT_EQ(own_flag, shape.before);
  EXPECT_EQ(flag_there, no_epoch);
  EXPECT_EQ(word(device::push_pushed), epoch);

  Epoch reduced = shape.before;
  Epoch completed = epoch;
  trapping.trap(TrappingHost::partitions, [&] {
    reduced = word(device::push_reduced);
    completed = group.completed(0);
  });
  launch_block_by_block(group.launch(0, shape.before), {1, 1});
  EXPECT_TRUE(trapping.has_trapped());
  EXPECT_EQ(reduced, epoch);
  EXPECT_EQ(completed, shape.before);

  launch_block_by_block(group.launch(1, shape.before), {1, 1});
  for (std::size_t r = 0; r < 2; ++r) group.start(r, next(epoch));
  trapping.trap(TrappingHost::all, [&] { own_flag = word(device::push_pushed); });
  for (std::size_t r = 0; r < 2; ++r) group.mark(r, 1);
  EXPECT_TRUE(trapping.has_trapped());
  EXPECT_EQ(own_flag, epoch);
  EXPECT_EQ(load_word(&request.host->newest_marked), next(epoch));
  partita_u32 counted = 1;
  trapping.trap(TrappingHost::all, [&] {
    completed = group.completed(0);
    counted = load_word(&request.state->decided);
  });
  launch_block_by_block(group.launch(0, epoch), {1, 1});
  EXPECT_TRUE(trapping.has_trapped());
  EXPECT_EQ(completed, next(epoch));
  EXPECT_EQ(counted, 0U);
}

GroupShape bcast_of(int ranks, std::size_t block_bytes) {
  GroupShape shape = pushed_of(PARTITA_COLLECTIVE_BCAST, ranks, block_bytes);
  shape.root = 1;
  return shape;
}

/// Their hosts start an epoch, or kernels do; what one of them has not read is not written over.
TEST(PushedBcast, is_marked_when_all_others_have_started) {
  for (const Epoch before : {Epoch{5}, Epoch{0xffffffff}}) {
    GroupShape shape = bcast_of(3, 48);
    shape.before = before;
    const PushGroup group(shape, 1);
    const Partita_Prequest& root = group.request(1);
    Epoch newest = before;
    for (int i = 0; i < 4; ++i) {
      const Epoch epoch = next(newest);
      if (i % 2 == 0) {
        EXPECT_EQ(MPIX_Pstart(root), PARTITA_DEVICE_SUCCESS);
      } else {
        group.start(1, epoch);
      }
      const Bytes old(group.buffers().received(2), group.buffers().received(2) + shape.block_bytes);
      const Bytes fresh(shape.block_bytes, static_cast<unsigned char>(10 + i));
      std::memcpy(group.buffers().sent(1), fresh.data(), fresh.size());
      group.start(0, epoch);
      for (const auto mark : {MPIX_Pready, MPIX_Pready_thread, MPIX_Pready_warp, MPIX_Pready_block}) {
        EXPECT_EQ(mark(0, root), PARTITA_DEVICE_ERR_UNPREPARED);
      }
      EXPECT_EQ(MPIX_Pready_range(0, 0, root), PARTITA_DEVICE_ERR_UNPREPARED);
      EXPECT_TRUE(Bytes(group.buffers().received(2), group.buffers().received(2) + shape.block_bytes) == old);
      EXPECT_EQ(group.completed(1), newest);
      if (i < 2) {
        EXPECT_EQ(MPIX_Pstart(group.request(2)), PARTITA_DEVICE_SUCCESS);
      } else {
        group.start(2, epoch);
      }
      EXPECT_EQ(MPIX_Pready(0, root), PARTITA_DEVICE_SUCCESS);
      EXPECT_EQ(group.completed(1), epoch);
      for (const std::size_t r : {0, 2}) {
        EXPECT_EQ(MPIX_Pwait(group.request(r)), PARTITA_DEVICE_SUCCESS);
        const unsigned char* const out = group.buffers().received(r);
        EXPECT_TRUE(Bytes(out, out + shape.block_bytes) == fresh) << "rank " << r;
      }
      EXPECT_EQ(MPIX_Pwait(root), PARTITA_DEVICE_SUCCESS);
      newest = epoch;
    }
  }
}

/// Blocks of several threads, which look at the ranks side by side, and of fewer than there are ranks.
TEST(PushedBcast, is_prepared_when_the_last_rank_has_started) {
  for (const unsigned threads : {1U, 2U, 9U}) {
    const GroupShape shape = bcast_of(5, 5 * 8);
    const PushGroup group(shape, 1);
    const Partita_Prequest& root = group.request(1);
    for (Epoch epoch = next(shape.before), i = 0; i < 4; ++i, epoch = next(epoch)) {
      group.start(1, epoch);
      for (const std::size_t r : {0, 2, 3}) group.start(r, epoch);
      std::atomic<bool> started{false};
      std::thread late([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        started = true;
        if (i % 2 == 0) return group.start(4, epoch);
        EXPECT_EQ(MPIX_Pstart(group.request(4)), PARTITA_DEVICE_SUCCESS);
      });
      CpuKernel kernel({1, threads}, [&](unsigned) {
        EXPECT_EQ(MPIX_Pbuf_prepare(root), PARTITA_DEVICE_SUCCESS);
        EXPECT_TRUE(started);
        EXPECT_EQ(MPIX_Pbuf_prepare(root), PARTITA_DEVICE_SUCCESS);  // once more
        EXPECT_EQ(MPIX_Pready_block(0, root), PARTITA_DEVICE_SUCCESS);
      });
      kernel.end();
      late.join();
      for (const std::size_t r : {0, 2, 3, 4}) reduce_by_wait(group, r, epoch);
    }
  }
}

/// Nobody counts it before, and nobody is launched.
TEST(PushedBcast, arrives_without_anybody_to_reduce_it) {
  const GroupShape shape = bcast_of(2, 2 * 40);
  const PushGroup group(shape, 2);
  const Partita_Prequest& receiver = group.request(0);
  const Epoch epoch = next(shape.before);
  for (std::size_t r = 0; r < 2; ++r) group.start(r, epoch);
  const Bytes fresh(40, 77);
  std::memcpy(group.buffers().sent(1) + 40, fresh.data(), fresh.size());
  int flag = 1;
  EXPECT_EQ(MPIX_Parrived(receiver, 1, &flag), PARTITA_DEVICE_SUCCESS);
  EXPECT_EQ(flag, 0);
  EXPECT_EQ(MPIX_Pready(1, group.request(1)), PARTITA_DEVICE_SUCCESS);
  for (const std::size_t r : {0, 1}) {
    EXPECT_EQ(MPIX_Parrived(group.request(r), 1, &flag), PARTITA_DEVICE_SUCCESS);
    EXPECT_EQ(flag, 1);
    EXPECT_EQ(MPIX_Parrived(group.request(r), 0, &flag), PARTITA_DEVICE_SUCCESS);
    EXPECT_EQ(flag, 0);
  }
  EXPECT_EQ(0, std::memcmp(group.buffers().received(0) + 40, fresh.data(), fresh.size()));
  EXPECT_EQ(MPIX_Pwait_partition(1, receiver), PARTITA_DEVICE_SUCCESS);
  EXPECT_EQ(MPIX_Pready(0, group.request(1)), PARTITA_DEVICE_SUCCESS);
  EXPECT_EQ(group.completed(0), shape.before);
  EXPECT_EQ(MPIX_Pwait(receiver), PARTITA_DEVICE_SUCCESS);
  EXPECT_EQ(group.completed(0), epoch);
}

TEST(PushedBcast, is_marked_by_the_root_alone) {
  const GroupShape shape = bcast_of(2, 64);
  const PushGroup group(shape, 1);
  const Epoch epoch = next(shape.before);
  for (std::size_t r = 0; r < 2; ++r) group.start(r, epoch);
  for (const auto mark : {MPIX_Pready, MPIX_Pready_thread, MPIX_Pready_warp, MPIX_Pready_block}) {
    EXPECT_EQ(mark(0, group.request(0)), PARTITA_DEVICE_ERR_SIDE);
  }
  EXPECT_EQ(MPIX_Pready_range(0, 0, group.request(0)), PARTITA_DEVICE_ERR_SIDE);
  EXPECT_EQ(load_word(&group.request(0).host->failure), partita_u32{PARTITA_DEVICE_ERR_SIDE});
  EXPECT_EQ(MPIX_Pbuf_prepare(group.request(0)), PARTITA_DEVICE_SUCCESS);
  group.mark(1, 1);
  EXPECT_EQ(MPIX_Pwait(group.request(0)), PARTITA_DEVICE_SUCCESS);
}

TEST(PushedBcast, is_prepared_in_an_epoch_only) {
  const PushGroup group(bcast_of(2, 64), 1);
  EXPECT_EQ(MPIX_Pbuf_prepare(group.request(1)), PARTITA_DEVICE_ERR_INACTIVE);
  EXPECT_EQ(MPIX_Pready(0, group.request(1)), PARTITA_DEVICE_ERR_INACTIVE);
}

TEST(PushedBcast, waits_in_vain_for_a_rank_that_does_not_start) {
  GroupShape shape = bcast_of(3, 64);
  shape.limit_ns = 2'000'000;
  const PushGroup group(shape, 1);
  group.start(1, next(shape.before));
  group.start(2, next(shape.before));
  CpuKernel kernel({1, 2}, [&](unsigned) {
    EXPECT_EQ(MPIX_Pbuf_prepare(group.request(1)), PARTITA_DEVICE_ERR_TIMEOUT);
    EXPECT_EQ(MPIX_Pready_block(0, group.request(1)), PARTITA_DEVICE_ERR_ABORTED);
  });
  kernel.end();
  EXPECT_EQ(load_word(&group.request(1).host->failure), partita_u32{PARTITA_DEVICE_ERR_TIMEOUT});
}

/// A block that is late with what it has seen, while others have gone on to the next epoch.
TEST(PushedBcast, notes_no_credits_of_an_epoch_that_is_over) {
  for (const Epoch epoch : {Epoch{7}, Epoch{0xffffffff}}) {
    const PushGroup group(bcast_of(2, 64), 1);
    const Partita_Prequest& root = group.request(1);
    const auto head = [&] { return std::atomic_ref(root.state->head).load(); };
    root.state->head = device::pair_of(epoch, epoch - 1);
    device::raise_head(root, epoch);
    EXPECT_EQ(head(), device::pair_of(epoch, epoch));
    EXPECT_TRUE(device::is_credited(root, epoch));
    root.state->head = device::pair_of(next(epoch), epoch);
    device::raise_head(root, epoch);
    EXPECT_EQ(head(), device::pair_of(next(epoch), epoch));
  }
}

/// Or it would come behind the end of the epoch, and hide the next one's start.
TEST(PushedBcast, tells_the_own_host_of_a_start_before_the_root) {
  if (thread_sanitized) GTEST_SKIP() << "the thread sanitizer holds locks where an access traps";
  const GroupShape shape = bcast_of(2, 64);
  PushGroup group(shape, 1);
  TrappingHost trapping;
  group.move_host(0, trapping.host());
  const Epoch epoch = next(shape.before);
  group.start(1, epoch);
  int code = 0;
  trapping.trap(TrappingHost::all, [&] { code = MPIX_Pready(0, group.request(1)); });
  EXPECT_EQ(MPIX_Pstart(group.request(0)), PARTITA_DEVICE_SUCCESS);
  EXPECT_TRUE(trapping.has_trapped());
  EXPECT_EQ(code, PARTITA_DEVICE_ERR_UNPREPARED);
  EXPECT_EQ(load_word(&group.request(0).host->newest_marked), epoch);
  EXPECT_EQ(MPIX_Pready(0, group.request(1)), PARTITA_DEVICE_SUCCESS);
}

/// The word that hosts write, too, or a store that comes late would hide the host's next one from the root.
TEST(PushedBcast, gives_the_credit_in_host_memory_first) {
  if (thread_sanitized) GTEST_SKIP() << "the thread sanitizer holds locks where an access traps";
  const GroupShape shape = bcast_of(2, 64);
  PushGroup group(shape, 1);
  TrappingHost trapping;
  group.move_credit(0, reinterpret_cast<partita_u32&>(trapping.promise()));
  const Epoch epoch = next(shape.before);
  group.start(1, epoch);
  Epoch on_gpu = epoch;
  trapping.trap(TrappingHost::all, [&] { on_gpu = load_word(group.credit_on_gpu(0)); });
  EXPECT_EQ(MPIX_Pstart(group.request(0)), PARTITA_DEVICE_SUCCESS);
  EXPECT_TRUE(trapping.has_trapped());
  EXPECT_EQ(on_gpu, shape.before);
  EXPECT_EQ(load_word(group.credit_on_gpu(0)), epoch);
  EXPECT_EQ(MPIX_Pready(0, group.request(1)), PARTITA_DEVICE_SUCCESS);
}

/// A store to GPU memory that comes behind the end of its epoch takes nothing from the next one.
TEST(PushedBcast, is_prepared_though_a_credit_on_the_gpu_comes_late) {
  const GroupShape shape = bcast_of(2, 64);
  const PushGroup group(shape, 1);
  const Epoch first = next(shape.before), second = next(first);
  for (std::size_t r = 0; r < 2; ++r) group.start(r, first);
  group.mark(1, 1);
  reduce_by_wait(group, 0, first);
  EXPECT_EQ(MPIX_Pstart(group.request(0)), PARTITA_DEVICE_SUCCESS);
  *group.credit_on_gpu(0) = first;
  group.start(1, second);
  EXPECT_EQ(MPIX_Pbuf_prepare(group.request(1)), PARTITA_DEVICE_SUCCESS);
  EXPECT_EQ(MPIX_Pready(0, group.request(1)), PARTITA_DEVICE_SUCCESS);
}

/// Where hosts alone start epochs the words of kernels keep older numbers, which are not taken for new ones.
TEST(PushedBcast, goes_by_no_word_of_2_to_the_32_epochs_ago) {
  for (const Epoch before : {0x7fffffffU, 0xffffffffU}) {
    GroupShape shape = bcast_of(2, 64);
    shape.before = before;
    const PushGroup group(shape, 1);
    const Partita_Prequest& root = group.request(1);
    const Epoch epoch = next(before);
    *group.credit_on_gpu(0) = epoch;  // of that time
    EXPECT_EQ(MPIX_Pstart(root), PARTITA_DEVICE_SUCCESS);
    EXPECT_EQ(MPIX_Pready(0, root), PARTITA_DEVICE_ERR_UNPREPARED);
    group.start(0, epoch);
    EXPECT_EQ(MPIX_Pbuf_prepare(root), PARTITA_DEVICE_SUCCESS);
    EXPECT_EQ(MPIX_Pready(0, root), PARTITA_DEVICE_SUCCESS);
    EXPECT_EQ(MPIX_Pwait(group.request(0)), PARTITA_DEVICE_SUCCESS);
  }
}

/// So that it is never old by half of all epochs.
TEST(PushedBcast, has_kernels_know_an_epoch_that_hosts_alone_have_opened) {
  const GroupShape shape = bcast_of(2, 64);
  const PushGroup group(shape, 1);
  Epoch epoch = shape.before;
  for (int i = 0; i < 3; ++i) {
    epoch = next(epoch);
    for (std::size_t r = 0; r < 2; ++r) group.start(r, epoch);
    group.mark(1, 1);
    reduce_by_wait(group, 0, epoch);
    for (std::size_t r = 0; r < 2; ++r) {
      EXPECT_EQ(std::atomic_ref(group.request(r).state->head).load(), device::pair_of(epoch, epoch)) << "rank " << r;
    }
  }
}

/// The host hears of a mark before the epoch can end, here or anywhere.
TEST(PushedBcast, tells_the_host_of_a_mark_before_the_other_ranks) {
  if (thread_sanitized) GTEST_SKIP() << "the thread sanitizer holds locks where an access traps";
  const GroupShape shape = bcast_of(2, 64);
  PushGroup group(shape, 1);
  TrappingHost trapping;
  group.move_host(1, trapping.host());
  const Epoch epoch = next(shape.before);
  for (std::size_t r = 0; r < 2; ++r) group.start(r, epoch);
  int flags[2] = {1, 1};
  trapping.trap(TrappingHost::partitions, [&] {
    for (std::size_t r = 0; r < 2; ++r) MPIX_Parrived(group.request(r), 0, &flags[r]);
  });
  EXPECT_EQ(MPIX_Pready(0, group.request(1)), PARTITA_DEVICE_SUCCESS);
  EXPECT_TRUE(trapping.has_trapped());
  EXPECT_EQ(flags[0], 0);
  EXPECT_EQ(flags[1], 0);
  EXPECT_EQ(group.completed(1), epoch);
}

TEST(Pushes, waits_in_vain_end_the_request) {
  GroupShape shape = allreduce_of(2, 64);
  shape.limit_ns = 2'000'000;
  const PushGroup group(shape, 1);
  group.start(0, next(shape.before));
  group.mark(0, 1);
  EXPECT_EQ(MPIX_Pwait(group.request(0)), PARTITA_DEVICE_ERR_TIMEOUT);
  group.start(1, next(shape.before));
  group.mark(1, 1);
  memory::reduce_pushed(group.launch(0, shape.before));  // all has come, but the request is over
  EXPECT_EQ(MPIX_Pready_block(0, group.request(0)), PARTITA_DEVICE_ERR_ABORTED);
  EXPECT_EQ(group.completed(0), shape.before);
  EXPECT_EQ(load_word(&group.request(0).host->failure), partita_u32{PARTITA_DEVICE_ERR_TIMEOUT});
}

}  // namespace
}  // namespace partita::test
