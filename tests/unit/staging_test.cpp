// Transfers of GPU memory over a link that does not move it: no mark waits for a copy, copies and the link's work
// overlap, and what fails ends both sides.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "support/fake_transfer.hpp"
#include "support/held_gpu.hpp"
#include "support/party.hpp"
#include "support/random.hpp"
#include "transfer/pieces.hpp"

namespace partita::test {
namespace {

constexpr std::int64_t mebi = 1024 * 1024;

// ---- pieces ------------------------------------------------------------------------------------------------

/// Pieces hold all packed bytes, in their order, whatever the plan.
void expect_whole_pieces(const link::Plan& plan, const std::string& which) {
  const Pieces pieces(plan, cut_for_staging(plan));
  const std::int32_t transports = plan.transport_partitions();
  ASSERT_LE(pieces.count(), std::max(64, transports)) << which;
  ASSERT_EQ(pieces.of({0, transports}), (link::Range{0, pieces.count()})) << which;
  for (std::int32_t t = 0; t < transports; ++t) {
    const link::Range own = pieces.of({t, t + 1});
    ASSERT_EQ(pieces.bytes(own), plan.bytes(t)) << which;
    if (t > 0) {
      ASSERT_EQ(pieces.of({t - 1, t}).end, own.begin) << which;
    }
  }
}

TEST(Pieces, each_transport_partition_is_whole_pieces_whatever_the_plan) {
  for (const std::int32_t sends : {1, 2, 3, 5, 8, 12, 64, 100, 4096}) {
    for (const std::int32_t receives : {1, 2, 3, 7, 64}) {
      for (const std::int32_t transports : {1, 2, 3, 7, 12, 64, 4096}) {
        if (transports > sends) continue;
        for (const std::int64_t unit : {0, 1, 7, 4096, 65536, 1 << 20, 3 << 20}) {
          expect_whole_pieces({sends, receives, transports, unit * sends * receives},
                              std::to_string(sends) + " " + std::to_string(receives) + " " +
                                  std::to_string(transports) + " " + std::to_string(unit));
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(Pieces, so_is_each_of_unequal_partitions) {
  Random random(1);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::int64_t> sizes(static_cast<std::size_t>(random.between(1, 80)));
    for (std::int64_t& size : sizes) size = random.one_in(3) ? 0 : random.between(0, 5 << 20);
    const link::Partitioning sending(sizes);
    const auto transports = static_cast<std::int32_t>(random.between(1, sending.count()));
    expect_whole_pieces({sending, {1, sending.total_bytes()}, transports}, "round " + std::to_string(round));
    if (HasFatalFailure()) return;
  }
}

TEST(Pieces, large_transport_partitions_are_cut_into_pieces_of_a_mebibyte) {
  EXPECT_EQ(cut_for_staging({1, 1, 1, 8 * mebi}).transport_partitions(), 8);
  EXPECT_EQ(cut_for_staging({2, 1, 2, 8 * mebi}).transport_partitions(), 8);
  EXPECT_EQ(cut_for_staging({64, 1, 2, 8 * mebi}).transport_partitions(), 8);
  EXPECT_EQ(cut_for_staging({1, 1, 1, 1024 * mebi}).transport_partitions(), 64);
  EXPECT_EQ(cut_for_staging({8, 1, 8, 8 * mebi}).transport_partitions(), 8);
  EXPECT_EQ(cut_for_staging({1, 1, 1, mebi}).transport_partitions(), 1);
  const link::Plan wire = cut_for_staging({1, 1, 1, 5 * mebi + 12345});
  EXPECT_EQ(wire.bytes(0).size() % 4096, 0) << "whatever the size, pieces begin at good places";
  EXPECT_EQ(wire.transport_partitions(), 5);
}

// ---- transfers ---------------------------------------------------------------------------------------------

class Staging : public testing::Test {
 protected:
  enum class Where { host, gpu };

  HalfTerms terms(Side side, Where where, link::Partitioning partitioning) {
    HalfTerms terms;
    terms.side = side;
    terms.peer = side == Side::send ? 1 : 0;
    terms.communicator = (side == Side::send ? sender : receiver).communicator;
    terms.tag = static_cast<int>(side == Side::send ? sends.size() : receives.size());
    terms.shape = {std::move(partitioning), 0, where == Where::gpu ? 1 : 0};
    terms.shape.wished_transport_partitions = terms.shape.partitions();
    if (where == Where::gpu) terms.place = {memory::Kind::device, 0};
    return terms;
  }
  void make(std::int64_t total_bytes, std::int32_t partitions, Where from = Where::gpu, Where to = Where::gpu) {
    make({partitions, total_bytes}, {partitions, total_bytes}, from, to);
  }
  void make(const link::Partitioning& sending, const link::Partitioning& receiving, Where from = Where::gpu,
            Where to = Where::gpu) {
    sends.push_back(std::make_unique<SendParty>(sender.services, terms(Side::send, from, sending)));
    receives.push_back(std::make_unique<RecvParty>(receiver.services, terms(Side::recv, to, receiving)));
    sender.matcher.add(sends.back()->half);
    receiver.matcher.add(receives.back()->half);
    deliver_all();
    ASSERT_TRUE(sends.back()->half.matched());
    ASSERT_TRUE(receives.back()->half.matched());
  }
  void start(std::size_t which, int seed) {
    std::vector<std::byte>& buffer = sends[which]->buffer;
    for (std::size_t i = 0; i < buffer.size(); ++i) {
      buffer[i] = static_cast<std::byte>(i * 7 + i / 4093 + static_cast<std::size_t>(seed));
    }
    sends[which]->start();
    receives[which]->start();
  }
  void deliver_all() {
    while (!post.empty()) {
      const Letter letter = post.take(0);
      (letter.to == 0 ? sender : receiver).mail.take(letter);
    }
  }
  void poll() {
    sender.progress.poll();
    receiver.progress.poll();
  }
  Outgoing& out(std::size_t which = 0) { return sends[which]->half; }
  Incoming& in(std::size_t which = 0) { return receives[which]->half; }

  Post post;
  HeldGpu sender_gpu;
  HeldGpu receiver_gpu;
  FakeRank sender{post, 0, 0, &sender_gpu};
  FakeRank receiver{post, 1, 0, &receiver_gpu};
  std::vector<std::unique_ptr<SendParty>> sends;
  std::vector<std::unique_ptr<RecvParty>> receives;
};

TEST_F(Staging, a_mark_returns_while_its_copy_is_held_and_arrival_waits_for_both_copies) {
  make(4096, 4);
  start(0, 1);
  out().submit({0, 2});
  EXPECT_EQ(sender_gpu.waiting(), 1) << "neighbours are copied together";
  poll();
  EXPECT_EQ(out().put_count(), 0);
  EXPECT_EQ(sender.first.puts, 0);

  sender_gpu.let(1);
  EXPECT_EQ(out().put_count(), 0) << "a step puts";
  poll();
  EXPECT_EQ(out().put_count(), 2);
  EXPECT_FALSE(sender.progress.wanted());
  EXPECT_FALSE(in().arrived({0, 1})) << "its copy into the buffer is held";
  EXPECT_FALSE(in().arrived({0, 2}));
  EXPECT_EQ(receiver_gpu.waiting(), 1);

  receiver_gpu.let(1);
  EXPECT_TRUE(in().arrived({0, 2}));
  EXPECT_FALSE(in().arrived({2, 3}));
  EXPECT_TRUE(std::equal(receives[0]->buffer.begin(), receives[0]->buffer.begin() + 2048, sends[0]->buffer.begin()));
  EXPECT_EQ(in().landing(), receives[0]->buffer.data());

  out().submit({2, 4});
  sender_gpu.let_all();
  poll();
  receiver_gpu.let_all();
  poll();
  EXPECT_TRUE(out().all_finished());
  EXPECT_TRUE(in().all_arrived());
  EXPECT_EQ(receives[0]->buffer, sends[0]->buffer);
  EXPECT_FALSE(receiver.progress.wanted()) << "nothing is left to be copied";
}

/// Links may take their time for each look, and who asks for all partitions in turn pays for each.
TEST_F(Staging, to_ask_for_a_partition_takes_one_look_at_the_link) {
  make(64 * 1024, 64);
  start(0, 12);
  const int before = receiver.first.looks;
  for (std::int64_t t = 0; t < 64; ++t) EXPECT_FALSE(in().arrived({t, t + 1}));
  EXPECT_EQ(receiver.first.looks, before + 64);

  out().submit({40, 41});
  sender_gpu.let_all();
  sender.progress.poll();
  EXPECT_FALSE(in().arrived({40, 41})) << "its copy into the buffer has just begun";
  receiver_gpu.let_all();
  EXPECT_TRUE(in().arrived({40, 41}));
}

/// Kernels that wait have the host ask for each partition.
TEST_F(Staging, what_has_come_together_is_copied_together_whoever_asks) {
  make(64 * 1024, 64);
  start(0, 13);
  out().submit({0, 64});
  sender_gpu.let_all();
  sender.progress.poll();
  for (std::int64_t t = 0; t < 64; ++t) EXPECT_FALSE(in().arrived({t, t + 1}));
  EXPECT_EQ(receiver_gpu.waiting(), 1);
  receiver_gpu.let_all();
  EXPECT_TRUE(in().all_arrived());
  EXPECT_EQ(receives[0]->buffer, sends[0]->buffer);
}

TEST_F(Staging, a_large_partition_is_put_and_taken_while_the_rest_of_it_is_copied) {
  make(4 * mebi, 1);
  start(0, 2);
  out().submit({0, 1});
  EXPECT_EQ(sender_gpu.waiting(), 4);
  sender_gpu.let(1);
  poll();
  EXPECT_EQ(sender.first.puts, 1);
  EXPECT_EQ(out().put_count(), 0) << "not all of it";
  EXPECT_EQ(receiver_gpu.waiting(), 1) << "the first piece is on its way to the GPU";
  sender_gpu.let(2);
  poll();
  receiver_gpu.let(1);
  EXPECT_FALSE(in().arrived({0, 1}));
  EXPECT_EQ(receiver_gpu.waiting(), 2);
  sender_gpu.let(1);
  poll();
  EXPECT_EQ(out().put_count(), 1);
  receiver_gpu.let(2);
  EXPECT_FALSE(in().arrived({0, 1})) << "the copy of the last piece has just begun";
  receiver_gpu.let_all();
  EXPECT_TRUE(in().arrived({0, 1}));
  EXPECT_EQ(receives[0]->buffer, sends[0]->buffer);
}

TEST_F(Staging, two_transfers_overlap) {
  make(2048, 2);
  make(2048, 2);
  for (const std::size_t which : {0u, 1u}) start(which, 3);
  out(0).submit({0, 2});
  out(1).submit({0, 2});
  EXPECT_EQ(sender_gpu.waiting(), 2);
  sender_gpu.let(1);
  poll();
  EXPECT_EQ(out(0).put_count(), 2);
  EXPECT_EQ(out(1).put_count(), 0);
  receiver_gpu.let_all();
  EXPECT_TRUE(in(0).all_arrived()) << "while the other one is copied still";
  sender_gpu.let_all();
  poll();
  receiver_gpu.let_all();
  EXPECT_TRUE(in(1).all_arrived());
}

TEST_F(Staging, one_side_may_be_host_memory) {
  make(4 * mebi, 2, Where::host, Where::gpu);
  make(4 * mebi, 2, Where::gpu, Where::host);
  start(0, 4);
  start(1, 5);
  out(0).submit({0, 2});
  out(1).submit({0, 2});
  EXPECT_EQ(out(0).put_count(), 2) << "nothing is to be copied first";
  EXPECT_FALSE(in(0).all_arrived());
  EXPECT_EQ(out(1).put_count(), 0);
  poll();
  EXPECT_EQ(receiver_gpu.waiting(), 4) << "a step takes what has come, in pieces of a mebibyte";
  sender_gpu.let_all();
  receiver_gpu.let_all();
  poll();
  EXPECT_TRUE(in(0).all_arrived());
  EXPECT_TRUE(in(1).all_arrived());
  for (const std::size_t which : {0u, 1u}) EXPECT_EQ(receives[which]->buffer, sends[which]->buffer);
}

constexpr link::Kinds any_memory{memory::Kind::host, memory::Kind::host_exported, memory::Kind::device};
constexpr link::Movement between_any[] = {{any_memory, any_memory}};

/// The first link was tried with host memory before.
TEST_F(Staging, nothing_is_copied_where_a_later_link_moves_gpu_memory_itself) {
  receiver.first.receiver_refusal = "too full";
  for (FakeRank* rank : {&sender, &receiver}) rank->second.can.movements = between_any;
  make(2048, 2);
  EXPECT_EQ(in().link_name(), "second");
  start(0, 12);
  out().submit({0, 2});
  EXPECT_TRUE(out().all_finished());
  EXPECT_TRUE(in().all_arrived());
  EXPECT_EQ(sender_gpu.waiting() + receiver_gpu.waiting(), 0);
  EXPECT_EQ(in().landing(), receives[0]->buffer.data());
  EXPECT_EQ(receives[0]->buffer, sends[0]->buffer);
}

TEST_F(Staging, partitions_may_be_unequal) {
  const std::vector<std::int64_t> sizes{3 * mebi + 5, 0, 1, 2 * mebi};
  make(link::Partitioning(sizes), {2, 5 * mebi + 6});
  sender_gpu.let_freely();
  receiver_gpu.let_freely();
  start(0, 13);
  for (const std::int64_t p : {3, 0, 2, 1}) EXPECT_TRUE(out().complete(p));
  for (int n = 0; n < 3; ++n) poll();
  EXPECT_TRUE(out().all_finished());
  EXPECT_TRUE(in().all_arrived());
  EXPECT_EQ(receives[0]->buffer, sends[0]->buffer);
}

TEST_F(Staging, epochs_follow_one_another_in_any_order_of_marks) {
  make(6 * 512, 6);
  sender_gpu.let_freely();
  receiver_gpu.let_freely();
  const std::vector<std::vector<link::Range>> orders{
      {{0, 6}}, {{5, 6}, {3, 5}, {0, 1}, {1, 3}}, {{2, 4}, {0, 2}, {4, 6}}, {{1, 2}, {0, 1}, {3, 6}, {2, 3}}};
  for (int epoch = 0; epoch < 40; ++epoch) {
    start(0, epoch);
    for (const link::Range run : orders[static_cast<std::size_t>(epoch) % orders.size()]) {
      out().submit(run);
      if (epoch % 3 == 0) poll();
    }
    for (int n = 0; n < 3; ++n) poll();
    ASSERT_TRUE(out().all_finished()) << epoch;
    ASSERT_TRUE(in().all_arrived()) << epoch;
    ASSERT_EQ(receives[0]->buffer, sends[0]->buffer) << epoch;
  }
}

TEST_F(Staging, what_waits_for_the_receiver_is_copied_and_put_by_steps) {
  make(2048, 2);
  sends[0]->start();
  out().submit({0, 2});
  EXPECT_EQ(out().deferred_count(), 2);
  receives[0]->start();
  poll();
  EXPECT_EQ(sender_gpu.waiting(), 1);
  sender_gpu.let_all();
  receiver_gpu.let_freely();
  poll();
  poll();
  EXPECT_TRUE(in().all_arrived());
}

TEST_F(Staging, a_copy_that_fails_at_the_sender_ends_both_sides) {
  make(2048, 2);
  start(0, 6);
  out().submit({0, 1});
  sender_gpu.break_down();
  for (int n = 0; n < 200; ++n) poll();
  EXPECT_TRUE(out().failed());
  EXPECT_FALSE(sender.progress.wanted()) << "it is not asked again and again";
  out().submit({1, 2});
  EXPECT_EQ(sender.first.puts, 0);
  deliver_all();
  ASSERT_TRUE(in().is_lost());
  const std::string why = in().why_lost().sentence();
  EXPECT_NE(why.find("the sender, rank 0, could not send: the fake GPU is broken"), std::string::npos) << why;
}

TEST_F(Staging, a_copy_that_fails_at_the_receiver_ends_both_sides) {
  make(2048, 2);
  start(0, 7);
  sender_gpu.let_freely();
  out().submit({0, 2});
  poll();
  poll();
  EXPECT_EQ(receiver_gpu.waiting(), 1);
  receiver_gpu.break_down();
  for (int n = 0; n < 200; ++n) receiver.progress.poll();
  EXPECT_TRUE(in().failed());
  EXPECT_FALSE(receiver.progress.wanted());
  deliver_all();
  ASSERT_TRUE(out().is_lost());
  const std::string why = out().why_lost().sentence();
  EXPECT_NE(why.find("the receiver, rank 1, could not take what has arrived: the fake GPU is broken"),
            std::string::npos)
      << why;
}

TEST_F(Staging, a_put_that_fails_in_a_step_ends_both_sides_and_is_not_tried_again) {
  make(2048, 2);
  start(0, 8);
  out().submit({0, 1});
  sender.first.put_throws = true;
  sender_gpu.let_all();
  poll();
  EXPECT_TRUE(out().failed());
  deliver_all();
  EXPECT_TRUE(in().is_lost());

  sender.first.put_throws = false;
  out().submit({1, 2});
  sender_gpu.let_all();
  poll();
  EXPECT_EQ(sender.first.puts, 0);
}

TEST_F(Staging, what_is_given_up_is_neither_put_nor_copied_any_more) {
  make(4096, 4);
  start(0, 9);
  out().submit({0, 2});
  out().give_up();
  out().give_up_epoch();
  EXPECT_EQ(sender_gpu.waiting(), 0) << "nothing reads the buffer any more";
  EXPECT_EQ(sender_gpu.drained(), 1);
  out().submit({2, 4});
  poll();
  EXPECT_EQ(sender.first.puts, 0);
  EXPECT_FALSE(sender.progress.wanted());

  in().give_up();
  in().give_up_epoch();
  EXPECT_FALSE(receiver.progress.wanted());
}

TEST_F(Staging, a_receive_that_is_given_up_ends_its_copies_and_begins_no_more) {
  make(4096, 4);
  start(0, 10);
  sender_gpu.let_freely();
  out().submit({0, 2});
  poll();
  poll();
  EXPECT_EQ(receiver_gpu.waiting(), 1);
  in().give_up();
  in().give_up_epoch();
  EXPECT_EQ(receiver_gpu.waiting(), 0);
  out().submit({2, 4});
  poll();
  EXPECT_FALSE(in().arrived({2, 4}));
  EXPECT_EQ(receiver_gpu.waiting(), 0);
}

TEST_F(Staging, what_is_marked_while_the_epoch_is_given_up_is_put_by_no_later_step) {
  constexpr std::int32_t partitions = 64;
  sender_gpu.let_freely();
  for (std::size_t round = 0; round < 50; ++round) {
    make(partitions * 64, partitions);
    start(round, 14);
    std::thread marking([&] {
      for (std::int32_t t = 0; t < partitions; ++t) out(round).submit({t, t + 1});
    });
    {
      const auto exclusive = sender.progress.exclusive();
      out(round).give_up();
      out(round).give_up_epoch();
    }
    marking.join();
    poll();
    EXPECT_EQ(sender.first.puts, 0);
    EXPECT_FALSE(sender.progress.wanted());
  }
}

TEST_F(Staging, halves_that_go_wait_for_their_copies) {
  make(4096, 4);
  start(0, 11);
  out().submit({0, 4});
  sends.clear();
  EXPECT_EQ(sender_gpu.waiting(), 0);
  EXPECT_FALSE(sender.progress.wanted());
  receives.clear();
  EXPECT_FALSE(receiver.progress.wanted());
}

/// Marking threads, both progress threads and a thread that asks for arrivals, at once.
TEST_F(Staging, several_threads_mark_and_ask_while_the_engine_puts_and_takes) {
  constexpr std::int32_t partitions = 32;
  make(partitions * 1024, partitions);
  sender_gpu.let_freely();
  receiver_gpu.let_freely();
  sender.progress.start_thread();
  receiver.progress.start_thread();
  for (int epoch = 0; epoch < 30; ++epoch) {
    start(0, epoch);
    std::vector<std::thread> threads;
    for (std::int32_t w = 0; w < 2; ++w) {
      threads.emplace_back([&, w] {
        for (std::int32_t t = w; t < partitions; t += 2) out().submit({t, t + 1});
      });
    }
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    threads.emplace_back([&] {
      for (std::int32_t t = partitions - 1; t >= 0; --t) {
        while (!in().arrived({t, t + 1}) && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
      }
    });
    for (std::thread& thread : threads) thread.join();
    while (!out().all_finished() && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
    ASSERT_TRUE(out().all_finished());
    ASSERT_TRUE(in().all_arrived());
    ASSERT_EQ(receives[0]->buffer, sends[0]->buffer);
  }
  sender.progress.stop_thread();
  receiver.progress.stop_thread();
}

}  // namespace
}  // namespace partita::test
