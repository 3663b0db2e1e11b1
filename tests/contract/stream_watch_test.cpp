// What a wait for a stream says when it takes long: which request the stream stands at, which peer, and which side is
// missing. Run with PARTITA_WARN_AFTER far below the limit; on streams of the fake GPU, where functions stand for
// kernels.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <unistd.h>
#include <partita/device.cuh>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "contract/stream_partitions.hpp"
#include "support/errors.hpp"
#include "support/fake_gpu.hpp"
#include "support/job.hpp"
#include "support/stream_line.hpp"

namespace partita::test {
namespace {

using namespace std::chrono_literals;

/// What this process writes to standard error meanwhile; it still appears there.
class StandardError {
 public:
  StandardError() : original_(::dup(STDERR_FILENO)) {
    std::array<int, 2> ends{};
    EXPECT_EQ(0, ::pipe(ends.data()));
    ::dup2(ends[1], STDERR_FILENO);
    ::close(ends[1]);
    reader_ = std::thread([this, end = ends[0]] { read(end); });
  }
  ~StandardError() {
    ::dup2(original_, STDERR_FILENO);
    reader_.join();
    ::close(original_);
  }
  StandardError(const StandardError&) = delete;
  StandardError& operator=(const StandardError&) = delete;

  bool has_line_with(const std::vector<std::string>& words) {
    const std::lock_guard lock(mutex_);
    for (std::size_t begin = 0, end = 0; (end = text_.find('\n', begin)) != std::string::npos; begin = end + 1) {
      const std::string_view line(text_.data() + begin, end - begin);
      if (std::ranges::all_of(words, [&](const std::string& word) { return line.find(word) != line.npos; })) {
        return true;
      }
    }
    return false;
  }

 private:
  void read(int end) {
    std::array<char, 4096> some{};
    for (ssize_t count = 0; (count = ::read(end, some.data(), some.size())) > 0;) {
      [[maybe_unused]] const auto written = ::write(original_, some.data(), static_cast<std::size_t>(count));
      const std::lock_guard lock(mutex_);
      text_.append(some.data(), static_cast<std::size_t>(count));
    }
    ::close(end);
  }

  const int original_;
  std::mutex mutex_;
  std::string text_;
  std::thread reader_;
};

class StreamWatch : public StreamPartitions {
 protected:
  static constexpr std::size_t count = 100;  ///< of numbers

  std::array<Partita_Request, 2> pair(int tag, void* in, const void* out) {
    std::array<Partita_Request, 2> made{};
    EXPECT_OK(Partita_Recv_init(in, count, MPI_INT, left(), tag, MPI_COMM_WORLD, &made[0]));
    EXPECT_OK(Partita_Send_init(out, count, MPI_INT, right(), tag, MPI_COMM_WORLD, &made[1]));
    EXPECT_OK(Partita_Matchall(2, made.data()));
    return made;
  }
  static void free_all(std::array<Partita_Request, 2>& requests) {
    harness_barrier();  // a free of what the other still waits for would end its wait first
    for (Partita_Request& each : requests) EXPECT_OK(Partita_Request_free(&each));
  }

  /// What comes behind in the stream of `line` waits until go().
  void hold(const Line& line) {
    line.launch([this] {
      while (!go_) std::this_thread::yield();
    });
  }
  /// Waits for the queue, which all ranks can end once each has said so in a line with these words.
  void expect_to_say(const Line& line, std::vector<std::string> words) {
    words.emplace_back("has waited for");
    StandardError said;
    std::atomic<bool> found{false};
    std::thread lets_go([&] {
      for (const auto end = std::chrono::steady_clock::now() + 10s; !found && std::chrono::steady_clock::now() < end;) {
        found = said.has_line_with(words);
        std::this_thread::sleep_for(1ms);
      }
      harness_barrier();
      go_ = true;
    });
    EXPECT_OK(Partita_Queue_wait(line.queue()));
    lets_go.join();
    EXPECT_TRUE(found) << "nothing was said with all of: " << testing::PrintToString(words);
  }
  static std::string from_left() { return "receive from rank " + std::to_string(left()) + " (world rank"; }
  static std::string to_right() { return "send to rank " + std::to_string(right()) + " (world rank"; }

  FakeGpuBuffer in_{mapped, count * sizeof(int)}, out_{mapped, count * sizeof(int)};
  FakeGpuBuffer other_in_{mapped, count * sizeof(int)}, other_out_{mapped, count * sizeof(int)};
  std::atomic<bool> go_{false};
};

TEST_F(StreamWatch, of_a_receive_says_that_the_sender_is_missing) {
  std::array both = pair(1, in_.data(), out_.data());
  Line receives(0), sends(1);
  hold(sends);
  sends.start(both[1]);
  sends.wait(both[1]);
  receives.start(both[0]);
  receives.wait(both[0]);
  expect_to_say(receives, {"stands at the wait for what it runs by itself", from_left(), ", tag 1",
                           "this side has started epoch 1", "the sender has not started it"});
  sends.finish();
  free_all(both);
}

TEST_F(StreamWatch, of_a_send_says_that_the_receiver_is_missing) {
  std::array both = pair(2, in_.data(), out_.data());
  Line sends(0), receives(1);
  hold(receives);
  receives.start(both[0]);
  receives.wait(both[0]);
  sends.start(both[1]);
  sends.wait(both[1]);
  expect_to_say(sends, {"stands at the wait for what it runs by itself", to_right(), ", tag 2",
                        "this side has started epoch 1", "the receiver has not started it"});
  receives.finish();
  free_all(both);
}

/// The first one is over, and started again, but its wait lies behind.
TEST_F(StreamWatch, names_what_holds_the_stream_and_not_what_is_older) {
  std::array first = pair(31, in_.data(), out_.data()), second = pair(32, other_in_.data(), other_out_.data());
  Line receives(0), sends(1);
  sends.start(first[1]);
  sends.wait(first[1]);
  hold(sends);
  sends.start(second[1]);
  sends.wait(second[1]);
  sends.start(first[1]);
  sends.wait(first[1]);
  receives.start(first[0]);
  receives.start(second[0]);
  receives.wait(first[0]);
  receives.start(first[0]);
  receives.wait(second[0]);
  receives.wait(first[0]);
  expect_to_say(receives, {"stands at the wait", from_left(), ", tag 32", "the sender has not started it"});
  sends.finish();
  free_all(first);
  free_all(second);
}

/// The message has been started and is not there, but the stream has not come to its wait.
TEST_F(StreamWatch, says_that_work_of_the_program_is_in_front) {
  std::vector<int> in(count, -1);
  const std::vector<int> out(count, rank());
  std::array by_engine = pair(41, in.data(), out.data()), by_stream = pair(42, in_.data(), out_.data());
  Line receives(0), sends(1);
  hold(sends);
  sends.start(by_stream[1]);
  sends.wait(by_stream[1]);
  receives.start(by_engine[0]);
  receives.start(by_engine[1]);
  receives.start(by_stream[0]);
  hold(receives);
  receives.wait(by_engine[1]);
  receives.wait(by_engine[0]);
  receives.wait(by_stream[0]);
  expect_to_say(receives, {"work of the program is in front of it"});
  sends.finish();
  free_all(by_engine);
  free_all(by_stream);
}

TEST_F(StreamWatch, of_what_the_engine_runs_says_who_is_missing) {
  std::vector<int> in(count, -1);
  const std::vector<int> out(count, rank());
  std::array both = pair(5, in.data(), out.data());
  Line receives(0), sends(1);
  hold(sends);
  sends.start(both[1]);
  sends.wait(both[1]);
  receives.start(both[0]);
  receives.wait(both[0]);
  expect_to_say(receives, {"stands at a start or wait that is not over", from_left(), ", tag 5", "epoch 1"});
  sends.finish();
  free_all(both);
}

TEST_F(StreamWatch, of_partitions_says_whose_marks_are_missing) {
  Pair pair(6, {4, 64});
  Line receives(0), sends(1);
  sends.start(pair.out.request);
  hold(sends);
  sends.launch([&pair] { pair.out.send(1); });
  sends.wait(pair.out.request);
  receives.start(pair.in.request);
  receives.wait(pair.in.request);
  expect_to_say(receives,
                {"stands at the wait", from_left(), ", tag 6", "not all that the sender marks in it has come"});
  sends.finish();
  harness_barrier();
  pair.free();
}

TEST_F(StreamWatch, of_marked_partitions_says_whose_marks_are_missing) {
  Pair pair(7, {4, 64});
  Line sends(0), receives(1);
  receives.start(pair.in.request);
  receives.wait(pair.in.request);
  sends.start(pair.out.request);
  std::thread marks([&] {
    while (!go_) std::this_thread::yield();
    pair.out.send(1);
  });
  sends.wait(pair.out.request);
  expect_to_say(sends, {"stands at the wait", to_right(), ", tag 7", "kernels of this rank mark"});
  marks.join();
  receives.finish();
  harness_barrier();
  pair.free();
}

/// A collective's kernel stands at the start, in front of what the engine runs behind it.
TEST_F(StreamWatch, of_a_collective_says_that_a_rank_is_missing) {
  std::vector<int> in(count, -1);
  const std::vector<int> out(count, rank());
  std::array both = pair(8, in.data(), out.data());
  Partita_Request sum = PARTITA_REQUEST_NULL;
  MPI_Info info = MPI_INFO_NULL;
  MPI_Info_create(&info);
  MPI_Info_set(info, "partita_driver", "device");
  ASSERT_OK(Partita_Allreduce_init(out_.data(), in_.data(), count, MPI_INT, MPI_SUM, MPI_COMM_WORLD, info, &sum));
  MPI_Info_free(&info);
  ASSERT_OK(Partita_Match(&sum));
  Line line(0);
  if (rank() != 0) harness_barrier();
  line.start(sum);
  line.start(both[0]);
  line.start(both[1]);
  line.wait(both[0]);
  line.wait(both[1]);
  line.wait(sum);
  if (rank() == 0) {
    expect_to_say(line, {"stands at the wait for what it runs by itself", "allreduce", "some other rank has not come"});
  } else {
    line.finish();
  }
  EXPECT_OK(Partita_Request_free(&sum));
  free_all(both);
}

}  // namespace
}  // namespace partita::test
