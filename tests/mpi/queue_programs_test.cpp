// Random programs of starts, waits and computations, in queues and by the host, whose results a small model predicts.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "support/errors.hpp"
#include "support/job.hpp"
#include "support/memory.hpp"
#include "support/queue_compute.hpp"
#include "support/queue_kind.hpp"
#include "support/random.hpp"

namespace partita::test {
namespace {

constexpr int queue_count = 3;
constexpr int by_host = queue_count;  ///< where a side is started and awaited, or computed, instead of in a queue

enum class Kind { standard, synchronous, buffered, ready, partitioned };

/// A buffer of numbers, on a host or a GPU.
class Numbers {
 public:
  Numbers() = default;
  Numbers(Memory memory, const std::vector<int>& values)
      : memory_(memory), bytes_(memory, static_cast<std::int64_t>(values.size() * sizeof(int))) {
    set(values);
  }

  int* data() const { return reinterpret_cast<int*>(bytes_.address()); }
  Memory memory() const { return memory_; }
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
  Memory memory_ = Memory::plain;
  Bytes bytes_;
};

/// What one rank does of something that is started again and again: its request, and what the model knows of that,
/// alike on all ranks.
struct Role {
  int where = 0;            ///< the rank
  int driver = -1;          ///< a queue or by_host, from start to wait; -1 while inactive
  bool over = false;        ///< awaited in this epoch
  int waits_in = -1;        ///< the queue whose wait for it, or computation with it, may not be over, or -1
  std::vector<int> values;  ///< what lies in its buffer

  // What is real, on that rank.
  Numbers numbers;
  Partita_Request request = PARTITA_REQUEST_NULL;

  bool is_started() const { return driver >= 0 || over; }
};

/// A pair of requests.
struct Channel {
  int tag = 0;
  Kind kind{};
  Role send, receive;
};

/// An allreduce of all ranks.
struct SumOfAll {
  std::vector<Role> sides;  ///< what each rank gives
  std::vector<Numbers> results;
  std::vector<int> values;  ///< what lies in each of those
};

/// This rank's.
template <class Things>
auto& own(Things& of_ranks) {
  return of_ranks[static_cast<std::size_t>(rank())];
}

/// All ranks draw the same steps, and each takes those that are its own in their order. A wait comes behind all starts
/// of its message or sum, and a sum is started by all ranks in one step, so that the first step which is not taken yet
/// can always be taken.
class Program {
 public:
  explicit Program(Random random) : random_(random) {
    for (int i = 0; i < queue_count; ++i) {
      EXPECT_OK(Partita_Queue_init(&queues_[static_cast<std::size_t>(i)], queue_type(), queue_stream(i)));
    }
    channels_.resize(static_cast<std::size_t>(random_.integer(1, 8)));
    int tag = 0;
    for (Channel& each : channels_) make(each, tag += random_.integer(0, 1));
    sums_.resize(static_cast<std::size_t>(random_.integer(0, 2)));
    for (SumOfAll& each : sums_) make(each);
    match();
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  void run(int steps) {
    for (int i = 0; i < steps && !testing::Test::HasFailure(); ++i) {
      step("step " + std::to_string(i));
      take_step();
    }
    for (Channel& each : channels_) finish(each);
    for (SumOfAll& each : sums_) finish(each);
  }

  void end() {
    for_each_side([&](Role& each) { settle(each); });
    for_each_side([](const Role& each) {
      if (rank() == each.where) {
        EXPECT_EQ(each.values, each.numbers.values());
      }
    });
    for (const SumOfAll& each : sums_) EXPECT_EQ(each.values, own(each.results).values());
    leave_together();
    for (auto& queue : queues_) EXPECT_OK(Partita_Queue_free(&queue));
    for_each_side([](Role& each) {
      if (rank() == each.where) {
        EXPECT_OK(Partita_Request_free(&each.request));
      }
    });
  }

 private:
  template <class Things>
  auto& some_of(Things& things) {
    return things[static_cast<std::size_t>(random_.integer(0, static_cast<int>(things.size()) - 1))];
  }
  template <class Body>
  void for_each_side(Body body) {
    for (Channel& each : channels_) {
      body(each.send);
      body(each.receive);
    }
    for (SumOfAll& sum : sums_) {
      for (Role& each : sum.sides) body(each);
    }
  }

  void make(Channel& made, int tag) {
    made.send.where = random_.integer(0, ranks() - 1);
    made.receive.where = random_.integer(0, ranks() - 1);
    made.tag = tag;
    made.kind = static_cast<Kind>(random_.integer(0, 4));
    const auto count = static_cast<MPI_Count>(random_.of(std::vector{0, 1, 7, 500, 20'000}));
    const MPI_Count room = count + (made.kind == Kind::partitioned ? 0 : random_.integer(0, 3));
    made.send.values.assign(static_cast<std::size_t>(count), 0);
    made.receive.values.assign(static_cast<std::size_t>(room), -1);
    const Memory out_memory = some_memory(), in_memory = some_memory();
    made.send.numbers = {made.kind == Kind::buffered ? Memory::plain : out_memory, made.send.values};
    made.receive.numbers = {in_memory, made.receive.values};
    int* const out = made.send.numbers.data();
    int* const in = made.receive.numbers.data();
    const int sender = made.send.where, receiver = made.receive.where;
    if (rank() == sender) {
      const auto init = made.kind == Kind::synchronous ? Partita_Ssend_init
                        : made.kind == Kind::buffered  ? Partita_Bsend_init
                        : made.kind == Kind::ready     ? Partita_Rsend_init
                                                       : Partita_Send_init;
      EXPECT_OK(made.kind == Kind::partitioned
                    ? Partita_Psend_init(out, 1, count, MPI_INT, receiver, tag, MPI_COMM_WORLD, MPI_INFO_NULL,
                                         &made.send.request)
                    : init(out, count, MPI_INT, receiver, tag, MPI_COMM_WORLD, &made.send.request));
    }
    if (rank() == receiver) {
      EXPECT_OK(made.kind == Kind::partitioned
                    ? Partita_Precv_init(in, 1, room, MPI_INT, sender, tag, MPI_COMM_WORLD, MPI_INFO_NULL,
                                         &made.receive.request)
                    : Partita_Recv_init(in, room, MPI_INT, sender, tag, MPI_COMM_WORLD, &made.receive.request));
    }
  }

  /// Kernels move some, where they can.
  void make(SumOfAll& made) {
    const auto count = static_cast<std::size_t>(random_.of(std::vector{1, 7, 500}));
    const Memory memory = some_memory();
    const bool by_kernels = random_.one_in(2) && memory == Memory::gpu && kernels_move_sums();
    made.values.assign(count, -1);
    made.sides.resize(static_cast<std::size_t>(ranks()));
    for (int i = 0; i < ranks(); ++i) {
      Role& side = made.sides[static_cast<std::size_t>(i)];
      side.where = i;
      side.values.assign(count, 0);
      side.numbers = {memory, side.values};
      made.results.emplace_back(memory, made.values);
    }
    MPI_Info info = MPI_INFO_NULL;
    MPI_Info_create(&info);
    if (by_kernels) MPI_Info_set(info, "partita_driver", "device");
    EXPECT_OK(Partita_Allreduce_init(own(made.sides).numbers.data(), own(made.results).data(),
                                     static_cast<MPI_Count>(count), MPI_INT, MPI_SUM, MPI_COMM_WORLD, info,
                                     &own(made.sides).request));
    MPI_Info_free(&info);
  }

  static bool kernels_move_sums() {
    const auto is_unset_or = [](const char* name, std::string_view value) {
      const char* const text = std::getenv(name);
      return text == nullptr || text == value;
    };
    return is_unset_or("PARTITA_LINK", "auto") && is_unset_or("PARTITA_GPU_COPY", "kernel");
  }

  Memory some_memory() {
    const bool on_host = random_.one_in(3);
    return gpu_memory_is_wanted() && !on_host ? Memory::gpu : Memory::plain;
  }

  void match() {
    std::vector<Partita_Request> requests;
    for_each_side([&](const Role& each) {
      if (rank() == each.where) requests.push_back(each.request);
    });
    EXPECT_OK(Partita_Matchall(static_cast<int>(requests.size()), requests.data()));
  }

  void take_step() {
    if (!sums_.empty() && random_.one_in(4)) {
      SumOfAll& on = some_of(sums_);
      return random_.one_in(3) ? start(on) : wait(on, some_of(on.sides));
    }
    Channel& on = some_of(channels_);
    switch (random_.integer(0, 5)) {
      case 0:
        return compute_some();
      case 1:
        return start_send(on);
      case 2:
        return start(on.receive);
      case 3:
        return wait_for_send(on);
      case 4:
        return wait_for_receive(on);
      default:
        return do_wrong(random_.one_in(2) ? on.send : on.receive);
    }
  }

  /// Writes what will be sent or summed next, from what was received or is a sum: with a side that is active nothing
  /// may be done. In the order of a stream it comes behind the waits that are enqueued there.
  void compute_some() {
    const int number = random_.integer(0, 1'000'000);
    const int where = random_.integer(0, by_host);
    const bool to_sum = !sums_.empty() && random_.one_in(4), from_sum = !sums_.empty() && random_.one_in(4);
    Role& to = to_sum ? some_of(some_of(sums_).sides) : some_of(channels_).send;
    SumOfAll* const sum = from_sum ? &some_of(sums_) : nullptr;
    Role& from = sum != nullptr ? sum->sides[static_cast<std::size_t>(to.where)] : some_of(channels_).receive;
    const Numbers& numbers = sum != nullptr ? sum->results[static_cast<std::size_t>(to.where)] : from.numbers;
    const std::vector<int>& values = sum != nullptr ? sum->values : from.values;
    if (to.driver >= 0) return;
    const bool has_from = from.where == to.where && from.driver < 0 && !values.empty();
    const bool in_queue = where != by_host && (!has_from || queue_reaches(to.numbers.memory(), numbers.memory()));
    for (Role* const each : {&to, has_from ? &from : &to}) {
      if (!in_queue || each->waits_in != where) settle(*each);
      if (in_queue && queue_runs_ahead()) each->waits_in = where;
    }
    const auto computation = [&](int* out, std::size_t count, const int* in) {
      return Computation{out, static_cast<int>(count), in, has_from ? static_cast<int>(values.size()) : 0, number};
    };
    if (rank() == to.where && in_queue) {
      compute_in_queue(where, computation(to.numbers.data(), to.values.size(), numbers.data()), to.numbers.memory());
    } else if (rank() == to.where) {
      std::vector<int> out = to.values;
      const std::vector<int> in = has_from ? numbers.values() : std::vector<int>{};  // else it may be active
      compute(computation(out.data(), out.size(), in.data()));
      to.numbers.set(out);
    }
    const std::vector<int> in = values;
    compute(computation(to.values.data(), to.values.size(), in.data()));
  }

  /// Where queues run ahead of the host, what was enqueued last with it is over now.
  void settle(Role& side) {
    if (side.waits_in >= 0 && rank() == side.where) {
      EXPECT_OK(Partita_Queue_wait(queue(side.waits_in)));
      drain_queue(side.waits_in);
    }
    side.waits_in = -1;
  }

  void start(Role& side) {
    const int chosen = random_.integer(0, by_host);
    if (!side.is_started()) start(side, chosen);
  }
  void start(Role& side, int driver) {
    side.driver = driver;
    if (driver != side.waits_in) settle(side);
    if (rank() != side.where) return;
    EXPECT_OK(driver == by_host ? Partita_Start(&side.request) : Partita_Enqueue_start(queue(driver), &side.request));
  }

  void start_send(Channel& on) {
    const int chosen = random_.integer(0, by_host);
    if (on.send.is_started() || (on.kind == Kind::ready && !on.receive.is_started())) return;
    if (on.kind == Kind::ready) tell_that_receive_has_started(on);
    start(on.send, chosen);
    if (on.kind == Kind::partitioned && rank() == on.send.where) {
      EXPECT_OK(Partita_Pready(0, on.send.request));
    }
  }

  /// What is enqueued may not have run.
  void tell_that_receive_has_started(const Channel& on) const {
    if (rank() == on.receive.where) {
      if (on.receive.driver != by_host) {
        EXPECT_OK(Partita_Queue_wait(queue(on.receive.driver)));
      }
      if (on.send.where != rank()) PMPI_Send(nullptr, 0, MPI_INT, on.send.where, on.tag, harness_comm());
    } else if (rank() == on.send.where) {
      MPI_Request told = MPI_REQUEST_NULL;
      PMPI_Irecv(nullptr, 0, MPI_INT, on.receive.where, on.tag, harness_comm(), &told);
      make_progress_until(told);
    }
  }

  void wait(Role& side) {
    if (rank() == side.where) {
      EXPECT_OK(side.driver == by_host ? Partita_Wait(&side.request, MPI_STATUS_IGNORE)
                                       : Partita_Enqueue_wait(queue(side.driver), &side.request));
    }
    if (side.driver != by_host && queue_runs_ahead()) side.waits_in = side.driver;
    side.driver = -1;
    side.over = true;
  }

  static bool both_are_started(const Channel& on) { return on.send.is_started() && on.receive.is_started(); }

  void wait_for_send(Channel& on) {
    if (on.send.driver < 0 || !both_are_started(on)) return;
    if (!on.receive.over) arriving(on);
    wait(on.send);
    end_epoch(on);
  }

  void wait_for_receive(Channel& on) {
    if (on.receive.driver < 0 || !both_are_started(on)) return;
    if (!on.send.over) arriving(on);
    wait(on.receive);
    if (!queue_runs_ahead() || random_.one_in(2)) {
      settle(on.receive);
      if (rank() == on.receive.where) {
        EXPECT_EQ(on.receive.values, on.receive.numbers.values());
      }
    }
    end_epoch(on);
  }

  /// The model moves the message at the first wait; what is sent does not change before the send's.
  static void arriving(Channel& on) { std::ranges::copy(on.send.values, on.receive.values.begin()); }

  static void end_epoch(Channel& on) {
    if (on.send.over && on.receive.over) on.send.over = on.receive.over = false;
  }

  /// All ranks do, each where it likes.
  void start(SumOfAll& on) {
    std::vector<int> chosen;
    for (int i = 0; i < ranks(); ++i) chosen.push_back(random_.integer(0, by_host));
    if (std::ranges::any_of(on.sides, &Role::is_started)) return;
    std::ranges::fill(on.values, 0);
    for (Role& each : on.sides) {
      start(each, chosen[static_cast<std::size_t>(each.where)]);
      for (std::size_t i = 0; i < on.values.size(); ++i) on.values[i] += each.values[i];
    }
  }

  void wait(SumOfAll& on, Role& side) {
    const bool looks = !queue_runs_ahead() || random_.one_in(2);
    if (side.driver < 0) return;
    wait(side);
    if (looks) {
      settle(side);
      if (rank() == side.where) {
        EXPECT_EQ(on.values, own(on.results).values());
      }
    }
    if (!std::ranges::all_of(on.sides, &Role::over)) return;
    for (Role& each : on.sides) each.over = false;
  }

  /// What is refused changes nothing.
  void do_wrong(Role& side) {
    const int other = random_.integer(0, queue_count - 1);
    Partita_Request& request = side.request;
    if (rank() != side.where) return;
    if (side.driver < 0) {
      EXPECT_ERROR(Partita_Enqueue_wait(queue(other), &request), MPI_ERR_REQUEST, "no start");
    } else if (side.driver == by_host) {
      EXPECT_ERROR(Partita_Enqueue_start(queue(other), &request), MPI_ERR_REQUEST, "started by the host");
      EXPECT_ERROR(Partita_Enqueue_wait(queue(other), &request), MPI_ERR_REQUEST, "no start");
    } else {
      EXPECT_ERROR(Partita_Enqueue_start(queue(other), &request), MPI_ERR_REQUEST, "no wait");
      EXPECT_ERROR(Partita_Start(&request), MPI_ERR_REQUEST, "queue");
      EXPECT_ERROR(Partita_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_REQUEST, "queue");
      EXPECT_ERROR(Partita_Request_free(&request), MPI_ERR_REQUEST, "queue");
      if (other != side.driver) {
        EXPECT_ERROR(Partita_Enqueue_wait(queue(other), &request), MPI_ERR_REQUEST, "another queue");
      }
    }
  }

  /// Ends the epoch that is open, if one is.
  void finish(Channel& on) {
    if (!on.send.is_started() && !on.receive.is_started()) return;
    start(on.receive);
    start_send(on);
    wait_for_send(on);
    wait_for_receive(on);
  }
  void finish(SumOfAll& on) {
    for (Role& each : on.sides) wait(on, each);
  }

  /// What a buffered send has copied leaves behind its wait, where a rank has no thread for that by its calls alone.
  static void leave_together() {
    MPI_Request all = MPI_REQUEST_NULL;
    MPI_Ibarrier(MPI_COMM_WORLD, &all);
    make_progress_until(all);
  }

  /// `request` of the MPI is complete.
  static void make_progress_until(MPI_Request request) {
    for (int is_complete = 0; is_complete == 0;) {
      EXPECT_OK(Partita_Progress(nullptr));
      MPI_Test(&request, &is_complete, MPI_STATUS_IGNORE);
    }
  }

  Partita_Queue queue(int driver) const { return queues_[static_cast<std::size_t>(driver)]; }

  Random random_;
  std::array<Partita_Queue, queue_count> queues_{};
  std::vector<Channel> channels_;
  std::vector<SumOfAll> sums_;
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
