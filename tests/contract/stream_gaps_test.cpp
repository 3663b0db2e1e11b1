// Messages between GPU memories whose datatypes have gaps, on one side or on both: streams pack them in front of their
// starts and unpack them behind their waits. On streams of the fake GPU; functions stand for kernels.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <partita/device.cuh>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "support/errors.hpp"
#include "support/fake_gpu.hpp"
#include "support/job.hpp"
#include "support/persistent_ring.hpp"
#include "support/sanitized.hpp"
#include "support/stream_line.hpp"
#include "support/told.hpp"

namespace partita::test {
namespace {

constexpr int untouched = -7;

using Init = int (*)(const void*, MPI_Count, MPI_Datatype, int, int, MPI_Comm, Partita_Request*);

enum class Form : std::uint8_t { dense, gaps };

/// Two numbers of three.
class Pair {
 public:
  Pair() {
    MPI_Datatype two = MPI_DATATYPE_NULL;
    EXPECT_OK(MPI_Type_contiguous(2, MPI_INT, &two));
    EXPECT_OK(MPI_Type_create_resized(two, 0, 3 * sizeof(int), &type_));
    EXPECT_OK(MPI_Type_commit(&type_));
    EXPECT_OK(MPI_Type_free(&two));
  }
  ~Pair() { MPI_Type_free(&type_); }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;
  MPI_Datatype type() const { return type_; }

 private:
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

/// Room for so many numbers in GPU memory, with a gap behind every two or with none.
class Spaced {
 public:
  Spaced(Form form, std::size_t count) : form_(form), count_(count), memory_(mapped, places() * sizeof(int)) {
    std::fill_n(data(), places(), untouched);
  }

  int* data() { return reinterpret_cast<int*>(memory_.data()); }
  MPI_Count count() const { return static_cast<MPI_Count>(form_ == Form::dense ? count_ : count_ / 2); }
  MPI_Datatype type(const Pair& pair) const { return form_ == Form::dense ? MPI_INT : pair.type(); }
  void fill(int first) {
    for (std::size_t i = 0; i < count_; ++i) data()[place(i)] = first + static_cast<int>(i);
  }
  /// Whether the first `count` numbers are those that fill() gives, and all else is as it was.
  bool are(int first, std::size_t count) {
    std::vector<int> expected(places(), untouched);
    for (std::size_t i = 0; i < count; ++i) expected[place(i)] = first + static_cast<int>(i);
    return std::equal(expected.begin(), expected.end(), data());
  }
  bool are(int first) { return are(first, count_); }

 private:
  std::size_t place(std::size_t i) const { return form_ == Form::dense ? i : i / 2 * 3 + i % 2; }
  std::size_t places() const { return form_ == Form::dense ? count_ : count_ / 2 * 3; }

  Form form_;
  std::size_t count_;
  FakeGpuBuffer memory_;
};

/// Sizes that one block moves, and that a launch of its own does behind a wait.
class StreamGaps : public PersistentRing, public testing::WithParamInterface<std::tuple<Form, Form, std::size_t>> {
 protected:
  static Form form_out() { return std::get<0>(GetParam()); }
  static Form form_in() { return std::get<1>(GetParam()); }
  static std::size_t count() { return std::get<2>(GetParam()); }

  Partita_Request send(Spaced& from, int tag, Init init = Partita_Send_init) {
    Partita_Request made = PARTITA_REQUEST_NULL;
    EXPECT_OK(init(from.data(), from.count(), from.type(pair_), right(), tag, MPI_COMM_WORLD, &made));
    return made;
  }
  Partita_Request receive(Spaced& into, int tag) {
    Partita_Request made = PARTITA_REQUEST_NULL;
    EXPECT_OK(Partita_Recv_init(into.data(), into.count(), into.type(pair_), left(), tag, MPI_COMM_WORLD, &made));
    return made;
  }
  static void match(Partita_Request from, Partita_Request to) {
    Partita_Request both[] = {from, to};
    ASSERT_OK(Partita_Matchall(2, both));
    for (Partita_Request each : both) EXPECT_EQ("stream", told(each, "partita_moved_by"));
  }
  static void free_both(Partita_Request& from, Partita_Request& to) {
    EXPECT_OK(Partita_Request_free(&from));
    EXPECT_OK(Partita_Request_free(&to));
  }

  const Pair pair_;
  ErrorsReturn handler_{MPI_COMM_WORLD};
  Spaced in_{form_in(), count()}, out_{form_out(), count()};
};
INSTANTIATE_TEST_SUITE_P(All, StreamGaps,
                         testing::Combine(testing::Values(Form::dense, Form::gaps),
                                          testing::Values(Form::dense, Form::gaps),
                                          testing::Values(100, repetitions(50'000, 20'000))),
                         [](const auto& info) {
                           const auto name = [](Form form) { return form == Form::gaps ? "gaps" : "dense"; };
                           return std::string(name(std::get<0>(info.param))) + "_to_" + name(std::get<1>(info.param)) +
                                  "_" + std::to_string(std::get<2>(info.param));
                         });

/// Each epoch has other numbers. What the sender's stream does behind its wait reaches no receiver.
TEST_P(StreamGaps, are_passed_over_epoch_after_epoch) {
  Partita_Request from = receive(in_, 1), to = send(out_, 1);
  match(from, to);
  Line sends(0), receives(1);
  std::atomic<int> wrong{0};
  for (int epoch = 0; epoch < 10; ++epoch) {
    sends.launch([&, epoch] { out_.fill(1000 * epoch + rank()); });
    sends.start(to);
    sends.wait(to);
    sends.launch([&] { out_.fill(-5); });
    receives.start(from);
    receives.wait(from);
    receives.launch([&, epoch] { wrong += in_.are(1000 * epoch + left()) ? 0 : 1; });
  }
  sends.finish();
  receives.finish();
  receives.worker().drain();
  EXPECT_EQ(0, wrong);
  free_both(from, to);
}

/// The receiver pulls what was packed, while the sender's stream stands behind its start.
TEST_P(StreamGaps, are_packed_in_front_of_the_start) {
  Partita_Request from = receive(in_, 2), to = send(out_, 2);
  match(from, to);
  out_.fill(rank());
  receive_before_the_senders_wait(to, from, [&] { EXPECT_TRUE(in_.are(left())); });
  free_both(from, to);
}

TEST_P(StreamGaps, of_a_ready_send) {
  Partita_Request from = receive(in_, 3), to = send(out_, 3, Partita_Rsend_init);
  match(from, to);
  Line sends(0), receives(1);
  for (int epoch = 0; epoch < 5; ++epoch) {
    receives.start(from);
    receives.worker().drain();
    harness_barrier();
    sends.launch([&, epoch] { out_.fill(10 * epoch + rank()); });
    sends.start(to);
    sends.wait(to);
    receives.wait(from);
    receives.finish();
    EXPECT_TRUE(in_.are(10 * epoch + left()));
    sends.finish();
  }
  free_both(from, to);
}

TEST_P(StreamGaps, in_a_graph) {
  constexpr int launches = repetitions(50, 10);
  Partita_Request from = receive(in_, 4), to = send(out_, 4);
  match(from, to);
  Line line(0);
  int wrong = 0;
  int sent = 0;
  int received = 0;
  line.worker().begin_capture();
  line.launch([&] { out_.fill(++sent * 10 + rank()); });
  line.start(from);
  line.start(to);
  line.wait(to);
  line.wait(from);
  line.launch([&] { wrong += in_.are(++received * 10 + left()) ? 0 : 1; });
  const std::vector<FakeWorker::Operation> graph = line.worker().end_capture();
  EXPECT_TRUE(in_.are(0, 0)) << "something has run";
  for (int i = 0; i < launches; ++i) line.launch(graph);
  line.worker().drain();
  EXPECT_EQ(launches, received);
  EXPECT_EQ(0, wrong);
  free_both(from, to);
}

/// More than one launch packs, and messages without gaps among them.
TEST_P(StreamGaps, in_arrays) {
  constexpr std::size_t messages = 80;
  if (count() > 1000) GTEST_SKIP() << "it is about how many there are";
  std::vector<std::unique_ptr<Spaced>> in, out;
  std::vector<Partita_Request> sends, receives;
  for (std::size_t i = 0; i < messages; ++i) {
    const bool is_dense = i % 5 == 0;
    const std::size_t its_count = 2 * (i + 1);
    in.push_back(std::make_unique<Spaced>(is_dense ? Form::dense : form_in(), its_count));
    out.push_back(std::make_unique<Spaced>(is_dense ? Form::dense : form_out(), its_count));
    receives.push_back(receive(*in.back(), 100 + static_cast<int>(i)));
    sends.push_back(send(*out.back(), 100 + static_cast<int>(i)));
  }
  std::vector<Partita_Request> all = receives;
  all.insert(all.end(), sends.begin(), sends.end());
  const auto most = static_cast<int>(all.size());
  ASSERT_OK(Partita_Matchall(most, all.data()));
  Line line(0);
  for (int epoch = 0; epoch < 3; ++epoch) {
    line.launch([&, epoch] {
      for (std::size_t i = 0; i < messages; ++i) out[i]->fill(1000 * epoch + 10 * static_cast<int>(i) + rank());
    });
    const std::uint64_t before = FakeGpu::instance().launches();
    ASSERT_OK(Partita_Enqueue_startall(line.queue(), most, all.data()));
    ASSERT_OK(Partita_Enqueue_waitall(line.queue(), most, all.data()));
    EXPECT_LT(FakeGpu::instance().launches() - before, 20U);
    line.finish();
    for (std::size_t i = 0; i < messages; ++i)
      ASSERT_TRUE(in[i]->are(1000 * epoch + 10 * static_cast<int>(i) + left())) << "message " << i;
  }
  for (Partita_Request& each : all) EXPECT_OK(Partita_Request_free(&each));
}

/// Between those of streams; whoever asks more often than once finds it over again.
TEST_P(StreamGaps, in_epochs_of_the_host) {
  Partita_Request from = receive(in_, 5), to = send(out_, 5);
  match(from, to);
  Line line(0);
  for (int epoch = 0; epoch < 8; ++epoch) {
    out_.fill(100 * epoch + rank());
    if (epoch % 4 < 2) {
      ASSERT_OK(Partita_Start(&from));
    } else {
      line.start(from);
    }
    if (epoch % 2 == 0) {
      ASSERT_OK(Partita_Start(&to));
      ASSERT_OK(Partita_Wait(&to, MPI_STATUS_IGNORE));
    } else {
      line.start(to);
      line.wait(to);
    }
    if (epoch % 4 < 2) {
      int flag = 0;
      while (flag == 0) ASSERT_OK(Partita_Request_get_status(from, &flag, MPI_STATUS_IGNORE));
      ASSERT_OK(Partita_Request_get_status(from, &flag, MPI_STATUS_IGNORE));
      EXPECT_EQ(flag, 1);
      ASSERT_OK(Partita_Test(&from, &flag, MPI_STATUS_IGNORE));
      ASSERT_EQ(flag, 1);
    } else {
      line.wait(from);
    }
    line.finish();
    ASSERT_TRUE(in_.are(100 * epoch + left())) << "epoch " << epoch;
  }
  free_both(from, to);
}

/// The message ends within an element of the receive's, where that has gaps.
TEST_P(StreamGaps, of_a_receive_that_has_more_room) {
  if (form_out() == Form::gaps) GTEST_SKIP() << "a message of whole pairs ends within none";
  Spaced few(Form::dense, count() - 3);
  Partita_Request from = receive(in_, 6), to = send(few, 6);
  match(from, to);
  Line line(0);
  few.fill(rank());
  line.start(from);
  line.start(to);
  line.wait(from);
  line.wait(to);
  line.finish();
  EXPECT_TRUE(in_.are(left(), count() - 3));
  free_both(from, to);
}

/// The word of a receive tells of what is packed.
TEST_P(StreamGaps, kernels_ask_for_the_end_of_sends_alone) {
  Partita_Request from = receive(in_, 7), to = send(out_, 7);
  match(from, to);
  Partita_Completion made{};
  EXPECT_OK(Partita_Queue_completion(to, &made));
  if (form_in() == Form::dense) {
    EXPECT_OK(Partita_Queue_completion(from, &made));
  } else {
    EXPECT_ERROR(Partita_Queue_completion(from, &made), MPI_ERR_REQUEST, "Queue_completion", "gaps", "Enqueue_wait");
  }
  free_both(from, to);
}

/// A kernel of the program's fills the GPU while the message is unpacked. Whoever gives the request up stays until that
/// is over: the buffer is the program's again.
TEST_P(StreamGaps, Timeout_leaves_nothing_that_unpacks) {
  using namespace std::chrono_literals;
  Partita_Request from = receive(in_, 8), to = send(out_, 8);
  match(from, to);
  const Line fills(0);
  FakeGpu::instance().share_work_queue(&fills.worker());
  out_.fill(rank());
  ASSERT_OK(Partita_Start(&from));
  harness_barrier();
  ASSERT_OK(Partita_Start(&to));
  ASSERT_OK(Partita_Wait(&to, MPI_STATUS_IGNORE));
  harness_barrier();
  int flag = 0;
  ASSERT_OK(Partita_Request_get_status(from, &flag, MPI_STATUS_IGNORE));  // a look, which finds the message there
  fills.worker().drain();
  fills.launch([] { std::this_thread::sleep_for(3s); });  // longer than PARTITA_TIMEOUT
  EXPECT_ERROR(Partita_Wait(&from, MPI_STATUS_IGNORE), MPI_ERR_OTHER, "Wait", "PARTITA_TIMEOUT");
  std::fill_n(in_.data(), count() / 2 * 3, untouched);  // with gaps
  fills.worker().drain();
  std::this_thread::sleep_for(100ms);
  EXPECT_TRUE(in_.are(0, 0)) << "something was unpacked later";
  FakeGpu::instance().share_work_queue(nullptr);
  harness_barrier();
  free_both(from, to);
}

}  // namespace
}  // namespace partita::test
