// Partitioned requests whose epochs kernels open, in queues of streams: what is refused, and how they end where
// something goes wrong. On streams of the fake GPU; functions stand for kernels.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <partita/device.cuh>

#include <array>
#include <cstdint>
#include <thread>
#include <vector>

#include "contract/stream_partitions.hpp"
#include "support/errors.hpp"
#include "support/fake_gpu.hpp"
#include "support/job.hpp"
#include "support/stream_line.hpp"
#include "support/told.hpp"

namespace partita::test {
namespace {

class StreamPartitionEnds : public StreamPartitions {
 protected:
  /// The streams of all ranks start and complete epoch 1 of `pair`, whose kernels mark it.
  static void complete_first_epoch(Pair& pair, Line& line) {
    std::array both{pair.in.request, pair.out.request};
    ASSERT_OK(Partita_Enqueue_startall(line.queue(), 2, both.data()));
    line.launch([&pair] { pair.out.send(seed_of(rank(), 1)); });
    ASSERT_OK(Partita_Enqueue_waitall(line.queue(), 2, both.data()));
    line.finish();
    harness_barrier();
  }
};
INSTANTIATE_TEST_SUITE_P(Packets, StreamPartitionEnds, testing::Values(PartitionShape{4, 64}));
INSTANTIATE_TEST_SUITE_P(Flags, StreamPartitionEnds, testing::Values(PartitionShape{6, 3001}));
INSTANTIATE_TEST_SUITE_P(One, StreamPartitionEnds, testing::Values(PartitionShape{1, 20'000}));

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
  refuses(Partita_Start(&pair.in.request), "expected is MPIX_Pstart in a kernel, or Enqueue_start in a queue");
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

/// Nothing is enqueued, so that no error comes late.
TEST_P(StreamPartitionEnds, are_refused_where_the_link_tells_only_the_host_of_arrivals) {
  OneSide in(false, left(), 6, GetParam(), "device", mapped, "mpi"),
      out(true, right(), 6, GetParam(), "host", mapped, "mpi");
  std::array both{in.request, out.request};
  ASSERT_OK(Partita_Matchall(2, both.data()));
  Line line(0);
  EXPECT_ERROR(Partita_Enqueue_start(line.queue(), &in.request), MPI_ERR_REQUEST, "Enqueue_start", "link mpi",
               "shows arrivals to the host only");
  line.finish();
  harness_barrier();
  in.free();
  out.free();
}

/// In a capture no device request is made, and what the host drives is for the progress engine.
TEST_P(StreamPartitionEnds, are_captured_only_where_nothing_is_to_be_made) {
  Pair pair(1, GetParam()), by_host(2, GetParam(), "host", "host");
  pair.in.create();
  ASSERT_OK(Partita_Prequest_free(&pair.in.device));
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
      EXPECT_EQ(epoch == 1 ? PARTITA_DEVICE_ERR_TWICE : PARTITA_DEVICE_ERR_ABORTED, MPIX_Pready(0, pair.out.device));
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

/// No queue has told what went wrong: the free of the device request does. All epochs were complete, and the next
/// device request goes on behind them.
TEST_P(StreamPartitionEnds, of_a_graph_start_afresh_with_the_next_device_request) {
  Pair pair(1, GetParam());
  Line line(0);
  line.worker().begin_capture();
  line.start(pair.out.request);
  line.launch([&pair] {
    pair.out.send(seed_of(rank(), 1));
    EXPECT_EQ(PARTITA_DEVICE_ERR_TWICE, MPIX_Pready(0, pair.out.device));
  });
  line.wait(pair.out.request);
  const std::vector<FakeWorker::Operation> graph = line.worker().end_capture();
  line.start(pair.in.request);
  line.launch(graph);
  line.wait(pair.in.request);
  line.finish();
  line.worker().drain();
  pair.in.expect(seed_of(left(), 1));
  EXPECT_ERROR(Partita_Prequest_free(&pair.out.device), MPI_ERR_OTHER, "Prequest_free", "marked a partition twice");
  pair.out.create();
  line.start(pair.in.request);
  line.start(pair.out.request);
  line.launch([&pair] { pair.out.send(seed_of(rank(), 2)); });
  line.wait(pair.out.request);
  line.wait(pair.in.request);
  line.finish();
  pair.in.expect(seed_of(left(), 2));
  pair.free();
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
  EXPECT_ERROR(Partita_Queue_wait(sends.queue()), MPI_ERR_OTHER, "Queue_wait", "gave its request up");
  harness_barrier();
  pair.free();
}

/// The sender says that an epoch is lost which has come: here it is not. The watch ends the wait for the other request,
/// and by then has looked at both.
TEST_P(StreamPartitionEnds, what_has_come_is_not_lost_with_its_sender) {
  if (ranks() < 2) GTEST_SKIP() << "needs a peer";
  Pair whole(1, GetParam()), torn(2, GetParam());
  Line line(0);
  complete_first_epoch(whole, line);
  if (HasFatalFailure()) return;
  const bool frees = rank() == ranks() - 1;
  if (frees) {
    --whole.out.device.state->decided;  // as if a mark were missing
    whole.out.free();
    torn.out.free();
  } else if (rank() == 0) {
    line.start(torn.in.request);
    line.wait(torn.in.request);
    EXPECT_ERROR(Partita_Queue_wait(line.queue()), MPI_ERR_REQUEST, "tag 2", "freed");
    EXPECT_OK(Partita_Wait(&whole.in.request, MPI_STATUS_IGNORE));
  }
  harness_barrier();
  for (Pair* const each : {&whole, &torn}) {
    if (!frees) each->out.free();
    each->in.free();
  }
}

/// A sender or a receiver frees its request just as its stream opens an epoch: that is lost, though of what counts
/// epochs some words are still those of the epoch before, which was complete.
TEST_P(StreamPartitionEnds, an_epoch_that_opens_is_lost_with_a_side_that_is_freed) {
  if (ranks() < 2) GTEST_SKIP() << "needs a peer";
  for (const bool sender_frees : {true, false}) {
    Pair pair(1, GetParam());
    pair.in.create();
    OneSide& freed = sender_frees ? pair.out : pair.in;
    OneSide& kept = sender_frees ? pair.in : pair.out;
    const bool frees = rank() == (sender_frees ? ranks() - 1 : 1), waits = rank() == 0;
    Line line(0);
    complete_first_epoch(pair, line);
    if (HasFatalFailure()) return;
    if (frees) {
      MPIX_Prequest& device = freed.device;
      ++device.state->head;
      if (!sender_frees) device.state->decided = static_cast<partita_u32>(GetParam().partitions);  // as MPIX_Parrived
      freed.free();
    } else if (waits) {
      line.start(kept.request);
      line.wait(kept.request);
      EXPECT_ERROR(Partita_Queue_wait(line.queue()), MPI_ERR_REQUEST, "it was freed before its kernels had",
                   sender_frees ? "marked all of epoch" : "completed epoch");
    }
    harness_barrier();
    if (!frees) freed.free();
    kept.free();
  }
}

/// Likewise the other way round: the words are those of the next epoch but for the one that names it. What was complete
/// is not lost.
TEST_P(StreamPartitionEnds, an_epoch_that_is_over_is_not_lost_with_its_sender_while_the_next_one_opens) {
  if (ranks() < 2) GTEST_SKIP() << "needs a peer";
  Pair pair(1, GetParam());
  Line line(0);
  complete_first_epoch(pair, line);
  if (HasFatalFailure()) return;
  const bool frees = rank() == ranks() - 1;
  if (frees) {
    ++pair.out.device.state->round;
    pair.out.free();
  } else if (rank() == 0) {
    line.start(pair.in.request);
    line.wait(pair.in.request);
    EXPECT_ERROR(Partita_Queue_wait(line.queue()), MPI_ERR_REQUEST, "the sender has freed its request");
  }
  harness_barrier();
  if (!frees) pair.out.free();
  pair.in.free();
}

/// What has failed is given up in a step of the progress engine, which waits for no copy: the GPU may have other work
/// in front of that. Nevertheless the peer hears what is lost, also where the program frees the request meanwhile.
TEST_P(StreamPartitionEnds, are_given_up_before_the_gpu_says_how_far_they_are) {
  if (ranks() < 2) GTEST_SKIP() << "the watch of one that is its own peer asks the GPU, too";
  FakeGpu& gpu = FakeGpu::instance();
  for (const bool frees_at_once : {false, true}) {
    Pair pair(1, GetParam());
    Line line(0);
    if (rank() == 0) {
      line.start(pair.out.request);
      line.launch([&pair] { EXPECT_EQ(PARTITA_DEVICE_ERR_PARTITION, MPIX_Pready(-1, pair.out.device)); });
      line.wait(pair.out.request);
      line.worker().drain();
      gpu.hold_all(true);
      const std::uint64_t copies = gpu.awaited_copies();
      EXPECT_ERROR(Partita_Queue_wait(line.queue()), MPI_ERR_OTHER, "Queue_wait", "a partition that the request does");
      EXPECT_EQ(copies, gpu.awaited_copies());
      std::thread releases([&gpu] { gpu.hold_all(false); });
      if (frees_at_once) pair.out.free();
      releases.join();
    } else if (rank() == 1) {
      line.start(pair.in.request);
      line.wait(pair.in.request);
      EXPECT_ERROR(Partita_Queue_wait(line.queue()), MPI_ERR_OTHER, "Queue_wait", "gave its request up");
    }
    harness_barrier();
    if (rank() != 0 || !frees_at_once) pair.out.free();
    pair.in.free();
  }
}

/// What the library's kernels work with is made by the match that is seen. The sender hears that there is none.
TEST_P(StreamPartitionEnds, a_match_without_gpu_memory_ends_both_sides) {
  OneSide in(false, left(), 1, GetParam()), out(true, right(), 1, GetParam());
  Partita_Request matching = PARTITA_REQUEST_NULL;
  ASSERT_OK(Partita_Imatch(&in.request, &matching));
  ASSERT_OK(Partita_Match(&out.request));
  int out_is_matched = 0;  // asked for the sake of progress: nobody looks at the other one
  while (told(in.request, "partita_matched") != "true") {
    ASSERT_OK(Partita_Is_matched(out.request, &out_is_matched));
  }
  out.create();
  if (rank() == 0) {
    FakeGpu::instance().fail_next(FakeGpu::Step::allocate_block);
    EXPECT_ERROR(Partita_Match(&in.request), MPI_ERR_NO_MEM, "Match", "the fake GPU is to fail");
  }
  if (right() == 0) {
    Line line(0);
    line.start(out.request);
    line.wait(out.request);
    EXPECT_ERROR(Partita_Queue_wait(line.queue()), MPI_ERR_NO_MEM, "Queue_wait", "gave its request up");
  }
  EXPECT_OK(Partita_Wait(&matching, MPI_STATUS_IGNORE));
  harness_barrier();
  in.free();
  out.free();
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

}  // namespace
}  // namespace partita::test
