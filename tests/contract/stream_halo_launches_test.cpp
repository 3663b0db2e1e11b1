// What a gather of partita::halo costs a stream of the fake GPU: launches, which are what its host takes time for.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/halo.hpp>
#include <partita/partita.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "contract/gpu_program.hpp"
#include "support/fake_gpu.hpp"
#include "support/job.hpp"

namespace partita::test {
namespace {

/// A rank with all of its neighbours, as in `partita run life`: rows lie as they are sent, and columns are packed.
class StreamHaloLaunches : public testing::Test {
 protected:
  static constexpr int side = 8;

  StreamHaloLaunches() {
    const std::array ranks_of{1, ranks()}, periodic{1, 1};
    MPI_Cart_create(MPI_COMM_WORLD, 2, ranks_of.data(), periodic.data(), 0, &cart_);
  }
  ~StreamHaloLaunches() override { MPI_Comm_free(&cart_); }

  template <class Step>
  static std::uint64_t launches_of(Step step) {
    const std::uint64_t before = FakeGpu::instance().launches();
    step();
    return FakeGpu::instance().launches() - before;
  }
  double* cells(const ProgramMemory& memory) const { return reinterpret_cast<double*>(memory.data()); }

  static constexpr std::size_t bytes = std::size_t{side + 2} * (side + 2) * sizeof(double);
  ProgramStream stream_;
  const ProgramMemory memory_{bytes}, other_{bytes};
  const halo_block<2> block_{{side, side}, 1, {}};
  MPI_Comm cart_ = MPI_COMM_NULL;
};

/// Packs, starts all, awaits all, unpacks.
TEST_F(StreamHaloLaunches, of_a_gather_are_four) {
  halo halo(communicator(cart_), block_, {cells(memory_)});
  queue order = queue::cuda(stream_.native());
  for (int epoch = 0; epoch < 3; ++epoch) EXPECT_EQ(4U, launches_of([&] { halo.enqueue_gather(order); }));
  order.wait();
}

/// Several fields are packed, moved and unpacked together.
TEST_F(StreamHaloLaunches, of_two_fields_are_those_of_one) {
  halo halo(communicator(cart_), block_, {cells(memory_), cells(other_)});
  queue order = queue::cuda(stream_.native());
  EXPECT_EQ(4U, launches_of([&] { halo.enqueue_gather(order); }));
  order.wait();
}

/// The receives stand in front, so that sends find them started.
TEST_F(StreamHaloLaunches, of_the_three_steps_are_five) {
  halo halo(communicator(cart_), block_, {cells(memory_)});
  queue order = queue::cuda(stream_.native());
  EXPECT_EQ(1U, launches_of([&] { halo.enqueue_receives(order); }));
  EXPECT_EQ(2U, launches_of([&] { halo.enqueue_sends(order); }));
  EXPECT_EQ(2U, launches_of([&] { halo.enqueue_wait(order); }));
  order.wait();
}

/// Ready sends are awaited by nobody.
TEST_F(StreamHaloLaunches, of_ready_sends_are_as_many) {
  halo first(communicator(cart_), block_, {cells(memory_)}), ready(first, {cells(other_)}, halo_sends::ready);
  queue order = queue::cuda(stream_.native());
  first.enqueue_receives(order);
  EXPECT_EQ(1U, launches_of([&] { ready.enqueue_receives(order); }));
  first.enqueue_sends(order);
  first.enqueue_wait(order);
  EXPECT_EQ(2U, launches_of([&] { ready.enqueue_sends(order); }));
  EXPECT_EQ(2U, launches_of([&] { ready.enqueue_wait(order); }));
  order.wait();
}

}  // namespace
}  // namespace partita::test
