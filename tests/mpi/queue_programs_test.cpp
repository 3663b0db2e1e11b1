// Random programs of starts and waits, in queues and by the host, whose results a small model predicts.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "support/errors.hpp"
#include "support/job.hpp"
#include "support/memory.hpp"
#include "support/queue_kind.hpp"
#include "support/random.hpp"

namespace partita::test {
namespace {

constexpr int queue_count = 3;
constexpr int by_host = queue_count;  ///< where a side is started and awaited, instead of in a queue

enum class Kind { standard, synchronous, buffered, partitioned };

/// A buffer of numbers, on a host or a GPU.
class Numbers {
 public:
  Numbers() = default;
  Numbers(Memory memory, const std::vector<int>& values)
      : bytes_(memory, static_cast<std::int64_t>(values.size() * sizeof(int))) {
    set(values);
  }

  void* data() const { return bytes_.address(); }
  std::vector<int> values() const {
    return bytes_.read(0, bytes_.size_bytes(), [this](const std::uint8_t* bytes) {
      const auto* const numbers = reinterpret_cast<const int*>(bytes);
      return std::vector<int>(numbers, numbers + bytes_.size_bytes() / static_cast<std::int64_t>(sizeof(int)));
    });
  }
  void set(const std::vector<int>& values) {
    bytes_.write(0, bytes_.size_bytes(),
                 [&](std::uint8_t* bytes) { std::ranges::copy(values, reinterpret_cast<int*>(bytes)); });
  }

 private:
  Bytes bytes_;
};

/// A pair of requests, and what the model knows of it.
struct Channel {
  int sender = 0;
  int receiver = 0;
  int tag = 0;
  Kind kind{};
  std::size_t count = 0;  ///< of numbers that are sent
  std::size_t room = 0;   ///< for numbers to receive

  // The model, alike on all ranks.
  std::vector<int> sent, received;
  int send_driver = -1, receive_driver = -1;      ///< a queue or by_host, from start to wait; -1 while inactive
  bool send_over = false, receive_over = false;   ///< awaited in this epoch
  int send_waits_in = -1, receive_waits_in = -1;  ///< the queue whose wait may not be over, or -1

  // What is real, on the ranks concerned.
  Numbers out, in;
  Partita_Request send = PARTITA_REQUEST_NULL, receive = PARTITA_REQUEST_NULL;

  bool epoch_is_over() const { return send_over && receive_over; }
};

/// All ranks draw the same steps, and each takes those that are its own in their order. A wait comes behind both starts
/// of its channel, so that the first step which is not taken yet can always be taken.
class Program {
 public:
  explicit Program(Random random) : random_(random) {
    for (int i = 0; i < queue_count; ++i) {
      EXPECT_OK(Partita_Queue_init(&queues_[static_cast<std::size_t>(i)], queue_type(), queue_stream(i)));
    }
    channels_.resize(static_cast<std::size_t>(random_.integer(1, 8)));
    int tag = 0;
    for (Channel& each : channels_) make(each, tag += random_.integer(0, 1));
    match();
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  void run(int steps) {
    for (int i = 0; i < steps && !testing::Test::HasFailure(); ++i) {
      step("step " + std::to_string(i));
      take_step(channels_[static_cast<std::size_t>(random_.integer(0, static_cast<int>(channels_.size()) - 1))]);
    }
    for (Channel& each : channels_) finish(each);
  }

  void end() {
    for (Channel& each : channels_) {
      settle_send(each);
      settle_receive(each);
      if (rank() == each.sender) {
        EXPECT_EQ(each.sent, each.out.values());
      }
      if (rank() == each.receiver) {
        EXPECT_EQ(each.received, each.in.values());
      }
    }
    leave_together();
    for (auto& queue : queues_) EXPECT_OK(Partita_Queue_free(&queue));
    for (Channel& each : channels_) {
      if (rank() == each.sender) {
        EXPECT_OK(Partita_Request_free(&each.send));
      }
      if (rank() == each.receiver) {
        EXPECT_OK(Partita_Request_free(&each.receive));
      }
    }
  }

 private:
  void make(Channel& made, int tag) {
    made.sender = random_.integer(0, ranks() - 1);
    made.receiver = random_.integer(0, ranks() - 1);
    made.tag = tag;
    made.kind = static_cast<Kind>(random_.integer(0, 3));
    made.count = static_cast<std::size_t>(random_.of(std::vector{0, 1, 7, 500, 20'000}));
    made.room = made.count + (made.kind == Kind::partitioned ? 0 : static_cast<std::size_t>(random_.integer(0, 3)));
    made.sent.assign(made.count, 0);
    made.received.assign(made.room, -1);
    const Memory out_memory = some_memory(), in_memory = some_memory();
    made.out = {made.kind == Kind::buffered ? Memory::plain : out_memory, made.sent};
    made.in = {in_memory, made.received};
    const auto count = static_cast<MPI_Count>(made.count);
    const auto room = static_cast<MPI_Count>(made.room);
    if (rank() == made.sender) {
      const auto init = made.kind == Kind::synchronous ? Partita_Ssend_init
                        : made.kind == Kind::buffered  ? Partita_Bsend_init
                                                       : Partita_Send_init;
      EXPECT_OK(made.kind == Kind::partitioned
                    ? Partita_Psend_init(made.out.data(), 1, count, MPI_INT, made.receiver, tag, MPI_COMM_WORLD,
                                         MPI_INFO_NULL, &made.send)
                    : init(made.out.data(), count, MPI_INT, made.receiver, tag, MPI_COMM_WORLD, &made.send));
    }
    if (rank() == made.receiver) {
      EXPECT_OK(made.kind == Kind::partitioned ? Partita_Precv_init(made.in.data(), 1, room, MPI_INT, made.sender, tag,
                                                                    MPI_COMM_WORLD, MPI_INFO_NULL, &made.receive)
                                               : Partita_Recv_init(made.in.data(), room, MPI_INT, made.sender, tag,
                                                                   MPI_COMM_WORLD, &made.receive));
    }
  }

  Memory some_memory() {
    const bool on_host = random_.one_in(3);
    return gpu_memory_is_wanted() && !on_host ? Memory::gpu : Memory::plain;
  }

  void match() {
    std::vector<Partita_Request> requests;
    for (const Channel& each : channels_) {
      if (rank() == each.sender) requests.push_back(each.send);
      if (rank() == each.receiver) requests.push_back(each.receive);
    }
    EXPECT_OK(Partita_Matchall(static_cast<int>(requests.size()), requests.data()));
  }

  void take_step(Channel& on) {
    switch (random_.integer(0, 5)) {
      case 0:
        return compute(on);
      case 1:
        return start(on.sender, on.send, on.send_driver, on.send_over, on.send_waits_in, [&] { mark(on); });
      case 2:
        return start(on.receiver, on.receive, on.receive_driver, on.receive_over, on.receive_waits_in, [] {});
      case 3:
        return wait_for_send(on);
      case 4:
        return wait_for_receive(on);
      default:
        return do_wrong(on);
    }
  }

  /// Writes what will be sent next, from what was received: of a side that is active nothing may be written.
  void compute(Channel& on) {
    const int number = random_.integer(0, 1'000'000);
    Channel& other = channels_[static_cast<std::size_t>(random_.integer(0, static_cast<int>(channels_.size()) - 1))];
    if (on.send_driver >= 0) return;
    const bool has_other = other.receiver == on.sender && other.receive_driver < 0 && !other.received.empty();
    settle_send(on);
    if (has_other) settle_receive(other);
    const auto write = [&](std::vector<int>& to, const std::vector<int>& from) {
      for (std::size_t i = 0; i < to.size(); ++i) {
        to[i] = number + static_cast<int>(i) + (has_other ? from[i % from.size()] % 1'000 : 0);
      }
    };
    if (rank() == on.sender) {
      std::vector<int> out = on.sent;
      write(out, has_other ? other.in.values() : other.received);
      on.out.set(out);
    }
    write(on.sent, other.received);
  }

  /// Where queues run ahead of the host, the wait that was enqueued last is over now.
  void settle(int where, int& waits_in) {
    if (waits_in >= 0 && rank() == where) {
      EXPECT_OK(Partita_Queue_wait(queue(waits_in)));
    }
    waits_in = -1;
  }
  void settle_send(Channel& on) { settle(on.sender, on.send_waits_in); }
  void settle_receive(Channel& on) { settle(on.receiver, on.receive_waits_in); }

  template <class Mark>
  void start(int where, Partita_Request& request, int& driver, bool over, int& waits_in, Mark mark) {
    const int chosen = random_.integer(0, by_host);
    if (driver >= 0 || over) return;
    driver = chosen;
    if (driver != waits_in) settle(where, waits_in);
    if (rank() != where) return;
    EXPECT_OK(driver == by_host ? Partita_Start(&request) : Partita_Enqueue_start(queue(driver), &request));
    mark();
  }

  static void mark(const Channel& on) {
    if (on.kind == Kind::partitioned) {
      EXPECT_OK(Partita_Pready(0, on.send));
    }
  }

  bool both_are_started(const Channel& on) const {
    return (on.send_driver >= 0 || on.send_over) && (on.receive_driver >= 0 || on.receive_over);
  }

  void wait(int where, Partita_Request& request, int& driver, bool& over, int& waits_in) {
    if (rank() == where) {
      EXPECT_OK(driver == by_host ? Partita_Wait(&request, MPI_STATUS_IGNORE)
                                  : Partita_Enqueue_wait(queue(driver), &request));
    }
    if (driver != by_host && queue_runs_ahead()) waits_in = driver;
    driver = -1;
    over = true;
  }

  void wait_for_send(Channel& on) {
    if (on.send_driver < 0 || !both_are_started(on)) return;
    if (!on.receive_over) arriving(on);
    wait(on.sender, on.send, on.send_driver, on.send_over, on.send_waits_in);
    end_epoch(on);
  }

  void wait_for_receive(Channel& on) {
    if (on.receive_driver < 0 || !both_are_started(on)) return;
    if (!on.send_over) arriving(on);
    wait(on.receiver, on.receive, on.receive_driver, on.receive_over, on.receive_waits_in);
    if (!queue_runs_ahead() || random_.one_in(2)) {
      settle_receive(on);
      if (rank() == on.receiver) {
        EXPECT_EQ(on.received, on.in.values());
      }
    }
    end_epoch(on);
  }

  /// The model moves the message at the first wait; what is sent does not change before the send's.
  static void arriving(Channel& on) { std::ranges::copy(on.sent, on.received.begin()); }

  static void end_epoch(Channel& on) {
    if (on.epoch_is_over()) on.send_over = on.receive_over = false;
  }

  /// What is refused changes nothing.
  void do_wrong(Channel& on) {
    const int other = random_.integer(0, queue_count - 1);
    const bool is_send = random_.one_in(2);
    Partita_Request& request = is_send ? on.send : on.receive;
    const int driver = is_send ? on.send_driver : on.receive_driver;
    if (rank() != (is_send ? on.sender : on.receiver)) return;
    if (driver < 0) {
      EXPECT_ERROR(Partita_Enqueue_wait(queue(other), &request), MPI_ERR_REQUEST, "no start");
    } else if (driver == by_host) {
      EXPECT_ERROR(Partita_Enqueue_start(queue(other), &request), MPI_ERR_REQUEST, "started by the host");
      EXPECT_ERROR(Partita_Enqueue_wait(queue(other), &request), MPI_ERR_REQUEST, "no start");
    } else {
      EXPECT_ERROR(Partita_Enqueue_start(queue(other), &request), MPI_ERR_REQUEST, "no wait");
      EXPECT_ERROR(Partita_Start(&request), MPI_ERR_REQUEST, "queue");
      EXPECT_ERROR(Partita_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_REQUEST, "queue");
      EXPECT_ERROR(Partita_Request_free(&request), MPI_ERR_REQUEST, "queue");
      if (other != driver) {
        EXPECT_ERROR(Partita_Enqueue_wait(queue(other), &request), MPI_ERR_REQUEST, "another queue");
      }
    }
  }

  /// Ends the epoch that is open, if one is.
  void finish(Channel& on) {
    if (on.send_driver < 0 && on.receive_driver < 0 && !on.send_over && !on.receive_over) return;
    start(on.sender, on.send, on.send_driver, on.send_over, on.send_waits_in, [&] { mark(on); });
    start(on.receiver, on.receive, on.receive_driver, on.receive_over, on.receive_waits_in, [] {});
    wait_for_send(on);
    wait_for_receive(on);
  }

  /// What a buffered send has copied leaves behind its wait, where a rank has no thread for that by its calls alone.
  static void leave_together() {
    MPI_Request all = MPI_REQUEST_NULL;
    int all_are_here = 0;
    MPI_Ibarrier(MPI_COMM_WORLD, &all);
    while (!all_are_here) {
      EXPECT_OK(Partita_Progress(nullptr));
      MPI_Test(&all, &all_are_here, MPI_STATUS_IGNORE);
    }
  }

  Partita_Queue queue(int driver) const { return queues_[static_cast<std::size_t>(driver)]; }

  Random random_;
  std::array<Partita_Queue, queue_count> queues_{};
  std::vector<Channel> channels_;
};

TEST(QueuePrograms, do_what_the_model_says) {
  const ErrorsReturn handler(MPI_COMM_WORLD);
  const std::uint64_t seed = job_seed();
  const long rounds = environment_number("PARTITEST_ROUNDS", 10);
  for (long i = 0; i < rounds && !testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", program " + std::to_string(i));
    Program program(Random(seed, static_cast<std::uint64_t>(i)));
    program.run(300);
    program.end();
  }
}

}  // namespace
}  // namespace partita::test
