// Random arrays of requests of all kinds in random completion calls: each completes once, and as the MPI itself says of
// a twin that it has on host memory, in another communicator. PARTITEST_SEED repeats a run.
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "dropin/native.hpp"
#include "mpi/dropin_ring.hpp"
#include "support/errors.hpp"
#include "support/placed_ints.hpp"
#include "support/random.hpp"

namespace partita::test {
namespace {

using dropin::native;

enum class Kind {
  null,
  inactive,
  receive,
  persistent,
  truncated,
  persistent_truncated,
  cancelled,
  send,
  partitioned,
  generalized,
};
constexpr int kinds = 10;

/// An entry of the array, as all ranks know it. Its number is its tag.
struct Entry {
  Kind kind;
  bool on_gpu;
  bool sent_from_gpu;
  int count;
};

/// Ints in the least that is an offer, where messages are offers: what is cut shorter leaves its sender waiting.
constexpr int least_room = 63;
constexpr int first_tag_of_sends = 1000;
constexpr int most_failures = 12;

#ifdef OPEN_MPI
constexpr bool is_open_mpi = true;
#else
constexpr bool is_open_mpi = false;
#endif

bool is_persistent(Kind kind) {
  return kind == Kind::inactive || kind == Kind::persistent || kind == Kind::persistent_truncated;
}
bool is_truncated(Kind kind) {
  return kind == Kind::truncated || kind == Kind::persistent_truncated;
}

MPI_Request begin_generalized() {
  MPI_Request request = MPI_REQUEST_NULL;
  const auto query = [](void*, MPI_Status* status) {
    status->MPI_SOURCE = 3;
    status->MPI_TAG = 9;
    MPI_Status_set_cancelled(status, 0);
    return MPI_Status_set_elements(status, MPI_INT, 5);
  };
  EXPECT_OK(MPI_Grequest_start(
      query, [](void*) { return MPI_SUCCESS; }, [](void*, int) { return MPI_SUCCESS; }, nullptr, &request));
  return request;
}

/// A communicator of its own, in which errors come back.
class OwnComm {
 public:
  OwnComm() {
    EXPECT_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    EXPECT_OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
  }
  ~OwnComm() { EXPECT_OK(MPI_Comm_free(&comm)); }
  OwnComm(const OwnComm&) = delete;
  OwnComm& operator=(const OwnComm&) = delete;

  MPI_Comm comm = MPI_COMM_NULL;
};

/// One array, of the same kinds of requests on all ranks.
class RandomArray {
 public:
  RandomArray(std::uint64_t round, MPI_Comm comm, MPI_Comm of_twins)
      : random_(job_seed(), 2 * round), own_(job_seed(), 2 * round + 1), comm_(comm), of_twins_(of_twins) {}

  void complete_in_random_calls() {
    draw();
    make();
    made_ = requests_;
    std::vector<int> order = random_.permutation(size());
    while (!order.empty() && !testing::Test::HasFatalFailure()) {
      expect_nothing_to_complete();
      // A rank that is ahead would deliver to one that still looks. The others may wait for steps that this one takes.
      ASSERT_OK(MPI_Barrier(comm_));
      for (int now = random_.integer(1, static_cast<int>(order.size())); now > 0; --now) {
        deliver(order.back());
        order.pop_back();
      }
      while (outstanding() > 0 && !testing::Test::HasFatalFailure()) call(order.empty());
    }
    if (testing::Test::HasFatalFailure()) return;
    expect_none_active();
    end();
  }

 private:
  enum class State { idle, active, delivered, completed };

  int size() const { return static_cast<int>(entries_.size()); }
  const Entry& entry(int i) const { return entries_[static_cast<std::size_t>(i)]; }
  State& state(int i) { return states_[static_cast<std::size_t>(i)]; }
  MPI_Request& request(int i) { return requests_[static_cast<std::size_t>(i)]; }
  MPI_Request& twin(int i) { return twins_[static_cast<std::size_t>(i)]; }
  int count_in(State wanted) const { return static_cast<int>(std::ranges::count(states_, wanted)); }
  bool stays(int i) const { return is_persistent(entry(i).kind) || entry(i).kind == Kind::partitioned; }
  int outstanding() const { return count_in(State::delivered); }

  void draw() {
    const int largest = random_.one_in(6) ? 150 : 16;
    const int entries = random_.integer(1, largest);
    int failures = 0;
    for (int i = 0; i < entries; ++i) {
      auto kind = static_cast<Kind>(random_.integer(0, kinds - 1));
      // MPICH keeps the sentences of so many errors only, and takes the code of an older one for a mistake of its own.
      if (is_truncated(kind) && ++failures > most_failures) kind = Kind::receive;
      // MPICH 5.0.2 loses what was wrong with a persistent request of its own in MPI_Testsome.
      bool on_gpu = kind == Kind::persistent_truncated || random_.one_in(2);
      // Where a request in an array fails, Open MPI frees those of its own, too, that have not been started but take
      // the place in memory of one that failed earlier, and with it the error.
      if (is_open_mpi && kind == Kind::inactive) on_gpu = true;
      entries_.push_back({kind, on_gpu, !is_truncated(kind) && random_.one_in(2), random_.integer(1, 400)});
    }
  }

  int room_of(const Entry& entry) const { return is_truncated(entry.kind) ? least_room : entry.count; }
  /// What is sent to it.
  int sent_to(const Entry& entry) const { return is_truncated(entry.kind) ? least_room + entry.count : entry.count; }

  void make() {
    for (int i = 0; i < size(); ++i) {
      const Entry& each = entry(i);
      const bool has_memory = each.kind != Kind::null && each.kind != Kind::generalized;
      const int room = std::max(room_of(each), sent_to(each));
      in_.push_back(!has_memory ? nullptr
                                : std::make_unique<PlacedInts>(each.on_gpu ? Memory::gpu : Memory::host,
                                                               Ints(static_cast<std::size_t>(room), -1)));
      of_twin_.emplace_back(static_cast<std::size_t>(room), -1);
      out_.push_back(nullptr);
      requests_.push_back(MPI_REQUEST_NULL);
      twins_.push_back(MPI_REQUEST_NULL);
      states_.push_back(each.kind == Kind::null || each.kind == Kind::inactive ? State::idle : State::active);
      make_one(i);
    }
  }

  void make_one(int i) {
    const Entry& each = entry(i);
    int* const to = in_.back() == nullptr ? nullptr : in_.back()->data();
    int* const to_twin = of_twin_.back().data();
    const int room = room_of(each);
    switch (each.kind) {
      case Kind::null:
        return;
      case Kind::receive:
      case Kind::truncated:
      case Kind::cancelled:
        ASSERT_OK(MPI_Irecv(to, room, MPI_INT, left(), i, comm_, &request(i)));
        ASSERT_OK(native().Irecv(to_twin, room, MPI_INT, left(), i, of_twins_, &twin(i)));
        return;
      case Kind::inactive:
      case Kind::persistent:
      case Kind::persistent_truncated:
        ASSERT_OK(MPI_Recv_init(to, room, MPI_INT, left(), i, comm_, &request(i)));
        ASSERT_OK(native().Recv_init(to_twin, room, MPI_INT, left(), i, of_twins_, &twin(i)));
        if (each.kind == Kind::inactive) return;
        ASSERT_OK(MPI_Start(&request(i)));
        ASSERT_OK(native().Start(&twin(i)));
        return;
      case Kind::send:
        in_.back()->set(counting(each.count, i));
        ASSERT_OK(MPI_Issend(to, each.count, MPI_INT, right(), first_tag_of_sends + i, comm_, &request(i)));
        ASSERT_OK(native().Issend(to_twin, each.count, MPI_INT, right(), first_tag_of_sends + i, of_twins_, &twin(i)));
        return;
      case Kind::partitioned:
        rings_.push_back(std::make_unique<Ring>(1, each.count, comm_, i));
        rings_.back()->start();
        request(i) = rings_.back()->recv;
        ring_of_.emplace_back(i, rings_.back().get());
        ASSERT_OK(native().Irecv(to_twin, room, MPI_INT, left(), i, of_twins_, &twin(i)));
        return;
      case Kind::generalized:
        request(i) = begin_generalized();
        twin(i) = begin_generalized();
    }
  }

  Ring& ring(int i) {
    return *std::ranges::find(ring_of_, i, [](const auto& each) { return each.first; })->second;
  }

  /// What it waits for comes to pass, for its twin as well.
  void deliver(int i) {
    const Entry& each = entry(i);
    if (state(i) != State::active) return;
    state(i) = State::delivered;
    if (each.kind == Kind::cancelled) {
      ASSERT_OK(MPI_Cancel(&request(i)));
      ASSERT_OK(native().Cancel(&twin(i)));
      return;
    }
    if (each.kind == Kind::generalized) {
      ASSERT_OK(MPI_Grequest_complete(request(i)));
      ASSERT_OK(native().Grequest_complete(twin(i)));
      return;
    }
    helpers_.resize(helpers_.size() + 2, MPI_REQUEST_NULL);
    MPI_Request& by_ours = helpers_[helpers_.size() - 2];
    MPI_Request& by_mpi = helpers_.back();
    auto& out = out_[static_cast<std::size_t>(i)];
    out = std::make_unique<PlacedInts>(each.sent_from_gpu ? Memory::gpu : Memory::host,
                                       counting(std::max(sent_to(each), room_of(each)), i));
    outs_of_twins_.push_back(std::make_unique<Ints>(counting(sent_to(each), i)));
    int* const from_twin = outs_of_twins_.back()->data();
    if (each.kind == Kind::send) {
      ASSERT_OK(MPI_Irecv(out->data(), each.count, MPI_INT, left(), first_tag_of_sends + i, comm_, &by_ours));
      ASSERT_OK(native().Irecv(from_twin, each.count, MPI_INT, left(), first_tag_of_sends + i, of_twins_, &by_mpi));
      return;
    }
    if (each.kind == Kind::partitioned) {
      ring(i).mark_all();
    } else {
      ASSERT_OK(MPI_Isend(out->data(), sent_to(each), MPI_INT, right(), i, comm_, &by_ours));
    }
    ASSERT_OK(native().Isend(from_twin, sent_to(each), MPI_INT, right(), i, of_twins_, &by_mpi));
  }

  /// Request `i` has completed, with `code`.
  void completed(int i, int code, const MPI_Status& status) {
    ASSERT_GE(i, 0);
    ASSERT_LT(i, size());
    ASSERT_EQ(state(i), State::delivered) << "entry " << i;
    state(i) = State::completed;
    const Entry& each = entry(i);
    SCOPED_TRACE("entry " + std::to_string(i) + " of kind " + std::to_string(static_cast<int>(each.kind)));
    MPI_Status expected{};
    const int expected_code = native().Wait(&twin(i), &expected);
    EXPECT_EQ(class_of(code), class_of(expected_code));
    EXPECT_EQ(request(i), stays(i) ? made_[static_cast<std::size_t>(i)] : MPI_REQUEST_NULL);
    if (expected_code != MPI_SUCCESS) return;
    int cancelled = -1;
    int cancelled_twin = -1;
    ASSERT_OK(MPI_Test_cancelled(&status, &cancelled));
    ASSERT_OK(MPI_Test_cancelled(&expected, &cancelled_twin));
    EXPECT_EQ(cancelled, cancelled_twin);
    if (each.kind == Kind::send || each.kind == Kind::cancelled) return;
    EXPECT_EQ(status.MPI_SOURCE, expected.MPI_SOURCE);
    EXPECT_EQ(status.MPI_TAG, expected.MPI_TAG);
    int count = -1;
    int count_of_twin = -2;
    ASSERT_OK(MPI_Get_count(&status, MPI_INT, &count));
    ASSERT_OK(MPI_Get_count(&expected, MPI_INT, &count_of_twin));
    EXPECT_EQ(count, count_of_twin);
    if (each.kind == Kind::partitioned) {
      ring(i).expect_arrived();
    } else if (each.kind != Kind::generalized) {
      EXPECT_EQ(in_[static_cast<std::size_t>(i)]->get(), counting(each.count, i));
    }
  }

  void call(bool is_all_delivered) {
    switch (own_.integer(0, is_all_delivered ? 6 : 4)) {
      case 0:
        return any(true);
      case 1:
        return any(false);
      case 2:
        return some(true);
      case 3:
        return some(false);
      case 4:
        return all(false);
      case 5:
        return all(true);
      default:
        return without_statuses();
    }
  }

  void any(bool waits) {
    step(waits ? "Waitany" : "Testany");
    int index = -5;
    int flag = waits ? 1 : 0;
    MPI_Status status{};
    int code = MPI_SUCCESS;
    if (waits) {
      code = MPI_Waitany(size(), requests_.data(), &index, &status);
    } else {
      while (flag == 0 && code == MPI_SUCCESS) {
        code = MPI_Testany(size(), requests_.data(), &index, &flag, &status);
        ASSERT_TRUE(flag != 0 || code != MPI_SUCCESS || index == MPI_UNDEFINED);
      }
    }
    expect_possible(code);
    completed(index, code, status);
    if (code != MPI_SUCCESS) forget_those_freed_beside();
  }

  /// Where one fails in a call that tells of one, Open MPI frees all of its own that have failed, and never tells.
  void forget_those_freed_beside() {
    for (int i = 0; is_open_mpi && i < size(); ++i) {
      const bool is_own = entry(i).kind == Kind::truncated && !entry(i).on_gpu;
      if (!is_own || state(i) != State::delivered || request(i) != MPI_REQUEST_NULL) continue;
      state(i) = State::completed;
      EXPECT_EQ(class_of(native().Wait(&twin(i), MPI_STATUS_IGNORE)), MPI_ERR_TRUNCATE);
    }
  }

  /// What a message that is too long has.
  static void expect_possible(int code) {
    ASSERT_TRUE(code == MPI_SUCCESS || class_of(code) == MPI_ERR_TRUNCATE) << sentence_of(code);
  }

  void some(bool waits) {
    step(waits ? "Waitsome" : "Testsome");
    std::vector<int> indices(requests_.size(), -5);
    std::vector<MPI_Status> statuses(requests_.size());
    int done = 0;
    int code = MPI_SUCCESS;
    while (done == 0 && code == MPI_SUCCESS) {
      code = (waits ? MPI_Waitsome : MPI_Testsome)(size(), requests_.data(), &done, indices.data(), statuses.data());
      ASSERT_TRUE(code == MPI_SUCCESS || class_of(code) == MPI_ERR_IN_STATUS) << sentence_of(code);
      ASSERT_TRUE(!waits || done != 0);
    }
    ASSERT_GT(done, 0);
    ASSERT_LE(done, outstanding());
    bool has_failed = false;
    for (std::size_t k = 0; k < static_cast<std::size_t>(done); ++k) {
      const int own_code = code == MPI_SUCCESS ? MPI_SUCCESS : statuses[k].MPI_ERROR;
      has_failed |= own_code != MPI_SUCCESS;
      completed(indices[k], own_code, statuses[k]);
    }
    EXPECT_EQ(class_of(code), has_failed ? MPI_ERR_IN_STATUS : MPI_SUCCESS);
  }

  void all(bool waits) {
    step(waits ? "Waitall" : "Testall");
    std::vector<MPI_Status> statuses(requests_.size());
    for (MPI_Status& each : statuses) each.MPI_ERROR = 4711;
    int flag = waits ? 1 : 0;
    const int code = waits ? MPI_Waitall(size(), requests_.data(), statuses.data())
                           : MPI_Testall(size(), requests_.data(), &flag, statuses.data());
    if (code == MPI_SUCCESS && flag == 0) return;
    ASSERT_EQ(class_of(code), code == MPI_SUCCESS ? MPI_SUCCESS : MPI_ERR_IN_STATUS);
    ASSERT_TRUE(code != MPI_SUCCESS || count_in(State::active) == 0);
    for (int i = 0; i < size(); ++i) {
      const MPI_Status& status = statuses[static_cast<std::size_t>(i)];
      if (state(i) == State::idle || state(i) == State::completed) {
        // Behind a failure MPICH 5.0.2 takes inactive requests for pending ones.
        if (code == MPI_SUCCESS) expect_empty(status);
      } else if (code == MPI_SUCCESS) {
        completed(i, code, status);
      } else if (class_of(status.MPI_ERROR) != MPI_ERR_PENDING && !was_left(i)) {
        completed(i, status.MPI_ERROR, status);
      }
    }
  }

  /// Where something has failed while others are pending, MPI_Testall of MPICH 5.0.2 tells of what is complete, and
  /// leaves it as it is.
  bool was_left(int i) { return !stays(i) && request(i) != MPI_REQUEST_NULL; }

  /// Everything is delivered: all end, whatever comes of them.
  void without_statuses() {
    step("Waitall without statuses");
    bool fails = false;
    for (int i = 0; i < size(); ++i) fails |= state(i) == State::delivered && is_truncated(entry(i).kind);
    if (fails) return any(true);
    ASSERT_OK(MPI_Waitall(size(), requests_.data(), MPI_STATUSES_IGNORE));
    for (int i = 0; i < size(); ++i) {
      if (state(i) != State::delivered) continue;
      state(i) = State::completed;
      ASSERT_OK(native().Wait(&twin(i), MPI_STATUS_IGNORE));
    }
  }

  void expect_nothing_to_complete() {
    if (count_in(State::active) == 0) return;
    step("looks in vain");
    const std::vector<MPI_Request> before = requests_;
    std::vector<int> indices(requests_.size());
    int flag = -1;
    int index = -1;
    ASSERT_OK(MPI_Testany(size(), requests_.data(), &index, &flag, MPI_STATUS_IGNORE));
    EXPECT_EQ(flag, 0);
    EXPECT_EQ(index, MPI_UNDEFINED);
    ASSERT_OK(MPI_Testsome(size(), requests_.data(), &flag, indices.data(), MPI_STATUSES_IGNORE));
    EXPECT_EQ(flag, 0);
    ASSERT_OK(MPI_Testall(size(), requests_.data(), &flag, MPI_STATUSES_IGNORE));
    EXPECT_EQ(flag, 0);
    EXPECT_EQ(requests_, before);
  }

  void expect_none_active() {
    std::vector<int> indices(requests_.size());
    std::vector<MPI_Status> statuses(requests_.size());
    int flag = -1;
    int index = -1;
    ASSERT_OK(MPI_Testany(size(), requests_.data(), &index, &flag, MPI_STATUS_IGNORE));
    EXPECT_EQ(flag, 1);
    EXPECT_EQ(index, MPI_UNDEFINED);
    ASSERT_OK(MPI_Waitany(size(), requests_.data(), &index, MPI_STATUS_IGNORE));
    EXPECT_EQ(index, MPI_UNDEFINED);
    ASSERT_OK(MPI_Testsome(size(), requests_.data(), &flag, indices.data(), MPI_STATUSES_IGNORE));
    EXPECT_EQ(flag, MPI_UNDEFINED);
    ASSERT_OK(MPI_Waitsome(size(), requests_.data(), &flag, indices.data(), MPI_STATUSES_IGNORE));
    EXPECT_EQ(flag, MPI_UNDEFINED);
    ASSERT_OK(MPI_Testall(size(), requests_.data(), &flag, statuses.data()));
    EXPECT_EQ(flag, 1);
    for (const MPI_Status& status : statuses) expect_empty(status);
    ASSERT_OK(MPI_Waitall(size(), requests_.data(), statuses.data()));
    for (const MPI_Status& status : statuses) expect_empty(status);
  }

  void end() {
    for (auto& each : rings_) ASSERT_OK(MPI_Wait(&each->send, MPI_STATUS_IGNORE));
    ASSERT_OK(MPI_Waitall(static_cast<int>(helpers_.size()), helpers_.data(), MPI_STATUSES_IGNORE));
    for (int i = 0; i < size(); ++i) {
      if (!is_persistent(entry(i).kind)) continue;
      ASSERT_OK(MPI_Request_free(&request(i)));
      if (has_lost_twin(i)) continue;
      ASSERT_OK(native().Request_free(&twin(i)));
    }
  }

  /// Open MPI frees a persistent request that has failed.
  bool has_lost_twin(int i) {
    return is_open_mpi && entry(i).kind == Kind::persistent_truncated && twin(i) == MPI_REQUEST_NULL;
  }

  Random random_;  ///< for what all ranks do alike
  Random own_;
  MPI_Comm comm_;
  MPI_Comm of_twins_;
  std::vector<Entry> entries_;
  std::vector<State> states_;
  std::vector<MPI_Request> requests_;
  std::vector<MPI_Request> made_;
  std::vector<MPI_Request> twins_;
  std::vector<std::unique_ptr<PlacedInts>> in_;
  std::vector<std::unique_ptr<PlacedInts>> out_;
  std::vector<Ints> of_twin_;
  std::vector<std::unique_ptr<Ints>> outs_of_twins_;
  std::vector<std::unique_ptr<Ring>> rings_;
  std::vector<std::pair<int, Ring*>> ring_of_;
  std::vector<MPI_Request> helpers_;  ///< the other ends of what is in the array
};

TEST(RandomCompletions, are_those_that_the_mpi_has_of_the_same_requests) {
  const auto rounds = static_cast<int>(environment_number("PARTITEST_ITERATIONS", 40));
  const OwnComm own;
  const OwnComm of_twins;
  const ErrorsReturn returned(MPI_COMM_WORLD);
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    RandomArray(static_cast<std::uint64_t>(round), own.comm, of_twins.comm).complete_in_random_calls();
    ASSERT_OK(MPI_Barrier(own.comm));
  }
}

}  // namespace
}  // namespace partita::test
