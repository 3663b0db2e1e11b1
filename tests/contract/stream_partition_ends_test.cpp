// Partitioned requests whose epochs kernels open, in queues of streams: what is refused, and how they end where
// something goes wrong. On streams of the fake GPU; functions stand for kernels.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <partita/device.cuh>

#include <array>

#include "contract/stream_partitions.hpp"
#include "support/errors.hpp"
#include "support/fake_gpu.hpp"
#include "support/job.hpp"
#include "support/stream_line.hpp"

namespace partita::test {
namespace {

using StreamPartitionEnds = StreamPartitions;
using StreamPartitionEndsTimeout = StreamPartitions;
INSTANTIATE_TEST_SUITE_P(Packets, StreamPartitionEnds, testing::Values(PartitionShape{4, 64}));
INSTANTIATE_TEST_SUITE_P(Flags, StreamPartitionEnds, testing::Values(PartitionShape{6, 3001}));
INSTANTIATE_TEST_SUITE_P(One, StreamPartitionEnds, testing::Values(PartitionShape{1, 20'000}));
INSTANTIATE_TEST_SUITE_P(Packets, StreamPartitionEndsTimeout, testing::Values(PartitionShape{4, 64}));

TEST_P(StreamPartitionEnds, are_refused_as_others_are) {
  Pair pair(1, GetParam());
  Line line(0), other(1);
  const auto refuses = [](int code, const char* word) { EXPECT_ERROR(code, MPI_ERR_REQUEST, word); };
  OneSide elsewhere(false, MPI_PROC_NULL, 3, GetParam(), "device", blocks_mapped);
  OneSide unmatched(false, left(), 4, GetParam());
  harness_barrier();  // nobody makes its peer yet
  refuses(Partita_Enqueue_start(line.queue(), &unmatched.request), "not matched");
  harness_barrier();
  OneSide its_peer(true, right(), 4, GetParam());
  std::array late{unmatched.request, its_peer.request};
  ASSERT_OK(Partita_Matchall(2, late.data()));
  refuses(Partita_Enqueue_wait(line.queue(), &pair.in.request), "no start of request 0 is enqueued");
  refuses(Partita_Enqueue_start(line.queue(), &its_peer.request), "no device request, by which kernels mark");
  ASSERT_OK(Partita_Prequest_free(&pair.out.device));
  refuses(Partita_Enqueue_start(line.queue(), &pair.out.request), "no device request, by which kernels mark");
  pair.out.create();

  line.start(pair.in.request);
  line.start(pair.out.request);
  refuses(Partita_Enqueue_start(line.queue(), &pair.in.request), "no wait for it is enqueued");
  refuses(Partita_Enqueue_wait(other.queue(), &pair.in.request), "in another queue");
  refuses(Partita_Prequest_free(&pair.out.device), "queue");
  refuses(Partita_Prequest_create(&pair.in.device, pair.in.request), "queue");
  refuses(Partita_Pready(0, pair.out.request), "inactive");
  refuses(Partita_Start(&pair.in.request), "queue");
  line.launch([&] { pair.out.send(seed_of(rank(), 1)); });
  line.wait(pair.in.request);
  line.wait(pair.out.request);
  refuses(Partita_Enqueue_start(other.queue(), &pair.in.request), "a wait in another queue");
  line.finish();
  refuses(Partita_Start(&pair.in.request), "only MPIX_Pstart in a kernel opens its epochs, and a queue");
  pair.in.expect(seed_of(left(), 1));

  Partita_Queue of_host = PARTITA_QUEUE_NULL;
  ASSERT_OK(Partita_Queue_init(&of_host, PARTITA_QUEUE_HOST, nullptr));
  refuses(Partita_Enqueue_start(of_host, &pair.in.request), "device-driven");
  ASSERT_OK(Partita_Queue_free(&of_host));
  harness_barrier();  // nobody frees what a peer has not matched
  unmatched.free();
  its_peer.free();
  elsewhere.free();
  pair.free();
}

/// A rank with itself, which maps all of its GPUs.
TEST_P(StreamPartitionEnds, are_refused_where_the_stream_is_another_gpus) {
  OneSide in(false, rank(), 5, GetParam(), "device", blocks_mapped), out(true, rank(), 5, GetParam());
  std::array both{in.request, out.request};
  ASSERT_OK(Partita_Matchall(2, both.data()));
  Line line(0);
  EXPECT_ERROR(Partita_Enqueue_start(line.queue(), &in.request), MPI_ERR_REQUEST, "Enqueue_start",
               "its buffer is memory of GPU 5, and the stream is one of GPU 4");
  in.free();
  out.free();
}

/// In a capture no device request is made, and what the host drives is for the progress engine.
TEST_P(StreamPartitionEnds, are_captured_only_where_nothing_is_to_be_made) {
  Pair pair(1, GetParam()), by_host(2, GetParam(), "host", "host");
  Line line(0);
  line.worker().begin_capture();
  EXPECT_ERROR(Partita_Enqueue_start(line.queue(), &pair.in.request), MPI_ERR_ARG, "in a capture none is made");
  EXPECT_ERROR(Partita_Enqueue_start(line.queue(), &by_host.in.request), MPI_ERR_ARG, "progress engine");
  EXPECT_TRUE(line.worker().end_capture().empty());
  pair.free();
  by_host.free();
}

/// What a kernel did wrong, in the middle of others' epochs. Nothing is done with the request from there on.
TEST_P(StreamPartitionEnds, a_mistake_of_a_kernel_comes_out_of_queue_wait) {
  Pair pair(1, GetParam()), good(2, GetParam());
  Line line(0);
  line.start(pair.in.request);
  for (int epoch = 1; epoch <= 2; ++epoch) {
    line.start(pair.out.request);
    line.start(good.in.request);
    line.start(good.out.request);
    line.launch([&, epoch] {
      if (epoch == 1) pair.out.send(seed_of(rank(), 1));
      EXPECT_EQ(PARTITA_DEVICE_ERR_TWICE, MPIX_Pready(0, pair.out.device));
      good.out.send(seed_of(rank(), epoch));
    });
    line.wait(good.in.request);
    line.wait(good.out.request);
    line.wait(pair.out.request);
    line.launch([&, epoch] { good.in.expect(seed_of(left(), epoch)); });
  }
  line.wait(pair.in.request);
  line.launch([&] { pair.in.expect(seed_of(left(), 1)); });  // all of it was marked before
  line.worker().drain();
  harness_barrier();
  EXPECT_ERROR(Partita_Queue_wait(line.queue()), MPI_ERR_OTHER, "Queue_wait", "marked a partition twice");
  harness_barrier();
  pair.free();
  good.free();
}

/// What the receiver's stream has come to the end of before is over, whenever its host looks. The watch ends the wait
/// for the other request, and by then has looked at both.
TEST_P(StreamPartitionEnds, a_peer_that_gives_up_takes_back_no_epoch_that_is_complete) {
  Pair whole(1, GetParam()), torn(2, GetParam());
  Line sends(0), receives(1);
  for (Pair* const each : {&whole, &torn}) {
    receives.start(each->in.request);
    receives.wait(each->in.request);
    sends.start(each->out.request);
    sends.launch([each] { each->out.send(seed_of(rank(), 1)); });
    sends.wait(each->out.request);
  }
  receives.worker().drain();
  receives.start(torn.in.request);
  receives.wait(torn.in.request);
  for (Pair* const each : {&whole, &torn}) {
    sends.start(each->out.request);
    sends.launch([each] { EXPECT_EQ(PARTITA_DEVICE_ERR_PARTITION, MPIX_Pready(-1, each->out.device)); });
    sends.wait(each->out.request);
  }
  EXPECT_ERROR(Partita_Queue_wait(sends.queue()), MPI_ERR_OTHER, "Queue_wait", "a partition that the request does not");
  receives.worker().drain();
  EXPECT_ERROR(Partita_Queue_wait(receives.queue()), MPI_ERR_OTHER, "tag 2");
  EXPECT_OK(Partita_Queue_wait(receives.queue()));
  harness_barrier();
  whole.free();
  torn.free();
}

/// Nobody marks: what the sender's stream stands at is lost.
TEST_P(StreamPartitionEnds, a_peer_that_gives_up_its_receive_ends_the_epoch_that_it_was_in) {
  Pair pair(1, GetParam());
  pair.in.create();
  Line sends(0), receives(1);
  sends.start(pair.out.request);
  sends.wait(pair.out.request);
  receives.start(pair.in.request);
  receives.launch([&pair] { EXPECT_EQ(PARTITA_DEVICE_ERR_SIDE, MPIX_Pready(0, pair.in.device)); });
  receives.wait(pair.in.request);
  EXPECT_ERROR(Partita_Queue_wait(receives.queue()), MPI_ERR_OTHER, "Queue_wait", "a call for sends on a receive");
  sends.worker().drain();
  EXPECT_ERROR(Partita_Queue_wait(sends.queue()), MPI_ERR_OTHER, "Queue_wait", "gave its request up");
  harness_barrier();
  pair.free();
}

/// The stream goes on, and Queue_wait tells why.
TEST_P(StreamPartitionEnds, what_the_peer_has_freed_ends_the_wait) {
  if (ranks() < 2) GTEST_SKIP() << "needs a peer";
  Pair pair(1, GetParam());
  if (rank() == 0) {
    Line line(0);
    line.start(pair.in.request);
    line.wait(pair.in.request);
    line.start(pair.in.request);  // behind the failure
    line.wait(pair.in.request);
    line.expect_to_go_on();
    EXPECT_ERROR(Partita_Queue_wait(line.queue()), MPI_ERR_REQUEST, "Queue_wait", "freed");
    line.start(pair.in.request);
    line.wait(pair.in.request);
    EXPECT_ERROR(Partita_Queue_wait(line.queue()), MPI_ERR_REQUEST, "Queue_wait", "freed");
    harness_barrier();
    pair.free();
  } else {
    pair.free();
    harness_barrier();
  }
}

/// Nobody marks: behind the limit the stream goes on, and the epochs behind that one do not wait again.
TEST_P(StreamPartitionEndsTimeout, lets_the_stream_go) {
  harness_barrier();
  Pair pair(1, GetParam());
  Line line(0);
  for (int epoch = 0; epoch < 8; ++epoch) {
    line.start(pair.in.request);
    line.wait(pair.in.request);
  }
  line.expect_to_go_on();
  EXPECT_ERROR(Partita_Queue_wait(line.queue()), MPI_ERR_OTHER, "Queue_wait", "PARTITA_TIMEOUT");
  harness_barrier();  // a free of what the other still waits for would end its wait first
  pair.free();
}

/// No queue sees what a graph does: the request tells.
TEST_P(StreamPartitionEndsTimeout, of_a_graph_comes_out_of_a_wait) {
  harness_barrier();
  Pair pair(1, GetParam());
  pair.in.create();
  Line line(0);
  line.worker().begin_capture();
  line.start(pair.in.request);
  line.wait(pair.in.request);
  line.launch(line.worker().end_capture());
  line.worker().drain();
  EXPECT_ERROR(Partita_Wait(&pair.in.request, MPI_STATUS_IGNORE), MPI_ERR_OTHER, "Wait", "PARTITA_TIMEOUT");
  EXPECT_OK(Partita_Wait(&pair.in.request, MPI_STATUS_IGNORE));
  harness_barrier();
  pair.free();
}

}  // namespace
}  // namespace partita::test
