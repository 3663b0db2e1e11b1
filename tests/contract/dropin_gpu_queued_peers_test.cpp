// The MPI's nonblocking collectives by peer memory: that they return before any other rank has come, move what the MPI
// moves, and meet in the order of the calls, whatever memory each rank has and however it completes them. On the fake
// GPU.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "contract/peer_ways.hpp"
#include "core/which_mpi.hpp"
#include "dropin/requests.hpp"
#include "support/placed_ints.hpp"

namespace partita::test {
namespace {

using Requests = std::vector<MPI_Request>;

/// Nonblocking calls go by peers on communicators on which a blocking one has.
void open_way(MPI_Comm comm) {
  PlacedInts told(Memory::gpu, Ints(plenty, rank()));
  expect_way(Way::peers, [&] { EXPECT_OK(MPI_Bcast(told.data(), plenty, MPI_INT, 0, comm)); });
  EXPECT_EQ(told.get(), Ints(plenty, 0));
}

/// A duplicate of the world's communicator, on which nonblocking calls go by peers.
class OwnComm {
 public:
  OwnComm() {
    EXPECT_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm_));
    open_way(comm_);
  }
  ~OwnComm() {
    harness_barrier();
    if (comm_ != MPI_COMM_NULL) {
      EXPECT_OK(MPI_Comm_free(&comm_));
    }
  }
  OwnComm(const OwnComm&) = delete;
  OwnComm& operator=(const OwnComm&) = delete;

  MPI_Comm get() const { return comm_; }
  /// The program's handle goes before its requests do.
  void free() { EXPECT_OK(MPI_Comm_free(&comm_)); }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

/// A nonblocking collective with its buffers, and what it has to bring.
class Call {
 public:
  enum Kind {
    bcast,
    gather,
    gatherv,
    scatter,
    scatterv,
    allgather,
    allgatherv,
    alltoall,
    alltoallv,
    reduce,
    allreduce,
    reduce_scatter,
    reduce_scatter_block,
    kinds
  };

  /// `count` elements of each block. `tag` tells its values from those of other calls.
  Call(Kind kind, MPI_Comm comm, Memory memory, int count, int root, int tag)
      : kind_(kind),
        comm_(comm),
        count_(count),
        root_(root),
        tag_(tag),
        counts_(at(ranks()), count),
        places_(at(ranks())),
        in_(memory, contents()),
        out_(memory, Ints(at(ranks() * count), untouched)) {
    for (int peer = 0; peer < ranks(); ++peer) places_[at(peer)] = peer * count;
    if (kind == bcast && rank() == root) out_.set(all_of([&](int, int i) { return sent(root_, 0, i); }));
  }

  int begin(MPI_Request* request) {
    switch (kind_) {
      case bcast:
        return MPI_Ibcast(out_.data(), count_, MPI_INT, root_, comm_, request);
      case gather:
        return MPI_Igather(in_.data(), count_, MPI_INT, out_.data(), count_, MPI_INT, root_, comm_, request);
      case gatherv:
        return MPI_Igatherv(in_.data(), count_, MPI_INT, out_.data(), counts_.data(), places_.data(), MPI_INT, root_,
                            comm_, request);
      case scatter:
        return MPI_Iscatter(in_.data(), count_, MPI_INT, out_.data(), count_, MPI_INT, root_, comm_, request);
      case scatterv:
        return MPI_Iscatterv(in_.data(), counts_.data(), places_.data(), MPI_INT, out_.data(), count_, MPI_INT, root_,
                             comm_, request);
      case allgather:
        return MPI_Iallgather(in_.data(), count_, MPI_INT, out_.data(), count_, MPI_INT, comm_, request);
      case allgatherv:
        return MPI_Iallgatherv(in_.data(), count_, MPI_INT, out_.data(), counts_.data(), places_.data(), MPI_INT, comm_,
                               request);
      case alltoall:
        return MPI_Ialltoall(in_.data(), count_, MPI_INT, out_.data(), count_, MPI_INT, comm_, request);
      case alltoallv:
        return MPI_Ialltoallv(in_.data(), counts_.data(), places_.data(), MPI_INT, out_.data(), counts_.data(),
                              places_.data(), MPI_INT, comm_, request);
      case reduce:
        return MPI_Ireduce(in_.data(), out_.data(), count_ * ranks(), MPI_INT, MPI_SUM, root_, comm_, request);
      case allreduce:
        return MPI_Iallreduce(in_.data(), out_.data(), count_ * ranks(), MPI_INT, MPI_SUM, comm_, request);
      case reduce_scatter:
        return MPI_Ireduce_scatter(in_.data(), out_.data(), counts_.data(), MPI_INT, MPI_SUM, comm_, request);
      default:
        return MPI_Ireduce_scatter_block(in_.data(), out_.data(), count_, MPI_INT, MPI_SUM, comm_, request);
    }
  }

  bool has_all() { return out_.get() == expected(); }
  void expect_done() {
    EXPECT_TRUE(has_all()) << "kind " << kind_ << ", tag " << tag_ << ", count " << count_;
    EXPECT_TRUE(in_.get() == contents()) << "kind " << kind_;
  }

 private:
  /// What rank `from` has at place `i` of the block for `to`.
  int sent(int from, int to, int i) const { return value(from, to, i) + 7 * tag_; }
  Ints all_of(const std::function<int(int, int)>& content) const {
    Ints all;
    for (int peer = 0; peer < ranks(); ++peer) {
      for (int i = 0; i < count_; ++i) all.push_back(content(peer, i));
    }
    return all;
  }
  Ints contents() const {
    return all_of([&](int peer, int i) { return sent(rank(), peer, i); });
  }
  /// The first blocks of the buffer from which this rank has something, and nothing of the others.
  Ints first_of(Ints all, int blocks) const {
    std::fill(all.begin() + blocks * count_, all.end(), untouched);
    return all;
  }
  Ints expected() const {
    const bool is_root = rank() == root_;
    const auto sum = [&](int to, int i) {
      int all = 0;
      for (int from = 0; from < ranks(); ++from) all += sent(from, to, i);
      return all;
    };
    switch (kind_) {
      case bcast: {
        const Ints all = all_of([&](int, int i) { return sent(root_, 0, i); });
        return is_root ? all : first_of(all, 1);
      }
      case gather:
      case gatherv:
        return first_of(all_of([&](int from, int i) { return sent(from, 0, i); }), is_root ? ranks() : 0);
      case scatter:
      case scatterv:
        return first_of(all_of([&](int, int i) { return sent(root_, rank(), i); }), 1);
      case allgather:
      case allgatherv:
        return all_of([&](int from, int i) { return sent(from, 0, i); });
      case alltoall:
      case alltoallv:
        return all_of([&](int from, int i) { return sent(from, rank(), i); });
      case reduce:
        return first_of(all_of(sum), is_root ? ranks() : 0);
      case allreduce:
        return all_of(sum);
      default:
        return first_of(all_of([&](int, int i) { return sum(rank(), i); }), 1);
    }
  }

  const Kind kind_;
  MPI_Comm comm_;
  const int count_;
  const int root_;
  const int tag_;
  Ints counts_;
  Ints places_;
  PlacedInts in_;
  PlacedInts out_;
};

class QueuedPeers : public testing::TestWithParam<int> {
 protected:
  static void SetUpTestSuite() { open_way(MPI_COMM_WORLD); }
  static Call::Kind kind() { return static_cast<Call::Kind>(GetParam()); }
};

TEST_P(QueuedPeers, go_by_peers) {
  for (int root = 0; root < ranks(); ++root) {
    Call call(kind(), MPI_COMM_WORLD, Memory::gpu, plenty, root, 1 + root);
    expect_way(Way::peers, [&] {
      MPI_Request request = MPI_REQUEST_NULL;
      ASSERT_OK(call.begin(&request));
      ASSERT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
      EXPECT_EQ(request, MPI_REQUEST_NULL);
    });
    call.expect_done();
  }
}

/// Others learn it in the agreement, and this rank's call is the MPI's, too.
TEST_P(QueuedPeers, go_through_host_memory_where_one_rank_has_that) {
  if (ranks() == 1) GTEST_SKIP() << "has no peers";
  for (int on_host = 0; on_host < ranks(); ++on_host) {
    Call call(kind(), MPI_COMM_WORLD, rank() == on_host ? Memory::host : Memory::gpu, plenty, 0, on_host);
    MPI_Request request = MPI_REQUEST_NULL;
    ASSERT_OK(call.begin(&request));
    ASSERT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    call.expect_done();
  }
}

/// The call returns before the others have made theirs.
TEST_P(QueuedPeers, wait_for_nobody_at_the_call) {
  if (ranks() == 1) GTEST_SKIP() << "waits for nobody";
  const OwnComm comm;
  for (int round = 0; round < 2; ++round) {
    Call first(kind(), comm.get(), Memory::gpu, plenty, 0, 1);
    Call second(kind(), comm.get(), Memory::gpu, plenty, ranks() - 1, 2);
    Requests requests(2, MPI_REQUEST_NULL);
    const bool is_late = rank() == ranks() - 1;
    if (is_late) harness_barrier();
    ASSERT_OK(first.begin(&requests[0]));
    ASSERT_OK(second.begin(&requests[1]));
    if (!is_late) {
      int done = 1;
      EXPECT_OK(MPI_Testall(2, requests.data(), &done, MPI_STATUSES_IGNORE));
      EXPECT_EQ(done, 0);
      harness_barrier();
    }
    ASSERT_OK(MPI_Waitall(2, requests.data(), MPI_STATUSES_IGNORE));
    first.expect_done();
    second.expect_done();
  }
}

std::string name_of(const testing::TestParamInfo<int>& info) {
  static const char* const names[] = {
      "bcast",    "gather",    "gatherv", "scatter",   "scatterv",       "allgather",           "allgatherv",
      "alltoall", "alltoallv", "reduce",  "allreduce", "reduce_scatter", "reduce_scatter_block"};
  return names[info.param];
}
INSTANTIATE_TEST_SUITE_P(All, QueuedPeers, testing::Range(0, int{Call::kinds}), name_of);

/// Any calls on two communicators, on memories of which each rank has its own, among messages and blocking calls; each
/// rank completes them in its own way.
TEST(QueuedPeersInOrder, meet_whatever_the_ranks_do) {
  std::mt19937 random = common_random();
  std::mt19937 own_random(static_cast<unsigned>(random() + static_cast<unsigned>(rank())));
  const OwnComm comms[2];
  for (int round = 0; round < 25; ++round) {
    SCOPED_TRACE(round);
    const int depth = 1 + static_cast<int>(random() % 6);
    const bool may_be_on_host = random() % 2 == 0;
    std::vector<std::unique_ptr<Call>> calls;
    Requests requests;
    Ints one{rank()};
    Ints other{-1};
    for (int each = 0; each < depth; ++each) {
      const MPI_Comm comm = comms[random() % 2].get();
      const auto kind = static_cast<Call::Kind>(random() % Call::kinds);
      const int count = random() % 4 == 0 ? 10 : 300 + static_cast<int>(random() % 600);
      const int root = static_cast<int>(random() % static_cast<unsigned>(ranks()));
      const Memory memory = may_be_on_host && own_random() % 4 == 0 ? Memory::host : Memory::gpu;
      const bool blocks = random() % 4 == 0;
      calls.push_back(std::make_unique<Call>(kind, comm, memory, count, root, 100 * round + each));
      requests.push_back(MPI_REQUEST_NULL);
      ASSERT_OK(calls.back()->begin(&requests.back()));
      if (blocks) {
        PlacedInts told(memory, rank() == root ? counting(count, each) : Ints(at(count), untouched));
        ASSERT_OK(MPI_Bcast(told.data(), count, MPI_INT, root, comm));
        EXPECT_EQ(told.get(), counting(count, each));
      }
    }
    requests.resize(at(depth + 2), MPI_REQUEST_NULL);
    ASSERT_OK(MPI_Irecv(other.data(), 1, MPI_INT, left(), 3, MPI_COMM_WORLD, &requests[at(depth)]));
    ASSERT_OK(MPI_Isend(one.data(), 1, MPI_INT, right(), 3, MPI_COMM_WORLD, &requests[at(depth) + 1]));
    switch (own_random() % 4) {
      case 0:
        ASSERT_OK(MPI_Waitall(depth + 2, requests.data(), MPI_STATUSES_IGNORE));
        break;
      case 1:
        std::shuffle(requests.begin(), requests.end(), own_random);
        for (MPI_Request& each : requests) ASSERT_OK(MPI_Wait(&each, MPI_STATUS_IGNORE));
        break;
      case 2:
        for (int left_over = depth + 2; left_over > 0;) {
          int done = 0;
          Ints indices(requests.size());
          ASSERT_OK(MPI_Testsome(depth + 2, requests.data(), &done, indices.data(), MPI_STATUSES_IGNORE));
          left_over -= done;
          if (done == 0) std::this_thread::yield();
        }
        break;
      default:
        for (int each = 0; each < depth + 2; ++each) {
          int index = -1;
          ASSERT_OK(MPI_Waitany(depth + 2, requests.data(), &index, MPI_STATUS_IGNORE));
        }
    }
    EXPECT_EQ(requests, Requests(requests.size(), MPI_REQUEST_NULL));
    EXPECT_EQ(other, Ints{left()});
    for (const auto& each : calls) each->expect_done();
  }
}

/// Requests of two communicators end in whichever order they are waited for.
TEST(QueuedPeersInOrder, two_communicators_end_in_any_order) {
  const OwnComm comms[2];
  for (int round = 0; round < 5; ++round) {
    std::vector<std::unique_ptr<Call>> calls;
    Requests requests(4, MPI_REQUEST_NULL);
    for (int each = 0; each < 4; ++each) {
      calls.push_back(
          std::make_unique<Call>(Call::alltoall, comms[each % 2].get(), Memory::gpu, plenty, 0, 10 * round + each));
    }
    const bool is_odd = rank() % 2 == 1;
    for (const int each : is_odd ? Ints{1, 0, 3, 2} : Ints{0, 1, 2, 3})
      ASSERT_OK(calls[at(each)]->begin(&requests[at(each)]));
    for (const int each : is_odd ? Ints{3, 2, 1, 0} : Ints{2, 0, 3, 1})
      ASSERT_OK(MPI_Wait(&requests[at(each)], MPI_STATUS_IGNORE));
    for (const auto& each : calls) each->expect_done();
  }
}

/// A rank that computes for long lets the others' calls end by its thread for progress.
TEST(QueuedPeersInOrder, late_ranks_hold_up_no_call_that_they_have_made) {
  if (thread_level() < MPI_THREAD_MULTIPLE) GTEST_SKIP() << "there is no thread for progress";
  if (ranks() == 1) GTEST_SKIP() << "has no peers";
  std::atomic<int>* flag = nullptr;
  MPI_Win window = MPI_WIN_NULL;
  int* base = nullptr;
  ASSERT_OK(MPI_Win_allocate_shared(rank() == 0 ? sizeof(int) : 0, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &base,
                                    &window));
  MPI_Aint size = 0;
  int unit = 0;
  ASSERT_OK(MPI_Win_shared_query(window, 0, &size, &unit, &base));
  flag = new (base) std::atomic<int>;
  if (rank() == 0) flag->store(0);
  harness_barrier();
  {
    const OwnComm comm;
    Call first(Call::alltoall, comm.get(), Memory::gpu, plenty, 0, 1);
    Call second(Call::allgather, comm.get(), Memory::gpu, plenty, 0, 2);
    Requests requests(2, MPI_REQUEST_NULL);
    ASSERT_OK(first.begin(&requests[0]));
    ASSERT_OK(second.begin(&requests[1]));
    if (rank() == ranks() - 1) {
      while (flag->load() < ranks() - 1) std::this_thread::yield();
    } else {
      ASSERT_OK(MPI_Waitall(2, requests.data(), MPI_STATUSES_IGNORE));
      flag->fetch_add(1);
    }
    ASSERT_OK(MPI_Waitall(2, requests.data(), MPI_STATUSES_IGNORE));
    first.expect_done();
    second.expect_done();
  }
  ASSERT_OK(MPI_Win_free(&window));
}

/// Freed memory is taken again, for buffers of other sizes at other places.
TEST(QueuedPeersInOrder, buffers_come_and_go_between_calls) {
  open_way(MPI_COMM_WORLD);
  for (int round = 0; round < 20; ++round) {
    Requests requests(2, MPI_REQUEST_NULL);
    Call one(Call::allgather, MPI_COMM_WORLD, Memory::gpu, 300 << (round * 7 % 4), 0, round);
    Call two(Call::alltoall, MPI_COMM_WORLD, Memory::gpu, 300 << (round * 5 % 3), 0, round + 1);
    ASSERT_OK(one.begin(&requests[0]));
    ASSERT_OK(two.begin(&requests[1]));
    ASSERT_OK(MPI_Waitall(2, requests.data(), MPI_STATUSES_IGNORE));
    one.expect_done();
    two.expect_done();
  }
}

/// The program may free its datatypes and its operations while a call waits behind another, and its communicator while
/// it is under way, whichever way it goes.
TEST(QueuedPeersInOrder, what_the_program_frees_meanwhile_is_kept) {
  for (const bool has_gap : {false, true}) {
    SCOPED_TRACE(has_gap);
    OwnComm comm;
    constexpr int pairs = plenty / 2;
    MPI_Datatype pair = MPI_DATATYPE_NULL;
    ASSERT_OK(MPI_Type_contiguous(2, MPI_INT, &pair));
    if (has_gap && rank() == ranks() - 1) {
      ASSERT_OK(MPI_Type_free(&pair));
      ASSERT_OK(MPI_Type_vector(2, 1, 2, MPI_INT, &pair));
    }
    ASSERT_OK(MPI_Type_commit(&pair));
    const int spread = has_gap && rank() == ranks() - 1 ? 2 : 1;
    PlacedInts buffer(Memory::gpu, rank() == 0 ? counting(plenty * spread, 1) : Ints(at(plenty * spread), untouched));
    MPI_Op larger = MPI_OP_NULL;
    ASSERT_OK(MPI_Op_create(keep_larger, 1, &larger));
    PlacedInts in(Memory::gpu, Ints(plenty, rank()));
    PlacedInts out(Memory::gpu, Ints(plenty, untouched));
    Requests requests(3, MPI_REQUEST_NULL);
    Call before(Call::alltoall, comm.get(), Memory::gpu, plenty, 0, 1);
    if (rank() == 0) harness_barrier();  // the others' calls wait until it comes
    ASSERT_OK(before.begin(&requests[2]));
    ASSERT_OK(MPI_Ibcast(buffer.data(), pairs, pair, 0, comm.get(), &requests[0]));
    ASSERT_OK(MPI_Iallreduce(in.data(), out.data(), plenty, MPI_INT, larger, comm.get(), &requests[1]));
    ASSERT_OK(MPI_Type_free(&pair));
    ASSERT_OK(MPI_Op_free(&larger));
    if (rank() != 0) {
      for (MPI_Request& request : requests) {
        int done = 1;
        ASSERT_OK(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
        EXPECT_EQ(done, 0);
      }
      harness_barrier();
    }
    comm.free();
    ASSERT_OK(MPI_Waitall(3, requests.data(), MPI_STATUSES_IGNORE));
    before.expect_done();
    if (spread == 1) {
      EXPECT_EQ(buffer.get().front(), 1);
    }
    EXPECT_EQ(out.get(), Ints(plenty, ranks() - 1));
  }
}

/// Others of the same one, and of its parent, whose ways begin behind it.
TEST(QueuedPeersInOrder, communicators_are_made_while_calls_are_under_way) {
  for (int round = 0; round < 20; ++round) {
    const OwnComm comm;
    Call first(Call::alltoall, comm.get(), Memory::gpu, plenty, 0, round);
    Call second(Call::allgather, comm.get(), Memory::gpu, plenty, 0, round + 1);
    Requests requests(2, MPI_REQUEST_NULL);
    ASSERT_OK(first.begin(&requests[0]));
    MPI_Comm of_same = MPI_COMM_NULL;
    MPI_Comm of_parent = MPI_COMM_NULL;
    ASSERT_OK(MPI_Comm_split(comm.get(), 0, -rank(), &of_same));
    ASSERT_OK(second.begin(&requests[1]));
    ASSERT_OK(MPI_Comm_dup(MPI_COMM_WORLD, &of_parent));
    PlacedInts told(Memory::gpu, Ints(plenty, rank()));
    ASSERT_OK(MPI_Bcast(told.data(), plenty, MPI_INT, 0, of_same));
    EXPECT_EQ(told.get(), Ints(plenty, ranks() - 1));
    Call of_new(Call::allreduce, of_same, Memory::gpu, plenty, 0, round);
    MPI_Request request = MPI_REQUEST_NULL;
    ASSERT_OK(of_new.begin(&request));
    ASSERT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    of_new.expect_done();
    ASSERT_OK(MPI_Comm_free(&of_parent));
    ASSERT_OK(MPI_Comm_free(&of_same));
    ASSERT_OK(MPI_Waitall(2, requests.data(), MPI_STATUSES_IGNORE));
    first.expect_done();
    second.expect_done();
  }
}

TEST(QueuedPeersInOrder, in_place_calls_go_by_peers) {
  const OwnComm comm;
  Ints in;
  Ints expected;
  for (int peer = 0; peer < ranks(); ++peer) {
    in.insert(in.end(), plenty, value(rank(), peer, 0));
    expected.insert(expected.end(), plenty, value(peer, rank(), 0));
  }
  PlacedInts swapped(Memory::gpu, in);
  PlacedInts gathered(Memory::gpu, Ints(at(plenty * ranks()), rank()));
  PlacedInts summed(Memory::gpu, Ints(plenty, 1));
  expect_way(Way::peers, [&] {
    Requests requests(3, MPI_REQUEST_NULL);
    ASSERT_OK(
        MPI_Ialltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, swapped.data(), plenty, MPI_INT, comm.get(), &requests[0]));
    ASSERT_OK(
        MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, gathered.data(), plenty, MPI_INT, comm.get(), &requests[1]));
    ASSERT_OK(MPI_Iallreduce(MPI_IN_PLACE, summed.data(), plenty, MPI_INT, MPI_SUM, comm.get(), &requests[2]));
    ASSERT_OK(MPI_Waitall(3, requests.data(), MPI_STATUSES_IGNORE));
  });
  EXPECT_EQ(swapped.get(), expected);
  for (int peer = 0; peer < ranks(); ++peer) EXPECT_EQ(gathered.get()[at(plenty * peer)], peer);
  EXPECT_EQ(summed.get(), Ints(plenty, ranks()));
}

/// What fails on a rank before it has answered sends all ranks to the MPI, and the next call not.
TEST(QueuedPeersInOrder, what_fails_before_an_answer_sends_all_ranks_to_the_mpi) {
  if (ranks() == 1) GTEST_SKIP() << "has no peers";
  using Step = FakeGpu::Step;
  const OwnComm comm;
  for (const Step step : {Step::why_not_exported, Step::export_to, Step::import}) {
    SCOPED_TRACE(static_cast<int>(step));
    for (const Way way : {Way::host, Way::peers}) {
      Call call(Call::alltoall, comm.get(), Memory::gpu, plenty, 0, static_cast<int>(step));
      if (way == Way::host && rank() == 1) FakeGpu::instance().fail_next(step);
      expect_way(way, [&] {
        MPI_Request request = MPI_REQUEST_NULL;
        ASSERT_OK(call.begin(&request));
        ASSERT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
      });
      call.expect_done();
      EXPECT_TRUE(FakeGpu::instance().has_failed());
      harness_barrier();
    }
  }
}

/// Which the driver does not tell from host memory before a call. The copies of the first one keep the second in the
/// queue.
TEST(QueuedPeersInOrder, memory_that_was_freed_meanwhile_is_an_error) {
  if (ranks() == 1) GTEST_SKIP() << "has no peers";
  const OwnComm comm;
  const ErrorsReturn returned(comm.get());
  Call first(Call::alltoall, comm.get(), Memory::gpu, plenty, 0, 1);
  auto second = std::make_unique<Call>(Call::alltoall, comm.get(), Memory::gpu, plenty, 0, 2);
  Requests requests(2, MPI_REQUEST_NULL);
  FakeGpu::instance().hold_all(true);
  ASSERT_OK(first.begin(&requests[0]));
  ASSERT_OK(second->begin(&requests[1]));
  second = nullptr;
  harness_barrier();
  FakeGpu::instance().hold_all(false);
  EXPECT_OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
  first.expect_done();
  EXPECT_ERROR(MPI_Wait(&requests[1], MPI_STATUS_IGNORE), MPI_ERR_BUFFER, "MPI_Wait", "was it freed");
  EXPECT_EQ(requests[1], MPI_REQUEST_NULL);
}

/// A copy that fails is an error on all ranks, and the next call is none the worse for it.
TEST(QueuedPeersInOrder, a_copy_that_fails_is_an_error_on_all_ranks) {
  if (ranks() == 1) GTEST_SKIP() << "has no peers";
  const OwnComm comm;
  const ErrorsReturn returned(comm.get());
  Call call(Call::alltoall, comm.get(), Memory::gpu, plenty, 0, 1);
  const auto completed = [&] {
    MPI_Request request = MPI_REQUEST_NULL;
    EXPECT_OK(call.begin(&request));
    const int code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    EXPECT_EQ(request, MPI_REQUEST_NULL);
    return code;
  };
  EXPECT_OK(completed());
  harness_barrier();
  if (rank() == 0) {
    FakeGpu::instance().limit_copies(1);
    EXPECT_ERROR(completed(), MPI_ERR_OTHER, "MPI_Wait", "takes no more copies");
    FakeGpu::instance().limit_copies(FakeGpu::no_limit);
  } else {
    EXPECT_ERROR(completed(), MPI_ERR_OTHER, "MPI_Wait", "rank 0 could not do its part");
  }
  harness_barrier();
  EXPECT_OK(completed());
  call.expect_done();
}

/// What the error handler of a communicator hears. Behind one of the program's MPICH 5.0 returns success.
class Hearing {
 public:
  explicit Hearing(MPI_Comm comm, bool with_self = false) : comm_(comm), with_self_(with_self) {
    heard = 0;
    heard_of = MPI_COMM_NULL;
    EXPECT_OK(MPI_Comm_create_errhandler(&hear, &handler_));
    set(handler_);
  }
  ~Hearing() {
    set(MPI_ERRORS_ARE_FATAL);
    EXPECT_OK(MPI_Errhandler_free(&handler_));
    in_handler = nullptr;
  }
  Hearing(const Hearing&) = delete;
  Hearing& operator=(const Hearing&) = delete;

  /// Since the last time, all of them on this communicator.
  int take() {
    EXPECT_TRUE(heard == 0 || heard_of == comm_) << "a handle that the program has never seen";
    return std::exchange(heard, 0);
  }
  /// The last one's.
  static int error_class() { return class_of(heard_code); }
  /// What the program does in its handler, the first time.
  static inline std::function<void()> in_handler;

 private:
  static void hear(MPI_Comm* comm, int* code, ...) {
    ++heard;
    heard_of = *comm;
    heard_code = *code;
    if (heard == 1 && in_handler) in_handler();
  }
  void set(MPI_Errhandler handler) {
    EXPECT_OK(MPI_Comm_set_errhandler(comm_, handler));
    if (with_self_) {
      EXPECT_OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, handler));
    }
  }
  static inline int heard = 0;
  static inline int heard_code = MPI_SUCCESS;
  static inline MPI_Comm heard_of = MPI_COMM_NULL;

  MPI_Comm comm_;
  bool with_self_;  ///< whose handler MPICH calls for an error in an array
  MPI_Errhandler handler_ = MPI_ERRHANDLER_NULL;
};

/// A call that the MPI refuses is an error at the call, and none: the next one is in its place. So it is where it would
/// be the first in the queue, or comes behind others, and whatever memory it has.
TEST(QueuedPeersInOrder, a_mistake_is_an_error_of_the_call) {
  const OwnComm comm;
  const ErrorsReturn returned(comm.get());
  Hearing hearing(comm.get());
  for (const Memory memory : {Memory::gpu, Memory::host}) {
    for (const bool is_behind : {false, true}) {
      SCOPED_TRACE(testing::Message() << (memory == Memory::gpu ? "gpu" : "host") << (is_behind ? ", behind" : ""));
      Call before(Call::alltoall, comm.get(), Memory::gpu, plenty, 0, 1);
      Call behind(Call::bcast, comm.get(), Memory::gpu, plenty, 0, 2);
      Requests requests(2, MPI_REQUEST_NULL);
      if (is_behind && ranks() == 1) continue;
      if (is_behind && rank() == 0) harness_barrier();
      ASSERT_OK(before.begin(&requests[0]));
      if (!is_behind) {
        ASSERT_OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
      }
      if (rank() == ranks() - 1) {
        PlacedInts buffer(memory, Ints(plenty, rank()));
        MPI_Request request = MPI_REQUEST_NULL;
        const auto refused = [&](int) {
          if (hearing.take() != 1) ADD_FAILURE() << "the error handler hears of it once";
          return Hearing::error_class();
        };
        EXPECT_EQ(refused(MPI_Ibcast(buffer.data(), plenty, MPI_INT, ranks(), comm.get(), &request)), MPI_ERR_ROOT);
        EXPECT_EQ(refused(MPI_Ibcast(buffer.data(), -1, MPI_INT, 0, comm.get(), &request)), MPI_ERR_COUNT);
        EXPECT_EQ(refused(MPI_Ibcast(buffer.data(), plenty, MPI_DATATYPE_NULL, 0, comm.get(), &request)), MPI_ERR_TYPE);
        EXPECT_EQ(
            refused(MPI_Iallreduce(MPI_IN_PLACE, buffer.data(), plenty, MPI_FLOAT, MPI_BAND, comm.get(), &request)),
            MPI_ERR_OP);
        EXPECT_ERROR(MPI_Ibcast(buffer.data(), plenty, MPI_INT, 0, comm.get(), nullptr), MPI_ERR_ARG, "MPI_Ibcast",
                     "request");
        EXPECT_EQ(hearing.take(), 0) << "that is MPI_COMM_SELF's";
        if (ranks() > 1) {
          MPI_Datatype uncommitted = MPI_DATATYPE_NULL;
          ASSERT_OK(MPI_Type_contiguous(plenty, MPI_INT, &uncommitted));
          EXPECT_EQ(refused(MPI_Ibcast(buffer.data(), 1, uncommitted, 0, comm.get(), &request)), MPI_ERR_TYPE);
          ASSERT_OK(MPI_Type_free(&uncommitted));
        }
        EXPECT_EQ(request, MPI_REQUEST_NULL);
      }
      if (is_behind && rank() != 0) harness_barrier();
      expect_way(Way::peers, [&] {
        ASSERT_OK(behind.begin(&requests[1]));
        ASSERT_OK(MPI_Waitall(2, requests.data(), MPI_STATUSES_IGNORE));
      });
      before.expect_done();
      behind.expect_done();
    }
  }
}

/// Which no check of ours finds: what the MPI then finds behind others is an error of the request, and the calls behind
/// it are made.
void mistake_that_is_found_late(bool handler_completes_it) {
  if (ranks() == 1 || built_for != MpiFamily::mpich) GTEST_SKIP() << "takes one buffer for both";
  const OwnComm comm;
  Hearing hearing(comm.get());
  Call before(Call::alltoall, comm.get(), Memory::gpu, plenty, 0, 1);
  Call behind(Call::bcast, comm.get(), Memory::gpu, plenty, 0, 2);
  Ints buffer(plenty, rank());
  Requests requests(3, MPI_REQUEST_NULL);
  FakeGpu::instance().hold_all(true);
  ASSERT_OK(before.begin(&requests[0]));
  ASSERT_OK(MPI_Iallreduce(buffer.data(), buffer.data(), plenty, MPI_INT, MPI_SUM, comm.get(), &requests[1]));
  ASSERT_OK(behind.begin(&requests[2]));
  FakeGpu::instance().hold_all(false);
  ASSERT_OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
  EXPECT_EQ(hearing.take(), 0);
  if (handler_completes_it) {
    Hearing::in_handler = [&] {
      EXPECT_EQ(class_of(MPI_Wait(&requests[1], MPI_STATUS_IGNORE)), MPI_ERR_BUFFER);
      EXPECT_EQ(requests[1], MPI_REQUEST_NULL);
    };
  }
  MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
  EXPECT_EQ(hearing.take(), 1);
  EXPECT_EQ(Hearing::error_class(), MPI_ERR_BUFFER);
  EXPECT_EQ(requests[1], MPI_REQUEST_NULL);
  ASSERT_OK(MPI_Wait(&requests[2], MPI_STATUS_IGNORE));
  before.expect_done();
  behind.expect_done();
  PlacedInts told(Memory::gpu, Ints(plenty, rank()));
  ASSERT_OK(MPI_Bcast(told.data(), plenty, MPI_INT, 0, comm.get()));
  EXPECT_EQ(told.get(), Ints(plenty, 0));
}
TEST(QueuedPeersInOrder, a_mistake_that_is_found_late_is_an_error_of_the_request) {
  mistake_that_is_found_late(false);
}
TEST(QueuedPeersInOrder, the_error_handler_may_complete_a_request_with_a_mistake) {
  mistake_that_is_found_late(true);
}

/// The MPI's error of a request that is its own, which it finds at completion.
TEST(QueuedPeersInOrder, the_error_handler_hears_of_errors_at_completion) {
  if (ranks() != 2 || built_for != MpiFamily::mpich) GTEST_SKIP() << "not every MPI finds it";
  const auto heard_on = [](MPI_Comm comm) {
    Call good(Call::alltoall, comm, Memory::host, plenty, 0, 1);
    MPI_Request request = MPI_REQUEST_NULL;
    EXPECT_OK(good.begin(&request));
    EXPECT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    Hearing hearing(comm);
    Ints buffer(2 * plenty, rank());
    EXPECT_OK(MPI_Ibcast(buffer.data(), rank() == 0 ? 2 * plenty : plenty, MPI_INT, 0, comm, &request));
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    harness_barrier();
    const int times = hearing.take();
    EXPECT_EQ(times, rank()) << "the one that gets too much";
    return times > 0 ? Hearing::error_class() : MPI_SUCCESS;
  };
  MPI_Comm plain = MPI_COMM_NULL;
  ASSERT_OK(MPI_Comm_dup(MPI_COMM_WORLD, &plain));
  const OwnComm queued;
  EXPECT_EQ(heard_on(queued.get()), heard_on(plain));
  ASSERT_OK(MPI_Comm_free(&plain));
}

/// On a communicator on which the MPI makes nonblocking collectives on host memory, and of which only the program's
/// handler may hear.
class TooLong {
 public:
  TooLong() {
    Call good(Call::alltoall, comm_.get(), Memory::host, plenty, 0, 1);
    MPI_Request request = MPI_REQUEST_NULL;
    EXPECT_OK(good.begin(&request));
    EXPECT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  }
  MPI_Comm comm() const { return comm_.get(); }
  /// Rank 1 gets too much.
  void begin(MPI_Request* request) {
    EXPECT_OK(MPI_Ibcast(buffer_.data(), rank() == 0 ? 2 * plenty : plenty, MPI_INT, 0, comm(), request));
  }

 private:
  const OwnComm comm_;
  Ints buffer_ = Ints(2 * plenty, rank());
};

TEST(QueuedPeersInOrder, the_error_handler_hears_once_of_an_error_in_an_array) {
  if (ranks() != 2 || built_for != MpiFamily::mpich) GTEST_SKIP() << "not every MPI finds it";
  TooLong too_long;
  Hearing hearing(too_long.comm(), true);
  Call good(Call::alltoall, too_long.comm(), Memory::host, plenty, 0, 2);
  std::vector<MPI_Request> requests(2, MPI_REQUEST_NULL);
  std::vector<MPI_Status> statuses(2);
  too_long.begin(requests.data());
  ASSERT_OK(good.begin(&requests[1]));
  const int code = MPI_Waitall(2, requests.data(), statuses.data());
  EXPECT_EQ(hearing.take(), rank());
  if (rank() == 1) {
    EXPECT_EQ(class_of(code), MPI_ERR_IN_STATUS);
    EXPECT_EQ(class_of(statuses[0].MPI_ERROR), Hearing::error_class());
    EXPECT_EQ(statuses[1].MPI_ERROR, MPI_SUCCESS);
  }
  EXPECT_EQ(requests, std::vector<MPI_Request>(2, MPI_REQUEST_NULL));
  good.expect_done();
}

/// It gets the error, of which nobody hears again.
TEST(QueuedPeersInOrder, the_error_handler_may_complete_the_request_that_it_hears_of) {
  if (ranks() != 2 || built_for != MpiFamily::mpich) GTEST_SKIP() << "not every MPI finds it";
  TooLong too_long;
  for (const bool is_test : {false, true}) {
    Hearing hearing(too_long.comm(), true);
    MPI_Request request = MPI_REQUEST_NULL;
    int code = MPI_SUCCESS;
    Hearing::in_handler = [&] {
      int flag = 0;
      code = is_test ? MPI_Test(&request, &flag, MPI_STATUS_IGNORE) : MPI_Wait(&request, MPI_STATUS_IGNORE);
      EXPECT_EQ(request, MPI_REQUEST_NULL);
    };
    too_long.begin(&request);
    for (int flag = 0; is_test && flag == 0 && request != MPI_REQUEST_NULL;)
      MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    EXPECT_EQ(hearing.take(), rank());
    EXPECT_EQ(code != MPI_SUCCESS, rank() == 1);
    EXPECT_EQ(request, MPI_REQUEST_NULL);
    harness_barrier();
  }
}

/// What one MPI takes and no kernel computes: the ranks choose the same way whatever each has found.
TEST(QueuedPeersInOrder, operations_that_gpus_do_not_have_are_the_mpis) {
  const OwnComm comm;
  {
    const ErrorsReturn returned(MPI_COMM_SELF);
    char one = 1;
    char all = 0;
    if (MPI_Allreduce(&one, &all, 1, MPI_CHAR, MPI_SUM, MPI_COMM_SELF) != MPI_SUCCESS)
      GTEST_SKIP() << "this MPI does not take it";
  }
  for (const int on_host : {ranks() - 1, -1}) {
    PlacedInts in(rank() == on_host ? Memory::host : Memory::gpu, Ints(plenty, 0x01010101));
    PlacedInts out(rank() == on_host ? Memory::host : Memory::gpu, Ints(plenty, untouched));
    MPI_Request request = MPI_REQUEST_NULL;
    ASSERT_OK(MPI_Iallreduce(in.data(), out.data(), plenty * 4, MPI_CHAR, MPI_SUM, comm.get(), &request));
    ASSERT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    EXPECT_EQ(out.get(), Ints(plenty, 0x01010101 * ranks()));
  }
}

/// Before a blocking call has gone by peers on a communicator nothing of Partita's stands in the way of its nonblocking
/// ones, nor of what other communicators do meanwhile.
TEST(QueuedPeersInOrder, calls_are_the_mpis_until_a_blocking_one_has_gone_by_peers) {
  MPI_Comm comm = MPI_COMM_NULL;
  ASSERT_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  Call call(Call::alltoall, comm, Memory::gpu, plenty, 0, 1);
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Comm other = MPI_COMM_NULL;
  if (rank() != 0) {
    ASSERT_OK(MPI_Comm_dup(MPI_COMM_WORLD, &other));
  }
  expect_way(Way::host, [&] {
    ASSERT_OK(call.begin(&request));
    if (rank() == 0) {
      ASSERT_OK(MPI_Comm_dup(MPI_COMM_WORLD, &other));
    }
    ASSERT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  });
  call.expect_done();
  open_way(comm);
  expect_way(Way::peers, [&] {
    ASSERT_OK(call.begin(&request));
    ASSERT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  });
  ASSERT_OK(MPI_Comm_free(&other));
  ASSERT_OK(MPI_Comm_free(&comm));
}

/// Neither what the program keeps with its communicator nor its callbacks are any business of Partita's.
TEST(QueuedPeersInOrder, attributes_are_not_copied) {
  static int copied = 0;
  static int deleted = 0;
  copied = deleted = 0;
  int key = MPI_KEYVAL_INVALID;
  ASSERT_OK(MPI_Comm_create_keyval(
      [](MPI_Comm, int, void*, void* value, void* to, int* flag) {
        ++copied;
        *static_cast<void**>(to) = value;
        *flag = 1;
        return MPI_SUCCESS;
      },
      [](MPI_Comm, int, void*, void*) {
        ++deleted;
        return MPI_SUCCESS;
      },
      &key, nullptr));
  MPI_Comm comm = MPI_COMM_NULL;
  ASSERT_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  ASSERT_OK(MPI_Comm_set_attr(comm, key, &copied));
  open_way(comm);
  {
    Call call(Call::alltoall, comm, Memory::gpu, plenty, 0, 1);
    MPI_Request request = MPI_REQUEST_NULL;
    ASSERT_OK(call.begin(&request));
    ASSERT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    call.expect_done();
  }
  ASSERT_OK(MPI_Comm_free(&comm));
  {
    const OwnComm next;
  }
  EXPECT_EQ(copied, 0);
  EXPECT_EQ(deleted, 1);
  ASSERT_OK(MPI_Comm_free_keyval(&key));
}

/// The driver may wait for kernels of the program's where it maps memory, and they for another request.
TEST(QueuedPeersInOrder, slow_mapping_holds_up_nothing_else) {
  if (ranks() == 1) GTEST_SKIP() << "maps nothing";
  const OwnComm comm;
  const OwnComm other_comm;
  Call call(Call::alltoall, comm.get(), Memory::gpu, plenty, 0, 1);
  Call behind(Call::alltoall, other_comm.get(), Memory::gpu, plenty, 0, 2);
  std::vector<MPI_Request> requests(3, MPI_REQUEST_NULL);
  FakeGpu::instance().hold_imports(true);
  const std::uint64_t before = FakeGpu::instance().imports();
  ASSERT_OK(call.begin(&requests[0]));
  const auto is_done = [&](MPI_Request& request) {
    int done = 0;
    EXPECT_OK(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
    return done != 0;
  };
  while (FakeGpu::instance().imports() == before) ASSERT_FALSE(is_done(requests[0]));
  ASSERT_OK(behind.begin(&requests[2]));
  // Ranks in a ring, by partitioned messages, which the engine moves.
  int one = rank();
  int other = -1;
  ASSERT_OK(MPI_Psend_init(&one, 1, 1, MPI_INT, right(), 5, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]));
  MPI_Request received = MPI_REQUEST_NULL;
  ASSERT_OK(MPI_Precv_init(&other, 1, 1, MPI_INT, left(), 5, MPI_COMM_WORLD, MPI_INFO_NULL, &received));
  ASSERT_OK(MPI_Start(&requests[1]));
  ASSERT_OK(MPI_Start(&received));
  ASSERT_OK(MPI_Pready(0, requests[1]));
  ASSERT_OK(MPI_Wait(&received, MPI_STATUS_IGNORE));
  ASSERT_OK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
  EXPECT_EQ(other, left());
  EXPECT_FALSE(is_done(requests[0]));
  harness_barrier();
  FakeGpu::instance().hold_imports(false);
  ASSERT_OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
  ASSERT_OK(MPI_Wait(&requests[2], MPI_STATUS_IGNORE));
  call.expect_done();
  behind.expect_done();
  ASSERT_OK(MPI_Request_free(&requests[1]));
  ASSERT_OK(MPI_Request_free(&received));
}

/// MPI-4, section 6.12: neither freed nor cancelled.
TEST(QueuedPeersInOrder, are_completed_before_they_are_freed) {
  if (ranks() == 1) GTEST_SKIP() << "is complete at once";
  const OwnComm comm;
  const ErrorsReturn errors_return(comm.get());
  Call call(Call::alltoall, comm.get(), Memory::gpu, plenty, 0, 1);
  MPI_Request request = MPI_REQUEST_NULL;
  if (rank() != 0) harness_barrier();
  ASSERT_OK(call.begin(&request));
  if (rank() == 0) {
    EXPECT_ERROR(MPI_Request_free(&request), MPI_ERR_REQUEST, "MPI_Request_free", "not complete", "MPI_Ialltoall");
    EXPECT_ERROR(MPI_Cancel(&request), MPI_ERR_REQUEST, "MPI_Cancel", "cannot be cancelled");
    EXPECT_NE(request, MPI_REQUEST_NULL);
    harness_barrier();
  }
  EXPECT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  call.expect_done();
}

/// No host waits for its GPU: a wait takes steps, and a test says that the copies are under way.
TEST(QueuedPeersInOrder, end_with_the_last_copy) {
  if (ranks() == 1) GTEST_SKIP() << "has no peers";
  const OwnComm comm;
  Call call(Call::alltoall, comm.get(), Memory::gpu, plenty, 0, 1);
  MPI_Request request = MPI_REQUEST_NULL;
  if (rank() == 0) FakeGpu::instance().hold_all(true);
  ASSERT_OK(call.begin(&request));
  int done = 1;
  for (int look = 0; look < 100; ++look) {
    EXPECT_OK(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
    ASSERT_EQ(done, 0);
  }
  harness_barrier();
  if (rank() == 0) FakeGpu::instance().hold_all(false);
  ASSERT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  call.expect_done();
}

/// Small calls are the MPI's own, with its own requests. Large ones on host memory it makes at once where none waits
/// before them, on Partita's communicator. No GPU has to do with either.
TEST(QueuedPeersInOrder, calls_on_host_memory_are_the_mpis) {
  const OwnComm comm;
  const std::uint64_t before = FakeGpu::instance().operations();
  for (int round = 0; round < 10; ++round) {
    for (const int count : {1, plenty}) {
      Call call(Call::alltoall, comm.get(), Memory::host, count, 0, round);
      MPI_Request request = MPI_REQUEST_NULL;
      ASSERT_OK(call.begin(&request));
      EXPECT_EQ(dropin::ours(request) == PARTITA_REQUEST_NULL, count == 1);
      ASSERT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
      call.expect_done();
    }
  }
  EXPECT_EQ(FakeGpu::instance().operations(), before);
}

/// While a duplicate is under way an MPI may hold up other constructors until all ranks have begun it; so the first
/// call by peers makes none then.
TEST(QueuedPeersIdup, nothing_is_made_beside_a_duplicate_of_the_programs) {
  if (ranks() == 1) GTEST_SKIP() << "waits for nobody";
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm duplicate = MPI_COMM_NULL;
  ASSERT_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  Requests requests(2, MPI_REQUEST_NULL);
  if (rank() == 0) {
    ASSERT_OK(MPI_Comm_idup(MPI_COMM_WORLD, &duplicate, &requests[0]));
  }
  open_way(comm);
  if (rank() != 0) {
    ASSERT_OK(MPI_Comm_idup(MPI_COMM_WORLD, &duplicate, &requests[0]));
  }
  Call call(Call::alltoall, comm, Memory::gpu, plenty, 0, 1);
  expect_way(Way::host, [&] {
    ASSERT_OK(call.begin(&requests[1]));
    ASSERT_OK(MPI_Waitall(2, requests.data(), MPI_STATUSES_IGNORE));
  });
  call.expect_done();
  ASSERT_OK(MPI_Comm_free(&duplicate));
  ASSERT_OK(MPI_Comm_free(&comm));
}

/// The MPI may hold up one constructor for another in the same process: while another thread has one under way the
/// first call by peers makes none, and a later one does.
TEST(QueuedPeersInOrder, nothing_is_made_beside_a_constructor_of_another_thread) {
  if (thread_level() < MPI_THREAD_MULTIPLE) GTEST_SKIP() << "there is no other thread";
  if (ranks() == 1) GTEST_SKIP() << "waits for nobody";
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm duplicate = MPI_COMM_NULL;
  ASSERT_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  const auto duplicates = [&] { EXPECT_OK(MPI_Comm_dup(MPI_COMM_WORLD, &duplicate)); };
  harness_barrier();
  if (rank() == 0) {
    std::thread other(duplicates);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));  // until it is there
    open_way(comm);
    other.join();
  } else {
    open_way(comm);
    duplicates();
  }
  Call call(Call::alltoall, comm, Memory::gpu, plenty, 0, 1);
  for (const Way way : {Way::host, Way::peers}) {
    MPI_Request request = MPI_REQUEST_NULL;
    expect_way(way, [&] {
      ASSERT_OK(call.begin(&request));
      ASSERT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    });
    call.expect_done();
    open_way(comm);
  }
  ASSERT_OK(MPI_Comm_free(&duplicate));
  ASSERT_OK(MPI_Comm_free(&comm));
}

/// Those that begin while the first call by peers makes a communicator, and those during which it comes.
TEST(QueuedPeersInOrder, constructors_of_another_thread_go_on) {
  if (thread_level() < MPI_THREAD_MULTIPLE) GTEST_SKIP() << "there is no other thread";
  constexpr int rounds = 20;
  std::vector<MPI_Comm> comms(rounds, MPI_COMM_NULL);
  MPI_Comm parent = MPI_COMM_NULL;
  ASSERT_OK(MPI_Comm_dup(MPI_COMM_WORLD, &parent));
  for (MPI_Comm& comm : comms) ASSERT_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  harness_barrier();
  std::thread other([&] {
    for (int round = 0; round < rounds; ++round) {
      MPI_Comm made = MPI_COMM_NULL;
      EXPECT_OK(MPI_Comm_dup(parent, &made));
      EXPECT_OK(MPI_Comm_free(&made));
    }
  });
  for (const MPI_Comm comm : comms) {
    open_way(comm);
    Call call(Call::alltoall, comm, Memory::gpu, plenty, 0, 1);
    MPI_Request request = MPI_REQUEST_NULL;
    EXPECT_OK(call.begin(&request));
    EXPECT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    call.expect_done();
  }
  other.join();
  for (MPI_Comm& comm : comms) ASSERT_OK(MPI_Comm_free(&comm));
  ASSERT_OK(MPI_Comm_free(&parent));
}

/// PARTITA_TIMEOUT is 3 here. Who does not come is named, and all that comes behind is an error.
TEST(QueuedPeersTimeout, names_the_rank_that_does_not_come) {
  if (ranks() == 1) GTEST_SKIP() << "waits for nobody";
  MPI_Comm comm = MPI_COMM_NULL;
  ASSERT_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  open_way(comm);
  {
    const ErrorsReturn returned(comm);
    Call good(Call::alltoall, comm, Memory::gpu, plenty, 0, 1);
    MPI_Request request = MPI_REQUEST_NULL;
    ASSERT_OK(good.begin(&request));
    ASSERT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    Call one(Call::alltoall, comm, Memory::gpu, plenty, 0, 2);
    Call two(Call::allgather, comm, Memory::gpu, plenty, 0, 3);
    Requests requests(2, MPI_REQUEST_NULL);
    if (rank() == 0) {
      ASSERT_OK(one.begin(&requests[0]));
      ASSERT_OK(two.begin(&requests[1]));
      EXPECT_ERROR(MPI_Wait(&requests[1], MPI_STATUS_IGNORE), MPI_ERR_OTHER, "MPI_Wait", "made before it",
                   "waits for rank 1 to enter it", "PARTITA_TIMEOUT");
      EXPECT_ERROR(MPI_Wait(&requests[0], MPI_STATUS_IGNORE), MPI_ERR_OTHER, "given up");
      EXPECT_ERROR(MPI_Ialltoall(nullptr, plenty, MPI_INT, nullptr, plenty, MPI_INT, comm, &request), MPI_ERR_OTHER,
                   "an earlier collective on the communicator has failed");
      harness_barrier();
    } else {
      harness_barrier();
      int code = one.begin(&requests[0]);
      if (code == MPI_SUCCESS) code = MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
      EXPECT_ERROR(code, MPI_ERR_OTHER, "rank 0", "given up");
      EXPECT_ERROR(MPI_Bcast(nullptr, plenty, MPI_INT, 0, comm), MPI_ERR_OTHER, "given up");
    }
  }
  harness_barrier();
  ASSERT_OK(MPI_Comm_free(&comm));
}

/// Neither does a GPU that does not come to its copies let anybody wait without a word.
TEST(QueuedPeersTimeout, names_the_gpu_that_does_not_copy) {
  if (ranks() == 1) GTEST_SKIP() << "waits for nobody";
  MPI_Comm comm = MPI_COMM_NULL;
  ASSERT_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  open_way(comm);
  {
    const ErrorsReturn returned(comm);
    Call call(Call::bcast, comm, Memory::gpu, plenty, 0, 1);
    MPI_Request request = MPI_REQUEST_NULL;
    if (rank() == 0) FakeGpu::instance().hold_all(true);
    ASSERT_OK(call.begin(&request));
    const int code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (rank() == 0) {
      EXPECT_ERROR(code, MPI_ERR_OTHER, "MPI_Wait", "of this rank to copy what it sends", "PARTITA_TIMEOUT");
    } else {
      EXPECT_ERROR(code, MPI_ERR_OTHER, "MPI_Wait", "rank 0");
    }
    EXPECT_EQ(request, MPI_REQUEST_NULL);
    harness_barrier();
    if (rank() == 0) FakeGpu::instance().hold_all(false);
    // What was held comes late, and is over once what stands behind it is.
    open_way(MPI_COMM_WORLD);
    Call behind(Call::bcast, MPI_COMM_WORLD, Memory::gpu, plenty, 0, 2);
    ASSERT_OK(behind.begin(&request));
    ASSERT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    while (!call.has_all()) std::this_thread::yield();
    harness_barrier();
  }
  ASSERT_OK(MPI_Comm_free(&comm));
}

/// Nor does it take back what the GPU of this rank is at, because nobody waits any longer for a call behind it.
TEST(QueuedPeersTimeout, what_gpus_are_at_stays_where_a_later_call_is_given_up) {
  if (ranks() == 1) GTEST_SKIP() << "waits for nobody";
  MPI_Comm comm = MPI_COMM_NULL;
  ASSERT_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  open_way(comm);
  {
    const ErrorsReturn returned(comm);
    Call one(Call::reduce, comm, Memory::gpu, plenty, 0, 1);  // takes memory on the GPU of the other rank
    Call two(Call::allreduce, comm, Memory::gpu, plenty, 0, 2);
    Requests requests(2, MPI_REQUEST_NULL);
    FakeGpu& gpu = FakeGpu::instance();
    gpu.hold_all(true);
    const std::uint64_t before = gpu.operations();
    ASSERT_OK(one.begin(&requests[0]));
    ASSERT_OK(two.begin(&requests[1]));
    while (gpu.operations() == before) {
      int done = 1;
      ASSERT_OK(MPI_Test(&requests[0], &done, MPI_STATUS_IGNORE));
      ASSERT_EQ(done, 0);
    }
    harness_barrier();
    const std::size_t allocations = gpu.allocations();
    EXPECT_ERROR(MPI_Wait(&requests[1], MPI_STATUS_IGNORE), MPI_ERR_OTHER, "MPI_Wait");
    EXPECT_ERROR(MPI_Wait(&requests[0], MPI_STATUS_IGNORE), MPI_ERR_OTHER, "given up");
    EXPECT_EQ(gpu.allocations(), allocations) << "its copies are still to come";
    harness_barrier();
    gpu.hold_all(false);
    while (!one.has_all()) std::this_thread::yield();
    harness_barrier();
  }
  ASSERT_OK(MPI_Comm_free(&comm));
}

/// A blocking one behind it does not wait without a word either.
TEST(QueuedPeersTimeout, a_blocking_call_behind_it_says_what_it_waits_for) {
  if (ranks() == 1) GTEST_SKIP() << "waits for nobody";
  MPI_Comm comm = MPI_COMM_NULL;
  ASSERT_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  open_way(comm);
  {
    const ErrorsReturn returned(comm);
    Call call(Call::alltoall, comm, Memory::gpu, plenty, 0, 1);
    PlacedInts told(Memory::gpu, Ints(plenty, 1));
    MPI_Request request = MPI_REQUEST_NULL;
    if (rank() == 0) {
      MPI_Request made = MPI_REQUEST_NULL;
      ASSERT_OK(call.begin(&made));
      EXPECT_ERROR(MPI_Bcast(told.data(), plenty, MPI_INT, 0, comm), MPI_ERR_OTHER, "MPI_Bcast",
                   "waits for the nonblocking ones before it", "PARTITA_TIMEOUT");
      EXPECT_ERROR(MPI_Wait(&made, MPI_STATUS_IGNORE), MPI_ERR_OTHER, "given up");
      harness_barrier();
    } else {
      harness_barrier();
    }
    if (rank() != 0) {
      int code = call.begin(&request);
      if (code == MPI_SUCCESS) code = MPI_Wait(&request, MPI_STATUS_IGNORE);
      EXPECT_NE(code, MPI_SUCCESS);
    }
  }
  harness_barrier();
  ASSERT_OK(MPI_Comm_free(&comm));
}

}  // namespace
}  // namespace partita::test
