// The table of the program's operations, with operations of the test's own: one with all facets and a transfer each
// way, others with any number of halves.
#include "runtime/operations.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <limits>
#include <thread>
#include <utility>
#include <vector>

#include "partita/partita.h"
#include "queue/kinds.hpp"
#include "queue/matching.hpp"
#include "support/allocations.hpp"
#include "support/fake_transfer.hpp"
#include "support/party.hpp"

namespace partita::test {
namespace {

constexpr std::int64_t operation_bytes = 64;
constexpr std::int32_t operation_partitions = 4;

/// What an operation shall do, and what was done with it, which survives it.
struct Life {
  bool peers_throw = false;
  int allocations_fail = 0;  ///< so many in a row, when the second half is added
  int looks_until_done = 0;
  bool done_throws = false;

  int sought = 0;
  int abandoned = 0;
  int withdrawn = 0;
  bool gone = false;
  int awaited = 0;  ///< when it went
  bool matched = true;
  bool lingers = false;
  int asked_whether_it_lingers = 0;
  int stopped_lingering = 0;
  bool begin_match_throws = false;
  int begun = 0;  ///< calls of begin_match
};

/// Has no partitions and no transfers.
class BareOperation : public Operation {
 public:
  explicit BareOperation(Life& life, Facets facets = {}) : Operation(facets, nullptr), life_(life) {}
  ~BareOperation() override {
    life_.gone = true;
    life_.awaited = queue_use().awaited();
  }

  void seek_peers() override {
    ++life_.sought;
    if (life_.peers_throw) throw Error(ErrorClass::other, "the test's peers cannot be looked for");
  }
  void begin_match() override {
    ++life_.begun;
    if (life_.begin_match_throws) throw Error(ErrorClass::other, "the test's match cannot begin");
  }
  bool matched() const override { return life_.matched; }
  void start() override { active_ = true; }
  bool active() const override { return active_; }
  bool open() const override { return active_; }
  bool done() override {
    if (life_.done_throws) throw Error(ErrorClass::other, "the test's operation has failed");
    return life_.looks_until_done-- <= 0;
  }
  bool prepared() override { return true; }
  void close() override { active_ = false; }
  void fill_status(MPI_Status*) const override {}
  void fail(const Error&) override {}
  void abandon(const std::optional<Error>&) override {
    ++life_.abandoned;
    active_ = false;
  }
  void withdraw() override { ++life_.withdrawn; }
  std::vector<Half*> halves() override { return {}; }
  bool lingers() override {
    ++life_.asked_whether_it_lingers;
    return life_.lingers;
  }
  void stop_lingering() override { ++life_.stopped_lingering; }
  bool in_gpu_memory() const override { return false; }
  const char* kind() const override { return "bare"; }
  std::vector<InfoEntry> info() const override { return {}; }
  std::string explain() const override { return "The test's operation waits"; }
  int waits_for() const override { return -1; }

 protected:
  Life& life_;

 private:
  bool active_ = false;
};

/// Sends to the other rank and receives from it, as a collective does: partitions are marked and awaited, by kernels
/// too.
class Exchange final : public BareOperation, public Markable, public Awaitable, public KernelUsable {
 public:
  Exchange(Life& life, FakeRank& at, FakeRank& peer)
      : BareOperation(life, {this, this, this}),
        matcher_(at.matcher),
        to_(at.services, terms(Side::send, at, peer)),
        from_(at.services, terms(Side::recv, at, peer)) {}

  void seek_peers() override {
    BareOperation::seek_peers();
    matcher_.add(to_.half);
    if (life_.allocations_fail > 0) fail_allocations(1, life_.allocations_fail);
    matcher_.add(from_.half);
  }
  void start() override {
    BareOperation::start();
    from_.start();
    to_.start();
  }
  bool done() override { return to_.half.all_finished() && from_.half.all_arrived(); }
  void close() override {
    BareOperation::close();
    to_.half.set_active(false);
    from_.half.set_active(false);
  }
  std::vector<Half*> halves() override { return {&to_.half, &from_.half}; }

  void mark(std::int64_t partition) override { mark(partition, partition); }
  void mark(std::int64_t first, std::int64_t last) override { to_.half.submit({first, last + 1}); }
  bool arrived(std::int64_t partition) override { return from_.half.arrived({partition, partition + 1}); }

  bool can_make_device_request() override { return to_.half.matched() && from_.half.matched(); }
  const Partita_Prequest& make_device_request() override {
    prequest_.life = 2;
    return prequest_;
  }
  std::optional<Error> free_device_request() override {
    prequest_.life = 0;
    return {};
  }
  bool has_device_request() const override { return false; }
  bool has_device_request(const Partita_Prequest& view) const override {
    return view.life != 0 && view.life == prequest_.life;
  }
  std::optional<Error> untold_mistake() const override { return {}; }

  std::vector<std::byte>& sent() { return to_.buffer; }
  std::vector<std::byte>& received() { return from_.buffer; }

 private:
  static HalfTerms terms(Side side, const FakeRank& at, const FakeRank& peer) {
    HalfTerms terms;
    terms.side = side;
    terms.peer = peer.rank;
    terms.communicator = at.communicator;
    terms.shape = {{operation_partitions, operation_bytes}, operation_partitions, 0};
    return terms;
  }

  Matcher& matcher_;
  SendParty to_;
  RecvParty from_;
  Partita_Prequest prequest_{};
};

class OperationsTable : public testing::Test {
 protected:
  BareOperation& add_bare(Life& life) { return added(zeroth, std::make_unique<BareOperation>(life)); }
  Exchange& add_exchange(FakeRank& at, Life& life) {
    return added(at, std::make_unique<Exchange>(life, at, at.rank == 0 ? first : zeroth));
  }
  /// Outlives the tables, which may own the operation to their end.
  std::vector<Life>& new_lives(std::size_t count) { return lives_.emplace_back(count); }
  template <class Kind>
  Kind& added(FakeRank& at, std::unique_ptr<Kind> operation) {
    Kind& made = *operation;
    table_of(at).add(std::move(operation));
    return made;
  }
  Operations& table_of(const FakeRank& at) { return at.rank == 0 ? zeroth_table : first_table; }
  void deliver_all() {
    while (!post.empty()) {
      const Letter letter = post.take(0);
      (letter.to == 0 ? zeroth : first).mail.take(letter);
    }
  }

 private:
  std::deque<std::vector<Life>> lives_;

 protected:
  Post post;
  FakeRank zeroth{post, 0};
  FakeRank first{post, 1};
  Operations zeroth_table{zeroth.matcher, zeroth.progress};
  Operations first_table{first.matcher, first.progress};
};

TEST_F(OperationsTable, what_lingers_stays_until_nobody_waits_for_it_or_all_ranks_end) {
  std::vector<Life>& lives = new_lives(3);
  for (Life& life : lives) life.lingers = &life != lives.data();
  for (Life& life : lives) zeroth_table.free(add_bare(life));
  EXPECT_TRUE(lives[0].gone);
  EXPECT_FALSE(lives[1].gone || lives[2].gone);
  EXPECT_TRUE(zeroth.progress.wanted());
  EXPECT_FALSE(zeroth_table.free_what_lingered());
  lives[2].lingers = false;
  EXPECT_TRUE(zeroth_table.free_what_lingered());
  EXPECT_TRUE(lives[2].gone);
  EXPECT_FALSE(lives[1].gone);
  zeroth_table.end_lingering();
  for (const Life& life : lives) {
    EXPECT_TRUE(life.gone);
    EXPECT_EQ(life.withdrawn, 1);
    EXPECT_EQ(life.stopped_lingering, 1);
  }
  EXPECT_FALSE(zeroth.progress.wanted());
}

TEST_F(OperationsTable, a_step_asks_few_of_many_that_linger_and_comes_to_all) {
  constexpr int count = 1000;
  std::vector<Life>& lives = new_lives(count);
  for (Life& life : lives) life.lingers = true;
  for (Life& life : lives) zeroth_table.free(add_bare(life));
  const auto asked = [&] {
    long sum = 0;
    for (Life& life : lives) sum += std::exchange(life.asked_whether_it_lingers, 0);
    return sum;
  };
  asked();
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  constexpr int steps = 2 * count;
  for (int step = 0; step < steps; ++step) EXPECT_FALSE(zeroth_table.free_what_lingered());
  const auto passed = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin);
  EXPECT_TRUE(std::ranges::all_of(lives, [](const Life& life) { return life.asked_whether_it_lingers > 0; }));
  EXPECT_LE(asked(), 2 * steps + passed.count() / 10 + 100);
  lives[700].lingers = false;
  lives[10].lingers = false;
  int freed = 0;
  for (int step = 0; step < count; ++step) freed += zeroth_table.free_what_lingered() ? 1 : 0;
  EXPECT_EQ(freed, 2);
  EXPECT_TRUE(lives[700].gone && lives[10].gone);
  for (Life& life : lives) life.lingers = false;
  zeroth_table.end_lingering();
  EXPECT_TRUE(std::ranges::all_of(lives, [](const Life& life) { return life.stopped_lingering == 1; }));
  EXPECT_FALSE(zeroth.progress.wanted());
}

TEST_F(OperationsTable, an_operation_may_be_marked_and_awaited) {
  std::vector<Life>& lives = new_lives(2);
  Exchange& here = add_exchange(zeroth, lives[0]);
  Exchange& there = add_exchange(first, lives[1]);
  deliver_all();
  for (std::size_t i = 0; i < operation_bytes; ++i) {
    here.sent()[i] = static_cast<std::byte>(i);
    there.sent()[i] = static_cast<std::byte>(100 + i);
  }
  for (Operation* each : {static_cast<Operation*>(&here), static_cast<Operation*>(&there)}) each->start();

  const Facets facets = here.facets();
  EXPECT_FALSE(facets.awaitable->arrived(1));
  facets.markable->mark(1);
  EXPECT_TRUE(there.facets().awaitable->arrived(1));
  EXPECT_FALSE(facets.awaitable->arrived(1));
  there.facets().markable->mark(0, 3);
  EXPECT_TRUE(facets.awaitable->arrived(1));
  EXPECT_EQ(here.received(), there.sent());
  EXPECT_FALSE(here.done());
  facets.markable->mark(0);
  facets.markable->mark(2, 3);
  EXPECT_TRUE(here.done());
  EXPECT_TRUE(there.done());
  EXPECT_EQ(there.received(), here.sent());
}

TEST_F(OperationsTable, an_operation_goes_when_the_peers_of_all_its_halves_are_done) {
  std::vector<Life>& lives = new_lives(2);
  Exchange& here = add_exchange(zeroth, lives[0]);
  Exchange& there = add_exchange(first, lives[1]);
  deliver_all();

  zeroth_table.free(here);
  EXPECT_EQ(lives[0].withdrawn, 1);
  EXPECT_FALSE(lives[0].gone);
  ASSERT_EQ(post.size(), 2U);  // a bye for each half
  deliver_all();
  EXPECT_FALSE(lives[0].gone);

  first_table.free(there);
  EXPECT_TRUE(lives[1].gone);  // all that its peer had of it was over
  ASSERT_EQ(post.size(), 2U);
  zeroth.mail.take(post.take(0));
  EXPECT_FALSE(lives[0].gone);  // the other half's peer may still touch its memory
  deliver_all();
  EXPECT_TRUE(lives[0].gone);
}

TEST_F(OperationsTable, an_operation_without_halves_goes_at_once) {
  Life& life = new_lives(1).front();
  BareOperation& operation = add_bare(life);
  EXPECT_EQ(life.sought, 1);
  zeroth_table.free(operation);
  EXPECT_EQ(life.withdrawn, 1);
  EXPECT_TRUE(life.gone);
  EXPECT_EQ(zeroth_table.free_all().live, 0U);
}

TEST_F(OperationsTable, an_operation_that_cannot_look_for_its_peers_leaves_nothing_behind) {
  Life& life = new_lives(1).front();
  life.peers_throw = true;
  EXPECT_THROW(add_bare(life), Error);
  EXPECT_TRUE(life.gone);
  EXPECT_EQ(zeroth_table.free_all().live, 0U);
}

TEST_F(OperationsTable, an_operation_of_which_one_half_could_not_be_added_is_freed_as_a_whole) {
  for (const int failures : {1, 4}) {
    SCOPED_TRACE(failures);
    std::vector<Life>& lives = new_lives(2);
    lives[0].allocations_fail = failures;
    EXPECT_THROW(add_exchange(zeroth, lives[0]), std::bad_alloc);
    end_failing();
    EXPECT_EQ(lives[0].withdrawn, 1);
    EXPECT_EQ(zeroth_table.free_all().live, 0U);
    ASSERT_FALSE(lives[0].gone);  // rank 1 has the offer of the half that was added

    Exchange& there = add_exchange(first, lives[1]);
    deliver_all();
    const Half& receive = *there.halves()[1];
    EXPECT_TRUE(receive.ending.loses(next(receive.epoch())));  // its send was freed
    EXPECT_FALSE(lives[0].gone);
    first_table.free(there);
    deliver_all();
    EXPECT_TRUE(lives[0].gone);
  }
}

TEST_F(OperationsTable, a_device_request_is_found_until_it_is_freed) {
  std::vector<Life>& lives = new_lives(3);
  add_bare(lives[0]);
  add_exchange(first, lives[1]);
  Exchange& operation = add_exchange(zeroth, lives[2]);
  KernelUsable& usable = *operation.facets().kernel_usable;
  EXPECT_FALSE(usable.can_make_device_request());
  deliver_all();
  ASSERT_TRUE(usable.can_make_device_request());

  const Partita_Prequest view = usable.make_device_request();
  EXPECT_EQ(&zeroth_table.operation_with(view), &operation);
  EXPECT_THROW(first_table.operation_with(view), Error);
  EXPECT_THROW(zeroth_table.operation_with(Partita_Prequest{}), Error);
  usable.free_device_request();
  EXPECT_THROW(zeroth_table.operation_with(view), Error);
}

TEST_F(OperationsTable, what_the_program_has_left_is_freed_in_the_order_in_which_it_was_made) {
  static constexpr std::size_t count = 50;
  std::vector<std::size_t> freed;
  class Noting final : public BareOperation {
   public:
    Noting(Life& life, std::size_t place, std::vector<std::size_t>& freed)
        : BareOperation(life), place_(place), freed_(freed) {}
    void withdraw() override { freed_.push_back(place_); }

   private:
    std::size_t place_;
    std::vector<std::size_t>& freed_;
  };
  std::vector<Life>& lives = new_lives(count);
  for (std::size_t i = 0; i < count; ++i) {
    BareOperation& made = added(zeroth, std::make_unique<Noting>(lives[i], i, freed));
    if (i % 3 == 1) made.start();
  }
  const Operations::Leftovers left = zeroth_table.free_all();
  EXPECT_EQ(left.live, count);
  EXPECT_EQ(left.incomplete, 0U);
  ASSERT_EQ(freed.size(), count);
  EXPECT_TRUE(std::is_sorted(freed.begin(), freed.end()));
  for (const Life& life : lives) {
    EXPECT_EQ(life.abandoned, 1);
    EXPECT_TRUE(life.gone);
  }
}

TEST_F(OperationsTable, the_request_of_an_imatch_lets_go_of_what_it_waits_for) {
  std::vector<Life>& lives = new_lives(2);
  lives[1].matched = false;
  std::vector<Operation*> awaited = {&add_bare(lives[0]), &add_bare(lives[1])};
  Matching& done = added(zeroth, std::make_unique<Matching>(std::vector{awaited[0]}, nullptr));
  added(zeroth, std::make_unique<Matching>(awaited, nullptr));
  EXPECT_EQ(awaited[0]->queue_use().awaited(), 2);
  ASSERT_TRUE(done.done());
  done.close();
  EXPECT_EQ(awaited[0]->queue_use().awaited(), 1);
  EXPECT_FALSE(done.active());

  const Operations::Leftovers left = zeroth_table.free_all();  // the other one is left, behind what it waits for
  EXPECT_EQ(left.live, 4U);
  EXPECT_EQ(left.incomplete, 1U);
  for (const Life& life : lives) {
    EXPECT_TRUE(life.gone);
    EXPECT_EQ(life.awaited, 0);
  }
}

TEST_F(OperationsTable, an_imatch_that_fails_lets_go_of_its_requests) {
  std::vector<Life>& lives = new_lives(2);
  std::vector<Operation*> awaited = {&add_bare(lives[0]), &add_bare(lives[1])};
  const auto imatch = [&] {
    auto made = std::make_unique<Matching>(awaited, nullptr);
    EXPECT_EQ(awaited[0]->queue_use().awaited(), 1);
    fail_allocations(1);
    added(zeroth, std::move(made));
  };
  EXPECT_THROW(imatch(), std::bad_alloc);
  EXPECT_FALSE(end_failing());
  EXPECT_EQ(lives[0].begun, 0);
  EXPECT_EQ(awaited[0]->queue_use().awaited(), 0);

  lives[1].begin_match_throws = true;
  EXPECT_THROW(added(zeroth, std::make_unique<Matching>(awaited, nullptr)), Error);
  EXPECT_EQ(lives[1].begun, 1);
  for (Operation* const each : awaited) EXPECT_EQ(each->queue_use().awaited(), 0);
  EXPECT_EQ(zeroth_table.free_all().live, 2U);
}

/// At each of the allocations that it takes.
TEST_F(OperationsTable, of_a_group_for_which_a_queue_has_no_memory_none_starts) {
  constexpr std::size_t count = 20;
  std::vector<Life>& lives = new_lives(count);
  std::vector<Operation*> operations;
  for (Life& each : lives) operations.push_back(&add_bare(each));
  const QueueServices services{nullptr, {}, [](Operation& each) { each.close(); }};
  const std::unique_ptr<Queue> made = make_queue(PARTITA_QUEUE_HOST, services, nullptr);
  Queue& queue = *made;
  bool has_memory = false;
  for (long first = 1; !has_memory; ++first) {
    ASSERT_LT(first, 200);
    fail_allocations(first);
    try {
      queue.enqueue_start(operations);
    } catch (const std::bad_alloc&) {
    }
    has_memory = end_failing();
    const auto starts = std::ranges::count_if(operations, [](const Operation* each) { return each->active(); });
    const auto enqueued =
        std::ranges::count_if(operations, [](const Operation* each) { return each->queue_use().enqueued(); });
    const std::ptrdiff_t expected = has_memory ? std::ptrdiff_t{count} : 0;
    EXPECT_EQ(starts, expected);
    EXPECT_EQ(enqueued, expected);
    EXPECT_EQ(queue.unawaited() != nullptr, has_memory);
  }
  queue.enqueue_wait(operations);
  EXPECT_EQ(queue.unawaited(), nullptr);
}

/// Each request of an Imatch is completed by a thread of its own, as the rules of threads allow.
TEST_F(OperationsTable, requests_of_imatches_are_completed_by_several_threads) {
  Operation& awaited = add_bare(new_lives(1).front());
  std::vector<Matching*> matching;
  for (int i = 0; i < 4; ++i) {
    matching.push_back(&added(zeroth, std::make_unique<Matching>(std::vector{&awaited}, nullptr)));
  }
  std::vector<std::thread> threads;
  for (Matching* const each : matching) {
    threads.emplace_back([each] {
      if (each->done()) each->close();
    });
  }
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(awaited.queue_use().awaited(), 0);
}

TEST_F(OperationsTable, what_cannot_be_completed_is_told_and_what_soon_can_is_not) {
  std::vector<Life>& lives = new_lives(3);
  Life &soon = lives[0], &failed = lives[1], &never = lives[2];
  soon.looks_until_done = 5;
  failed.done_throws = true;
  never.looks_until_done = std::numeric_limits<int>::max();
  for (Life* life : {&soon, &failed, &never}) add_bare(*life).start();
  const Operations::Leftovers left = zeroth_table.free_all();
  EXPECT_EQ(left.live, 3U);
  EXPECT_EQ(left.incomplete, 2U);
  EXPECT_EQ(left.explanation, "the test's operation has failed");
  EXPECT_TRUE(soon.gone && failed.gone && never.gone);
}

}  // namespace
}  // namespace partita::test
