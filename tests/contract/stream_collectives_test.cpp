// Persistent collectives without partitions on GPU memory, beside the MPI's own on host memory: in the order of a
// stream, in its graphs, and started by the host; moved by kernels of the library's, and by the progress engine.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>

#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "contract/gpu_program.hpp"
#include "contract/program_line.hpp"
#include "mpi/persistent_collective_cases.hpp"
#include "support/errors.hpp"
#include "support/gpu_memory.hpp"
#include "support/job.hpp"
#include "support/told.hpp"

namespace partita::test {
namespace {

using Ints = std::vector<int>;
using Case = Collective<Partita_Request>;

// clang-format off
#define COLLECTIVE(NAME, SHAPE, ...) PERSISTENT_COLLECTIVE(Partita_Request, NAME, Partita_##NAME##_init, SHAPE, __VA_ARGS__),
const std::vector<Case> collectives = {
#include "mpi/persistent_collective_cases.inc"
};
#undef COLLECTIVE
// clang-format on

/// Those that kernels know.
std::vector<Case> collectives_in_kernels() {
  std::vector<Case> known;
  for (const char* const name : {"Bcast", "Allgather", "Alltoall", "Allreduce", "Reduce_scatter_block"}) {
    for (const Case& each : collectives) {
      if (each.name == std::string(name)) known.push_back(each);
    }
  }
  return known;
}

std::string name_of_case(const testing::TestParamInfo<Case>& info) {
  return info.param.name;
}

/// Integers in the memory of this rank's GPU.
class GpuInts {
 public:
  explicit GpuInts(const Ints& values) : size_(values.size()), memory_(values.size() * sizeof(int)) { set(values); }
  int* data() const { return reinterpret_cast<int*>(memory_.data()); }
  std::size_t bytes() const { return size_ * sizeof(int); }
  void set(const Ints& values) { gpu_copy(data(), values.data(), bytes()); }
  Ints get() const {
    Ints values(size_);
    gpu_copy(values.data(), data(), bytes());
    return values;
  }

 private:
  std::size_t size_;
  ProgramMemory memory_;
};

/// A matched collective on GPU memory, and what the MPI's own gives epoch after epoch.
class OnGpu {
 public:
  OnGpu(const Made<Partita_Request>& made, InPlace in_place, int root)
      : places_(in_place, root),
        epochs_(reference_epochs(made, places_.sends_in_place, places_.receives_in_place)),
        defined_(made.result >= 0 ? static_cast<std::size_t>(made.result) : epochs_[0].expected.size()),
        sent_(epochs_[0].sent),
        received_(epochs_[0].before) {
    EXPECT_OK(made.init(places_.sends_in_place ? MPI_IN_PLACE : sent_.data(),
                        places_.receives_in_place ? MPI_IN_PLACE : received_.data(), &request));
    EXPECT_OK(Partita_Match(&request));
  }
  ~OnGpu() {
    harness_barrier();  // what goes wrong with a peer's free is not tested here
    EXPECT_OK(Partita_Request_free(&request));
    harness_barrier();
  }
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;

  const std::vector<Epoch>& epochs() const { return epochs_; }
  void write(const Epoch& epoch) {
    sent_.set(epoch.sent);
    received_.set(epoch.before);
  }
  void expect(const Epoch& epoch) const { expect(epoch, received_.get()); }
  void expect(const Epoch& epoch, const Ints& found) const {
    EXPECT_EQ(Ints(epoch.expected.begin(), epoch.expected.begin() + static_cast<std::ptrdiff_t>(defined_)),
              Ints(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(defined_)));
  }
  const GpuInts& sent() const { return sent_; }
  const GpuInts& received() const { return received_; }

  Partita_Request request = PARTITA_REQUEST_NULL;

 private:
  const Places places_;
  const std::vector<Epoch> epochs_;
  const std::size_t defined_;
  GpuInts sent_, received_;
};

/// All epochs are enqueued before anybody waits; the stream writes and keeps what each has.
void expect_epochs_of_stream(OnGpu& collective) {
  std::deque<GpuInts> sent, before, after;
  for (const Epoch& epoch : collective.epochs()) {
    sent.emplace_back(epoch.sent);
    before.emplace_back(epoch.before);
    after.emplace_back(epoch.before);
  }
  ProgramLine line;
  for (std::size_t number = 0; number < sent.size(); ++number) {
    line.stream().copy(collective.sent().data(), sent[number].data(), sent[number].bytes());
    line.stream().copy(collective.received().data(), before[number].data(), before[number].bytes());
    line.run(collective.request);
    line.stream().copy(after[number].data(), collective.received().data(), after[number].bytes());
  }
  line.finish();
  for (std::size_t number = 0; number < sent.size(); ++number) {
    SCOPED_TRACE("epoch " + std::to_string(number) + " of the stream");
    collective.expect(collective.epochs()[number], after[number].get());
  }
}

/// The host starts and completes epochs, every other one by tests.
void expect_epochs_of_host(OnGpu& collective) {
  for (std::size_t number = 0; number < collective.epochs().size(); ++number) {
    SCOPED_TRACE("epoch " + std::to_string(number) + " of the host");
    const Epoch& epoch = collective.epochs()[number];
    collective.write(epoch);
    ASSERT_OK(Partita_Start(&collective.request));
    int flag = 0;
    while (number % 2 == 0 && flag == 0) ASSERT_OK(Partita_Test(&collective.request, &flag, MPI_STATUS_IGNORE));
    ASSERT_OK(Partita_Wait(&collective.request, MPI_STATUS_IGNORE));
    collective.expect(epoch);
  }
}

void expect_epochs_of_host_queue(OnGpu& collective) {
  Partita_Queue queue = PARTITA_QUEUE_NULL;
  ASSERT_OK(Partita_Queue_init(&queue, PARTITA_QUEUE_HOST, nullptr));
  const Epoch& epoch = collective.epochs().front();
  collective.write(epoch);
  ASSERT_OK(Partita_Enqueue_start(queue, &collective.request));
  ASSERT_OK(Partita_Enqueue_wait(queue, &collective.request));
  ASSERT_OK(Partita_Queue_free(&queue));
  collective.expect(epoch);
}

class StreamCollectives : public testing::TestWithParam<Case> {
 protected:
  StreamCollectives() { choose_gpu(); }
  void SetUp() override { ASSERT_OK(Partita_Comm_register(ring_.comm())); }

  Made<Partita_Request> make(int n, int root, MPI_Info info) const {
    return GetParam().make(Terms{.n = n, .root = root, .ring = ring_.comm(), .info = info});
  }

  const RingOfNeighbours ring_;
  const ErrorsReturn handler_{MPI_COMM_WORLD};
};

/// Whoever drives it, the two take turns.
TEST_P(StreamCollectives, by_the_engine_give_what_the_mpis_own_give) {
  const int last = ranks() - 1;
  const auto expect = [&](int n, bool in_place, int root) {
    const Made<Partita_Request> made = make(n, root, MPI_INFO_NULL);
    OnGpu collective(made, in_place ? made.in_place : InPlace::none, root);
    expect_epochs_of_stream(collective);
    expect_epochs_of_host(collective);
    expect_epochs_of_host_queue(collective);
  };
  expect(500, false, last);
  expect(1, true, 0);
}

INSTANTIATE_TEST_SUITE_P(All, StreamCollectives, testing::ValuesIn(collectives), name_of_case);

class KernelStreamCollectives : public StreamCollectives {
 protected:
  const OneKey by_kernels_{"partita_driver", "device"};
};

TEST_P(KernelStreamCollectives, give_what_the_mpis_own_give) {
  const int last = ranks() - 1;
  const auto expect = [&](int n, bool in_place, int root) {
    const Made<Partita_Request> made = make(n, root, by_kernels_);
    OnGpu collective(made, in_place ? made.in_place : InPlace::none, root);
    expect_epochs_of_stream(collective);
    expect_epochs_of_host(collective);
    expect_epochs_of_stream(collective);
    expect_epochs_of_host_queue(collective);
    EXPECT_EQ(told(collective.request, "partita_gpu_copy"), "kernel");
  };
  expect(500, false, last);
  expect(10000, false, 0);  // several strips and blocks
  expect(1, true, 0);
}

/// Nothing of it has run before.
TEST_P(KernelStreamCollectives, are_captured_into_graphs) {
  OnGpu collective(make(77, 0, by_kernels_), InPlace::none, 0);
  ProgramLine line;
  line.stream().capture([&] { line.run(collective.request); });
  for (int round = 0; round < 2; ++round) {
    for (const Epoch& epoch : collective.epochs()) {
      collective.write(epoch);
      line.stream().launch_graph();
      line.stream().drain();
      collective.expect(epoch);
      harness_barrier();  // a bcast's root writes no more before all have looked
    }
    int flag = 0;
    ASSERT_OK(Partita_Test(&collective.request, &flag, MPI_STATUS_IGNORE));
    EXPECT_EQ(1, flag) << "epochs of graphs are not the host's";
    expect_epochs_of_host(collective);
  }
}

INSTANTIATE_TEST_SUITE_P(All, KernelStreamCollectives, testing::ValuesIn(collectives_in_kernels()), name_of_case);

/// An allreduce of four integers.
class StreamCollective : public testing::Test {
 protected:
  StreamCollective() { choose_gpu(); }
  int allreduce(MPI_Info info) {
    return Partita_Allreduce_init(in_.data(), out_.data(), 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD, info, &request_);
  }
  void free_together() {
    harness_barrier();
    ASSERT_OK(Partita_Request_free(&request_));
  }

  const GpuInts in_{Ints(4, 1)}, out_{Ints(4, -1)};
  const OneKey by_kernels_{"partita_driver", "device"};
  const ErrorsReturn handler_{MPI_COMM_WORLD};
  Partita_Request request_ = PARTITA_REQUEST_NULL;
};

TEST_F(StreamCollective, tells_what_it_is) {
  ASSERT_OK(allreduce(by_kernels_));
  ASSERT_OK(Partita_Match(&request_));
  EXPECT_EQ(told(request_, "partita_kind"), "persistent_allreduce");
  EXPECT_EQ(told(request_, "partita_active"), "false");
  ASSERT_OK(Partita_Start(&request_));
  EXPECT_EQ(told(request_, "partita_active"), "true");
  EXPECT_ERROR(Partita_Start(&request_), MPI_ERR_REQUEST, "active already", "Persistent allreduce");
  ASSERT_OK(Partita_Pbuf_prepare(request_));
  ASSERT_OK(Partita_Wait(&request_, MPI_STATUS_IGNORE));
  EXPECT_EQ(Ints(4, ranks()), out_.get());
  free_together();
}

/// The library launches its kernels; the program's have no request to call for.
TEST_F(StreamCollective, has_no_partitions) {
  ASSERT_OK(allreduce(by_kernels_));
  int flag = 0;
  Partita_Prequest prequest{};
  EXPECT_ERROR(Partita_Pready(0, request_), MPI_ERR_REQUEST, "no partitions (persistent_allreduce)");
  EXPECT_ERROR(Partita_Parrived(request_, 0, &flag), MPI_ERR_REQUEST, "no partitions");
  EXPECT_ERROR(Partita_Prequest_create(&prequest, request_), MPI_ERR_REQUEST, "Prequest_create", "kernels");
  free_together();
}

TEST_F(StreamCollective, starts_before_other_ranks_have_made_theirs) {
  for (int late = 0; late < ranks(); ++late) {
    if (rank() != late) {
      ASSERT_OK(allreduce(by_kernels_));
      ASSERT_OK(Partita_Start(&request_));
    }
    harness_barrier();
    if (rank() == late) {
      ASSERT_OK(allreduce(by_kernels_));
      ASSERT_OK(Partita_Start(&request_));
    }
    ASSERT_OK(Partita_Wait(&request_, MPI_STATUS_IGNORE));
    EXPECT_EQ(Ints(4, ranks()), out_.get());
    free_together();
  }
}

TEST_F(StreamCollective, by_the_engine_is_no_node_of_a_graph) {
  ASSERT_OK(allreduce(MPI_INFO_NULL));
  ASSERT_OK(Partita_Match(&request_));
  ProgramLine line;
  line.stream().capture([&] {
    EXPECT_ERROR(Partita_Enqueue_start(line.queue(), &request_), MPI_ERR_ARG, "captured", "progress engine");
  });
  line.run(request_);
  line.finish();
  EXPECT_EQ(Ints(4, ranks()), out_.get());
  free_together();
}

/// What kernels do not know goes by the engine alone.
TEST_F(StreamCollective, by_kernels_is_refused_where_they_cannot) {
  EXPECT_ERROR(Partita_Scan_init(in_.data(), out_.data(), 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD, by_kernels_, &request_),
               MPI_ERR_INFO_VALUE, "Scan_init", "partita_driver", "host");
  EXPECT_ERROR(Partita_Allreduce_init(in_.data(), out_.data(), 4, MPI_LONG_DOUBLE, MPI_SUM, MPI_COMM_WORLD, by_kernels_,
                                      &request_),
               MPI_ERR_TYPE, "Allreduce_init");
  Ints host(4);
  EXPECT_ERROR(
      Partita_Allreduce_init(MPI_IN_PLACE, host.data(), 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD, by_kernels_, &request_),
      MPI_ERR_BUFFER, "Allreduce_init", "memory of one GPU");
  EXPECT_ERROR(
      Partita_Allreduce_init(in_.data(), host.data(), 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request_),
      MPI_ERR_BUFFER, "Allreduce_init", "host memory");
  EXPECT_EQ(PARTITA_REQUEST_NULL, request_);
}

/// As many bytes, and moved alike: only what they are differs.
TEST_F(StreamCollective, meets_no_partitioned_one) {
  if (ranks() < 2) GTEST_SKIP() << "two ranks make different calls";
  if (rank() == 0) {
    ASSERT_OK(allreduce(by_kernels_));
  } else {
    ASSERT_OK(Partita_Pallreduce_init(in_.data(), out_.data(), 1, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD, by_kernels_,
                                      &request_));
  }
  const int code = Partita_Match(&request_);
  if (rank() == 0 || ranks() == 2) {
    EXPECT_ERROR(code, MPI_ERR_REQUEST, "partitioned allreduce", "persistent allreduce");
  }
  free_together();
}

class StreamCollectiveTimeout : public StreamCollective {};

/// In the entry timeout, with a short limit.
TEST_F(StreamCollectiveTimeout, ends_the_request) {
  ASSERT_OK(allreduce(by_kernels_));
  harness_barrier();  // the limit holds for the match, too
  ASSERT_OK(Partita_Match(&request_));
  harness_barrier();
  if (rank() == 0) {
    ASSERT_OK(Partita_Start(&request_));
    EXPECT_ERROR(Partita_Wait(&request_, MPI_STATUS_IGNORE), MPI_ERR_OTHER, "allreduce");
    EXPECT_ERROR(Partita_Start(&request_), MPI_ERR_REQUEST, "an earlier epoch of the request ended");
  }
  harness_barrier();
  ASSERT_OK(Partita_Request_free(&request_));
}

}  // namespace
}  // namespace partita::test
