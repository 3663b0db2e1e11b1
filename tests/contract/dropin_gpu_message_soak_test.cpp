// A long row of messages of the MPI's between ranks that are late by turns: both ways at once, in rings, windows, and
// from anybody, by most calls. PARTITEST_MESSAGES says how many all ranks send together; PARTITEST_SEED repeats a run.
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "support/errors.hpp"
#include "support/footprint.hpp"
#include "support/placed_ints.hpp"
#include "support/random.hpp"
#include "support/sanitized.hpp"

namespace partita::test {
namespace {

constexpr int slots = 16;
constexpr int room = 3000;  ///< ints of a slot
/// Around the least that is an offer where messages are offers from 1000 bytes on, and around what an offer takes.
constexpr std::array counts = {1, 62, 63, 249, 250, 251, 1000, room};

enum class Pattern { ring, window, from_anybody, one_by_one, persistent, probed, replaced, freed };
/// That a send is over which was freed its rank knows from the receiver: the thread sanitizer does not.
constexpr int patterns = thread_sanitized ? 7 : 8;
/// When a rank has sent so many, or half of its messages, all that stays has been made.
constexpr long messages_to_warm = 10'000;

int other_way(int direction) {
  return direction == 0 ? left() : right();
}
int one_way(int direction) {
  return direction == 0 ? right() : left();
}

/// All ranks draw the same patterns and lengths, and each by itself when it comes and by which calls it completes what
/// it has begun.
class Soak {
 public:
  Soak() : shared_(job_seed(), 0), own_(job_seed(), 1 + static_cast<std::uint64_t>(rank())) {}

  /// Returns how many messages this rank has sent, as each of the others.
  int round() {
    ++round_;
    const auto pattern = static_cast<Pattern>(shared_.integer(0, patterns - 1));
    step("round " + std::to_string(round_) + ", pattern " + std::to_string(static_cast<int>(pattern)));
    for (int& count : counts_) count = counts[static_cast<std::size_t>(shared_.integer(0, counts.size() - 1))];
    fill();
    requests_.clear();
    come_late();
    const int sent = run(pattern);
    if (!testing::Test::HasFatalFailure()) expect_all();
    return sent;
  }

 private:
  int run(Pattern pattern) {
    switch (pattern) {
      case Pattern::ring:
        ring();
        return slots;
      case Pattern::window:
        window();
        return slots;
      case Pattern::from_anybody:
        from_anybody();
        return to_each * (ranks() - 1);
      case Pattern::one_by_one:
        one_by_one();
        return 1;
      case Pattern::persistent:
        persistent();
        return starts * persistent_ones;
      case Pattern::probed:
        probed();
        return probed_ones;
      case Pattern::replaced:
        replaced();
        return 2;
      case Pattern::freed:
        freed();
        return slots;
    }
    return 0;
  }

  int* out(int slot) { return out_.data() + static_cast<std::ptrdiff_t>(slot) * room; }
  int* in(int slot) { return here().data() + static_cast<std::ptrdiff_t>(slot) * room; }
  PlacedInts& here() { return in_gpu_ ? gpu_in_ : host_in_; }
  int count_of_slot(int slot) const { return counts_[static_cast<std::size_t>(slot)]; }
  /// Ranks are not in the same round.
  int tag_of(int slot) const { return static_cast<int>(round_ % 300) * 100 + slot; }
  int value_of(int from, int slot) const { return static_cast<int>((round_ * ranks() + from) * slots + slot); }

  void fill() {
    in_gpu_ = !own_.one_in(4);
    for (int slot = 0; slot < slots; ++slot) {
      std::fill_n(sent_.begin() + static_cast<std::ptrdiff_t>(slot) * room, room, value_of(rank(), slot));
    }
    out_.set(sent_);
    std::ranges::fill(expected_, -1);
    here().set(expected_);
  }

  /// Longer, now and then, than a sender waits for a receiver.
  void come_late() {
    if (own_.one_in(40)) std::this_thread::sleep_for(std::chrono::microseconds(own_.integer(1, 4000)));
  }

  void expect_from(int from, int slot) { expect_in(slot, from, slot); }
  void expect_in(int place, int from, int slot) {
    std::fill_n(expected_.begin() + static_cast<std::ptrdiff_t>(place) * room, count_of_slot(slot),
                value_of(from, slot));
  }
  void expect_all() { ASSERT_EQ(here().get(), expected_) << "in round " << round_; }

  void ring() {
    for (int slot = 0; slot < slots; ++slot) {
      const int direction = slot % 2;
      MPI_Status status{};
      ASSERT_OK(MPI_Sendrecv(out(slot), count_of_slot(slot), MPI_INT, one_way(direction), tag_of(slot), in(slot), room,
                             MPI_INT, slot % 3 == 0 ? MPI_ANY_SOURCE : other_way(direction), tag_of(slot),
                             MPI_COMM_WORLD, &status));
      ASSERT_EQ(status.MPI_SOURCE, other_way(direction));
      expect_from(other_way(direction), slot);
    }
  }

  void begin_receives() {
    for (int slot = 0; slot < slots; ++slot) {
      const int source = own_.one_in(4) ? MPI_ANY_SOURCE : other_way(slot % 2);
      requests_.push_back(MPI_REQUEST_NULL);
      ASSERT_OK(MPI_Irecv(in(slot), room, MPI_INT, source, tag_of(slot), MPI_COMM_WORLD, &requests_.back()));
      expect_from(other_way(slot % 2), slot);
    }
  }
  void begin_sends() {
    for (int slot = slots - 1; slot >= 0; --slot) {
      requests_.push_back(MPI_REQUEST_NULL);
      ASSERT_OK(MPI_Isend(out(slot), count_of_slot(slot), MPI_INT, one_way(slot % 2), tag_of(slot), MPI_COMM_WORLD,
                          &requests_.back()));
    }
  }

  void window() {
    const bool receives_first = own_.one_in(2);
    if (receives_first) begin_receives();
    begin_sends();
    come_late();
    if (!receives_first) begin_receives();
    requests_.push_back(MPI_REQUEST_NULL);
    ASSERT_OK(MPI_Irecv(nothing_.data(), room, MPI_INT, left(), tag_of(slots), MPI_COMM_WORLD, &requests_.back()));
    ASSERT_OK(MPI_Cancel(&requests_.back()));
    complete();
  }

  void complete() {
    const auto count = static_cast<int>(requests_.size());
    std::vector<int> done(requests_.size());
    int some = 0;
    switch (own_.integer(0, 3)) {
      case 0:
        for (int index = 0; index != MPI_UNDEFINED;)
          ASSERT_OK(MPI_Waitany(count, requests_.data(), &index, MPI_STATUS_IGNORE));
        return;
      case 1:
        while (some != MPI_UNDEFINED)
          ASSERT_OK(MPI_Waitsome(count, requests_.data(), &some, done.data(), MPI_STATUSES_IGNORE));
        return;
      case 2:
        while (some == 0) ASSERT_OK(MPI_Testall(count, requests_.data(), &some, MPI_STATUSES_IGNORE));
        return;
      default:
        ASSERT_OK(MPI_Waitall(count, requests_.data(), MPI_STATUSES_IGNORE));
    }
  }

  /// Each rank to each other one, with the same tag; those of a rank come in their order.
  void from_anybody() {
    for (int slot = 0; slot < to_each; ++slot) {
      for (int to = 0; to < ranks(); ++to) {
        if (to == rank()) continue;
        requests_.push_back(MPI_REQUEST_NULL);
        ASSERT_OK(MPI_Isend(out(slot), count_of_slot(slot), MPI_INT, to, tag_of(0), MPI_COMM_WORLD, &requests_.back()));
      }
    }
    come_late();
    std::vector<int> next(static_cast<std::size_t>(ranks()), 0);
    for (int place = 0; place < to_each * (ranks() - 1); ++place) {
      MPI_Status status{};
      const int tag = own_.one_in(2) ? MPI_ANY_TAG : tag_of(0);
      ASSERT_OK(MPI_Recv(in(place), room, MPI_INT, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &status));
      expect_in(place, status.MPI_SOURCE, next[static_cast<std::size_t>(status.MPI_SOURCE)]++);
    }
    complete();
    harness_barrier();  // nobody receives in place of these what comes in the next round
  }

  /// The last rank receives first, so that no send must be complete before its receive is posted.
  void one_by_one() {
    const auto send = [&] {
      ASSERT_OK(MPI_Send(out(0), count_of_slot(0), MPI_INT, right(), tag_of(0), MPI_COMM_WORLD));
    };
    const bool is_last = rank() == ranks() - 1;
    if (!is_last) send();
    ASSERT_OK(MPI_Recv(in(0), room, MPI_INT, left(), tag_of(0), MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    if (is_last) send();
    expect_from(left(), 0);
  }

  void persistent() {
    std::vector<MPI_Request> requests(std::size_t{2} * persistent_ones);
    auto next = requests.begin();
    for (int slot = 0; slot < persistent_ones; ++slot) {
      const int direction = slot % 2;
      ASSERT_OK(MPI_Recv_init(in(slot), room, MPI_INT, other_way(direction), tag_of(slot), MPI_COMM_WORLD, &*next++));
      ASSERT_OK(MPI_Send_init(out(slot), count_of_slot(slot), MPI_INT, one_way(direction), tag_of(slot), MPI_COMM_WORLD,
                              &*next++));
      expect_from(other_way(direction), slot);
    }
    const auto count = static_cast<int>(requests.size());
    for (int start = 0; start < starts; ++start) {
      ASSERT_OK(MPI_Startall(count, requests.data()));
      ASSERT_OK(MPI_Waitall(count, requests.data(), MPI_STATUSES_IGNORE));
    }
    for (MPI_Request& request : requests) ASSERT_OK(MPI_Request_free(&request));
  }

  void probed() {
    for (int slot = 0; slot < probed_ones; ++slot) {
      requests_.push_back(MPI_REQUEST_NULL);
      ASSERT_OK(MPI_Issend(out(slot), count_of_slot(slot), MPI_INT, right(), tag_of(slot), MPI_COMM_WORLD,
                           &requests_.back()));
    }
    come_late();
    // A probe of the last one takes all in front of it from the MPI.
    for (int slot = probed_ones - 1; slot >= 0; --slot) {
      MPI_Status status{};
      MPI_Message message = MPI_MESSAGE_NULL;
      int count = -1;
      if (own_.one_in(2)) {
        ASSERT_OK(MPI_Probe(MPI_ANY_SOURCE, tag_of(slot), MPI_COMM_WORLD, &status));
        ASSERT_OK(
            MPI_Recv(in(slot), room, MPI_INT, status.MPI_SOURCE, tag_of(slot), MPI_COMM_WORLD, MPI_STATUS_IGNORE));
      } else {
        ASSERT_OK(MPI_Mprobe(left(), tag_of(slot), MPI_COMM_WORLD, &message, &status));
        ASSERT_OK(MPI_Mrecv(in(slot), room, MPI_INT, &message, MPI_STATUS_IGNORE));
      }
      ASSERT_OK(MPI_Get_count(&status, MPI_INT, &count));
      ASSERT_EQ(count, count_of_slot(slot));
      expect_from(left(), slot);
    }
    complete();
  }

  void replaced() {
    MPI_Status status{};
    here().set(sent_);
    ASSERT_OK(MPI_Sendrecv_replace(in(0), count_of_slot(0), MPI_INT, right(), tag_of(0), left(), tag_of(0),
                                   MPI_COMM_WORLD, &status));
    ASSERT_OK(MPI_Sendrecv_replace(in(1), count_of_slot(1), MPI_INT, left(), tag_of(1), right(), tag_of(1),
                                   MPI_COMM_WORLD, &status));
    expected_ = sent_;
    expect_from(left(), 0);
    expect_from(right(), 1);
  }

  void freed() {
    begin_sends();
    for (MPI_Request& request : requests_) ASSERT_OK(MPI_Request_free(&request));
    requests_.clear();
    come_late();
    begin_receives();
    complete();
    harness_barrier();  // what was sent is everywhere: it may be overwritten
  }

  static constexpr int starts = 3;
  static constexpr int persistent_ones = 4;
  static constexpr int probed_ones = 8;
  static constexpr int to_each = 4;  ///< at most five ranks have a place for what each gets

  Random shared_;
  Random own_;
  long round_ = 0;
  std::array<int, slots> counts_{};
  Ints sent_ = Ints(std::size_t{slots} * room);
  Ints expected_ = Ints(std::size_t{slots} * room, -1);
  PlacedInts out_{Memory::gpu, sent_};
  PlacedInts gpu_in_{Memory::gpu, expected_};
  PlacedInts host_in_{Memory::host, expected_};
  Ints nothing_ = Ints(room);
  bool in_gpu_ = true;
  std::vector<MPI_Request> requests_;
};

TEST(MessageSoak, all_messages_arrive_and_memory_stays_flat) {
  const long messages = environment_number("PARTITEST_MESSAGES", 20'000) / ranks();
  const long warmed = std::min(messages_to_warm, messages / 2);
  Soak soak;
  std::optional<Footprint> warm;
  for (long sent = 0; sent < messages && !HasFailure();) {
    sent += soak.round();
    if (!warm && sent >= warmed) warm.emplace();
  }
  harness_barrier();
  if (warm && !HasFailure()) expect_flat(*warm, std::to_string(messages - warmed) + " messages from each rank");
}

}  // namespace
}  // namespace partita::test
