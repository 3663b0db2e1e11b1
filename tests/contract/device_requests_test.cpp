// Device requests on a GPU that threads stand for: lives and epochs of one request after the other, requests of several
// threads, what two copies may do at once, and who sleeps meanwhile. The whole library, without a GPU.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/device/peer.h>
#include <partita/partita.h>
#include <unistd.h>
#include <partita/device.cuh>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "contract/fake_gpu_request.hpp"
#include "support/told.hpp"

namespace partita::test {
namespace {

class DeviceRequests : public FakeGpuRequest {};

/// A device-driven pair of a rank with itself, which maps everything.
class OwnPair {
 public:
  OwnPair(int partitions, std::int64_t partition_bytes)
      : OwnPair(partitions, partitions, partitions * partition_bytes) {}
  OwnPair(int send_partitions, int recv_partitions, std::int64_t total_bytes)
      : out(mapped, static_cast<std::size_t>(total_bytes) + 8), in(mapped, static_cast<std::size_t>(total_bytes) + 8) {
    MPI_Info info = MPI_INFO_NULL;
    PMPI_Info_create(&info);
    PMPI_Info_set(info, "partita_driver", "device");
    EXPECT_EQ(Partita_Psend_init(out.data(), send_partitions, total_bytes / send_partitions, MPI_BYTE, rank(), 4,
                                 MPI_COMM_WORLD, info, &send_request),
              MPI_SUCCESS);
    EXPECT_EQ(Partita_Precv_init(in.data(), recv_partitions, total_bytes / recv_partitions, MPI_BYTE, rank(), 4,
                                 MPI_COMM_WORLD, info, &recv_request),
              MPI_SUCCESS);
    PMPI_Info_free(&info);
  }
  void create() {
    EXPECT_EQ(Partita_Prequest_create(&send, send_request), MPI_SUCCESS);
    EXPECT_EQ(Partita_Prequest_create(&recv, recv_request), MPI_SUCCESS);
  }
  void open() {
    EXPECT_EQ(MPIX_Pstart(recv), PARTITA_DEVICE_SUCCESS);
    EXPECT_EQ(MPIX_Pstart(send), PARTITA_DEVICE_SUCCESS);
    EXPECT_EQ(MPIX_Pbuf_prepare(send), PARTITA_DEVICE_SUCCESS);
  }
  void complete() {
    EXPECT_EQ(MPIX_Pwait(send), PARTITA_DEVICE_SUCCESS);
    EXPECT_EQ(MPIX_Pwait(recv), PARTITA_DEVICE_SUCCESS);
  }
  bool has_arrived(int partition) {
    int flag = -1;
    EXPECT_EQ(MPIX_Parrived(recv, partition, &flag), PARTITA_DEVICE_SUCCESS);
    return flag == 1;
  }
  void free_device_requests() {
    EXPECT_EQ(Partita_Prequest_free(&send), MPI_SUCCESS);
    EXPECT_EQ(Partita_Prequest_free(&recv), MPI_SUCCESS);
  }
  void free_requests() {
    EXPECT_EQ(Partita_Request_free(&send_request), MPI_SUCCESS);
    EXPECT_EQ(Partita_Request_free(&recv_request), MPI_SUCCESS);
  }

  FakeGpuBuffer out;
  FakeGpuBuffer in;
  Partita_Request send_request = PARTITA_REQUEST_NULL;
  Partita_Request recv_request = PARTITA_REQUEST_NULL;
  MPIX_Prequest send{};
  MPIX_Prequest recv{};
};

partita_u64 head_of(const MPIX_Prequest& device) {
  return std::atomic_ref(device.state->head).load(std::memory_order_acquire);
}

template <class Done>
bool comes_true(const Done& done) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!done()) {
    if (std::chrono::steady_clock::now() > limit) return false;
    std::this_thread::yield();
  }
  return true;
}

/// Flags, packets and credits know the epochs of the device request before.
TEST_F(DeviceRequests, a_second_device_request_of_a_device_driven_pair_goes_on_behind_the_first) {
  for (const std::int64_t bytes : {16, 3}) {  // packets, flags
    OwnPair pair(4, bytes);
    std::uint64_t round = 0;
    for (int lives = 1; lives <= 3 && !HasFailure(); ++lives) {
      pair.create();
      for (int epoch = 0; epoch < lives; ++epoch) {
        ++round;
        pair.open();
        write_pattern(pair.out.data(), round, 0, 4 * bytes);
        for (int p = 0; p < 4; ++p) {
          EXPECT_FALSE(pair.has_arrived(p)) << "life " << lives << ", epoch " << epoch;
          EXPECT_EQ(MPIX_Pready(p, pair.send), PARTITA_DEVICE_SUCCESS);
          const bool at_once = bytes == 16;  // flags come with the last mark of a transfer
          EXPECT_EQ(pair.has_arrived(p), at_once || p == 3);
        }
        pair.complete();
        EXPECT_EQ(first_off_pattern(pair.in.data(), round, 0, 4 * bytes), 4 * bytes);
      }
      pair.free_device_requests();
    }
    pair.free_requests();
  }
}

TEST_F(DeviceRequests, threads_make_and_free_device_requests_of_their_own) {
  std::vector<std::thread> threads;
  std::array<std::unique_ptr<OwnPair>, 3> pairs;
  for (auto& pair : pairs) pair = std::make_unique<OwnPair>(2, 16);
  for (auto& pair : pairs) {
    threads.emplace_back([&] {
      for (int life = 0; life < 20; ++life) {
        pair->create();
        pair->open();
        EXPECT_EQ(MPIX_Pready_range(0, 1, pair->send), PARTITA_DEVICE_SUCCESS);
        pair->complete();
        pair->free_device_requests();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (auto& pair : pairs) pair->free_requests();
}

TEST_F(DeviceRequests, a_partition_of_no_bytes_arrives_once_it_is_marked) {
  OwnPair pair(2, 0);
  pair.create();
  for (int epoch = 0; epoch < 3; ++epoch) {
    pair.open();
    for (int p = 0; p < 2; ++p) {
      EXPECT_FALSE(pair.has_arrived(p));
      EXPECT_EQ(MPIX_Pready(p, pair.send), PARTITA_DEVICE_SUCCESS);
    }
    pair.complete();
  }
  pair.free_device_requests();
  pair.free_requests();
}

/// The block of a freed device request is the next one's.
TEST_F(DeviceRequests, a_copy_of_a_freed_device_request_frees_no_other) {
  const ReturnedErrors returned_errors;
  OwnPair first(2, 16);
  OwnPair second(2, 16);
  first.create();
  MPIX_Prequest copy = first.send;
  first.free_device_requests();
  second.create();
  const int code = Partita_Prequest_free(&copy);
  ASSERT_NE(code, MPI_SUCCESS);
  EXPECT_NE(told_by(code).find("argument prequest is of no request"), std::string::npos) << told_by(code);
  second.open();
  EXPECT_EQ(MPIX_Pready_range(0, 1, second.send), PARTITA_DEVICE_SUCCESS);
  second.complete();
  second.free_device_requests();
  first.free_requests();
  second.free_requests();
}

/// A device-driven pair of this rank with itself: small ones, and larger ones of small partitions.
TEST_F(DeviceRequests, small_partitions_of_larger_requests_travel_in_packets_too) {
  struct Case {
    int send_partitions;
    int recv_partitions;
    std::int64_t total_bytes;
    bool in_packets;
  };
  constexpr std::int64_t kib = 1024;
  const Case cases[] = {
      {1, 1, 8 * kib, true},           {1, 1, 8 * kib + 8, false}, {9, 9, 9 * kib, true},
      {32, 32, 32 * kib, true},        {33, 33, 33 * kib, false},  {16, 16, 32 * kib, false},
      {32, 16, 32 * kib, false},       {16, 32, 32 * kib, false},  {64, 64, 32 * kib, true},
      {128, 64, 32 * kib, true},       {64, 128, 32 * kib, false}, {9, 9, 9 * (kib + 8), false},
      {24, 24, 24 * (kib - 4), false},
  };
  for (const Case& c : cases) {
    step(std::to_string(c.send_partitions) + " to " + std::to_string(c.recv_partitions) + " partitions, " +
         std::to_string(c.total_bytes) + " bytes");
    OwnPair pair(c.send_partitions, c.recv_partitions, c.total_bytes);
    pair.create();
    EXPECT_EQ(told(pair.send_request, "partita_packets"), c.in_packets ? "true" : "false");
    for (std::uint64_t round = 1; round <= 3; ++round) {
      pair.open();
      write_pattern(pair.out.data(), round, 0, c.total_bytes);
      EXPECT_EQ(MPIX_Pready_range(0, c.send_partitions - 1, pair.send), PARTITA_DEVICE_SUCCESS);
      if (round == 2) {
        for (int p = 0; p < c.recv_partitions; p += 3) EXPECT_TRUE(pair.has_arrived(p));
      }
      pair.complete();
      EXPECT_EQ(first_off_pattern(pair.in.data(), round, 0, c.total_bytes), c.total_bytes);
    }
    pair.free_device_requests();
    pair.free_requests();
  }
}

/// So small a request would travel as packets, in which no kernel can compute. To itself each rank maps everything.
TEST_F(DeviceRequests, what_is_computed_in_place_travels_in_no_packets) {
  constexpr std::int64_t bytes = 16;
  FakeGpuBuffer out(mapped, 4 * bytes);
  FakeGpuBuffer in(mapped, 4 * bytes);
  write_pattern(out.data(), 1, 0, 4 * bytes);
  MPI_Info info = MPI_INFO_NULL;
  PMPI_Info_create(&info);
  PMPI_Info_set(info, "partita_driver", "device");
  PMPI_Info_set(info, "partita_in_place", "true");
  Partita_Request send = PARTITA_REQUEST_NULL;
  Partita_Request recv = PARTITA_REQUEST_NULL;
  ASSERT_EQ(Partita_Psend_init(out.data(), 4, bytes, MPI_BYTE, rank(), 3, MPI_COMM_WORLD, info, &send), MPI_SUCCESS);
  ASSERT_EQ(Partita_Precv_init(in.data(), 4, bytes, MPI_BYTE, rank(), 3, MPI_COMM_WORLD, info, &recv), MPI_SUCCESS);
  PMPI_Info_free(&info);
  MPIX_Prequest device_send{};
  MPIX_Prequest device_recv{};
  ASSERT_EQ(Partita_Prequest_create(&device_send, send), MPI_SUCCESS);
  ASSERT_EQ(Partita_Prequest_create(&device_recv, recv), MPI_SUCCESS);
  EXPECT_EQ(told(send, "partita_packets"), "false");
  for (std::uint64_t round = 2; round <= 5 && !HasFailure(); ++round) {
    EXPECT_EQ(MPIX_Pstart(device_recv), PARTITA_DEVICE_SUCCESS);
    EXPECT_EQ(MPIX_Pstart(device_send), PARTITA_DEVICE_SUCCESS);
    EXPECT_EQ(MPIX_Pbuf_prepare(device_send), PARTITA_DEVICE_SUCCESS);
    for (int p = 0; p < 4; ++p) {
      void* const place = MPIX_Pbuffer(p, device_send);
      ASSERT_EQ(place, in.data() + p * bytes);
      write_pattern(place, round, p * bytes, (p + 1) * bytes);
      EXPECT_EQ(MPIX_Pready(p, device_send), PARTITA_DEVICE_SUCCESS);
    }
    EXPECT_EQ(MPIX_Pwait(device_send), PARTITA_DEVICE_SUCCESS);
    EXPECT_EQ(MPIX_Pwait(device_recv), PARTITA_DEVICE_SUCCESS);
    EXPECT_EQ(first_off_pattern(in.data(), round, 0, 4 * bytes), 4 * bytes);
  }
  EXPECT_EQ(Partita_Request_free(&send), MPI_SUCCESS);
  EXPECT_EQ(Partita_Request_free(&recv), MPI_SUCCESS);
}

/// Two copies of what hosts mark are under way at once; the send is complete when both are.
TEST_F(DeviceRequests, a_copy_overtakes_one_that_takes_longer) {
  make(mapped, "partita_transport_partitions", "4");
  ASSERT_EQ(Partita_Start(&request_), MPI_SUCCESS);
  if (sends()) {
    ASSERT_EQ(Partita_Pbuf_prepare(request_), MPI_SUCCESS);
    FakeGpu::instance().hold(buffer_->data());
    for (int p = 0; p < partitions; ++p) {
      write_partition(1, p);
      ASSERT_EQ(Partita_Pready(p, request_), MPI_SUCCESS);
    }
  } else {
    const auto arrived = [&](int p) {
      int flag = 0;
      EXPECT_EQ(Partita_Parrived(request_, p, &flag), MPI_SUCCESS);
      return flag != 0;
    };
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!arrived(3) && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
    EXPECT_TRUE(arrived(3)) << "of the second copy";
    EXPECT_FALSE(arrived(0)) << "of the first copy, which is held";
  }
  harness_barrier();
  int complete = 1;
  if (sends()) {
    EXPECT_EQ(Partita_Test(&request_, &complete, MPI_STATUS_IGNORE), MPI_SUCCESS);
    EXPECT_EQ(complete, 0);
    FakeGpu::instance().hold(nullptr);
  }
  ASSERT_EQ(Partita_Wait(&request_, MPI_STATUS_IGNORE), MPI_SUCCESS);
  if (!sends()) expect_contents(1);
}

/// To kernels that would ask nevertheless the host's word says here that no epoch was started.
TEST_F(DeviceRequests, what_the_host_has_seen_of_the_receiver_kernels_need_not_ask) {
  for (const char* copy : {"kernel", "engine"}) {
    step(copy);
    make(mapped, "partita_gpu_copy", copy);
    const partita_u64 never_started = 0;
    MPIX_Prequest device{};
    if (sends()) {
      ASSERT_EQ(Partita_Prequest_create(&device, request_), MPI_SUCCESS);
      EXPECT_EQ(told(request_, "partita_gpu_copy"), copy);
    }
    MPIX_Prequest no_word = device;
    no_word.promise = &never_started;
    for (std::uint64_t round = 1; round <= 5 && !HasFailure(); ++round) {
      ASSERT_EQ(Partita_Start(&request_), MPI_SUCCESS);
      if (sends()) {
        const Epoch epoch = device::low_half(head_of(device));
        EXPECT_NE(device::high_half(head_of(device)), epoch) << "nobody has looked yet";
        for (int times = 0; times < 3; ++times) ASSERT_EQ(Partita_Pbuf_prepare(request_), MPI_SUCCESS);
        write_pattern(buffer_->data(), round, 0, total_bytes);
        EXPECT_TRUE(comes_true([&] { return head_of(device) == device::pair_of(epoch, epoch); })) << "round " << round;
        EXPECT_EQ(MPIX_Pready_range(0, partitions - 1, no_word), PARTITA_DEVICE_SUCCESS);
      }
      ASSERT_EQ(Partita_Wait(&request_, MPI_STATUS_IGNORE), MPI_SUCCESS);
      if (!sends()) expect_contents(round);
    }
    if (sends()) {
      EXPECT_EQ(Partita_Prequest_free(&device), MPI_SUCCESS);
    }
    TearDown();
  }
}

/// In the entry device_requests.wrap epochs pass 2^32: what was handed over that long ago is not taken for new.
TEST_F(DeviceRequests, hand_overs_are_forgotten_at_the_wrap) {
  if (std::getenv("PARTITA_FIRST_EPOCH") == nullptr) GTEST_SKIP() << "this entry's epochs do not wrap";
  make(mapped, "partita_transport_partitions", "4");
  MPIX_Prequest device{};
  if (sends()) {
    ASSERT_EQ(Partita_Prequest_create(&device, request_), MPI_SUCCESS);
    EXPECT_EQ(told(request_, "partita_gpu_copy"), "kernel");
    device.host->newest_hand_over = 2;
    device::handed_over(device.host)[1] = 2;
  }
  for (std::uint64_t round = 1; round <= 6 && !HasFailure(); ++round) {
    step("round " + std::to_string(round));
    ASSERT_EQ(Partita_Start(&request_), MPI_SUCCESS);
    if (sends()) {
      ASSERT_EQ(Partita_Pbuf_prepare(request_), MPI_SUCCESS);  // kernels copy everything
      write_pattern(buffer_->data(), round, 0, total_bytes);
      EXPECT_EQ(MPIX_Pready_range(0, partitions - 1, device), PARTITA_DEVICE_SUCCESS);
    }
    ASSERT_EQ(Partita_Wait(&request_, MPI_STATUS_IGNORE), MPI_SUCCESS);
    if (!sends()) expect_contents(round);
  }
  if (sends()) {
    EXPECT_EQ(device.host->newest_hand_over, no_epoch);
    EXPECT_EQ(device::handed_over(device.host)[1], no_epoch);
    EXPECT_EQ(Partita_Prequest_free(&device), MPI_SUCCESS);
  }
}

/// How often the threads of this process, but for the caller and the tests' watchdog, have been woken so far.
long wake_ups_of_other_threads() {
  long sum = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    if (name == "watchdog" || task.path().filename() == std::to_string(gettid())) continue;
    std::ifstream status(task.path() / "status");
    for (std::string word; status >> word;) {
      if (word != "voluntary_ctxt_switches:") continue;
      long count = 0;
      status >> count;
      sum += count;
    }
  }
  return sum;
}

/// A kernel of the live one may wait for this process, which could launch and copy nothing while some mappings close.
TEST_F(DeviceRequests, a_free_beside_a_device_driven_request_closes_only_mappings_that_close_at_once) {
  using memory::Closing;
  FakeGpu::instance().take_trimmed();
  OwnPair live(2, 64);
  live.create();
  OwnPair other(2, 64);
  other.free_requests();
  EXPECT_EQ(FakeGpu::instance().take_trimmed(), std::vector<Closing>(2, Closing::without_blocking));
  live.free_device_requests();
  live.free_requests();
  EXPECT_EQ(FakeGpu::instance().take_trimmed(), std::vector<Closing>(2, Closing::all));
}

TEST_F(DeviceRequests, no_thread_wakes_while_no_epoch_of_a_device_request_is_open) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer has a thread of its own, which wakes";
#endif
  make(nothing);
  MPIX_Prequest device{};
  ASSERT_EQ(Partita_Prequest_create(&device, request_), MPI_SUCCESS);
  for (int round = 0; round < 2; ++round) {
    harness_barrier();
    // What was under way ends, at some time on a machine that is busy; what polls wakes in every stretch.
    bool at_rest = false;
    for (int stretch = 0; stretch < 6 && !at_rest; ++stretch) {
      const long before = wake_ups_of_other_threads();
      std::this_thread::sleep_for(std::chrono::milliseconds(1500));
      at_rest = wake_ups_of_other_threads() - before < 2;
    }
    EXPECT_TRUE(at_rest) << "two wake-ups or more in each of six stretches of one and a half seconds";
    harness_barrier();
    ASSERT_EQ(Partita_Start(&request_), MPI_SUCCESS);
    if (sends()) {
      EXPECT_EQ(MPIX_Pready_range(0, partitions - 1, device), PARTITA_DEVICE_SUCCESS);
    }
    ASSERT_EQ(Partita_Wait(&request_, MPI_STATUS_IGNORE), MPI_SUCCESS);
  }
  EXPECT_EQ(Partita_Prequest_free(&device), MPI_SUCCESS);
}

/// Host memory will do, and the request need not be matched: there is nothing to reach.
TEST_F(DeviceRequests, of_nobody_are_made_do_nothing_and_are_freed) {
  const ReturnedErrors returned;
  std::array<std::byte, 64> buffer{};
  for (const bool sending : {true, false}) {
    Partita_Request request = PARTITA_REQUEST_NULL;
    const int made = sending ? Partita_Psend_init(buffer.data(), 4, 16, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD,
                                                  MPI_INFO_NULL, &request)
                             : Partita_Precv_init(buffer.data(), 4, 16, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD,
                                                  MPI_INFO_NULL, &request);
    ASSERT_EQ(made, MPI_SUCCESS);
    Partita_Prequest prequest{};
    Partita_Prequest second{};
    ASSERT_EQ(Partita_Prequest_create(&prequest, request), MPI_SUCCESS);
    EXPECT_NE(Partita_Prequest_create(&second, request), MPI_SUCCESS);
    for (int round = 0; round < 2; ++round) {
      ASSERT_EQ(Partita_Start(&request), MPI_SUCCESS);
      EXPECT_NE(Partita_Prequest_free(&prequest), MPI_SUCCESS) << "the request is active";
      int flag = 0;
      for (int p = 0; p < 4; ++p) EXPECT_EQ(MPIX_Pready(p, prequest), PARTITA_DEVICE_SUCCESS);
      EXPECT_EQ(MPIX_Parrived(prequest, 0, &flag), PARTITA_DEVICE_SUCCESS);
      EXPECT_EQ(flag, 1);
      EXPECT_EQ(MPIX_Pwait(prequest), PARTITA_DEVICE_SUCCESS);
      ASSERT_EQ(Partita_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);
    }
    const Partita_Prequest copy = prequest;
    EXPECT_EQ(Partita_Prequest_free(&prequest), MPI_SUCCESS);
    EXPECT_EQ(MPIX_Pready(0, prequest), PARTITA_DEVICE_ERR_FREED);
    Partita_Prequest stale = copy;
    EXPECT_NE(Partita_Prequest_free(&stale), MPI_SUCCESS);
    ASSERT_EQ(Partita_Prequest_create(&prequest, request), MPI_SUCCESS) << "another one, which goes with the request";
    EXPECT_EQ(Partita_Request_free(&request), MPI_SUCCESS);
    EXPECT_NE(Partita_Prequest_free(&prequest), MPI_SUCCESS);
  }
}

/// The table of peers names what the request's own fields name.
TEST_F(DeviceRequests, name_their_peer_in_a_table) {
  make(mapped);
  Partita_Prequest prequest{};
  ASSERT_EQ(Partita_Prequest_create(&prequest, request_), MPI_SUCCESS);
  ASSERT_NE(prequest.peers, nullptr);
  EXPECT_EQ(prequest.state->peers, 1u);
  const Partita_Peer& peer = prequest.peers[0];
  if (sends()) {
    EXPECT_EQ(peer.buffer, prequest.remote);
    EXPECT_EQ(peer.device_words, prequest.arrival_device);
    EXPECT_EQ(peer.host_words, prequest.arrival_host);
  } else {
    EXPECT_EQ(peer.buffer, nullptr);
    EXPECT_EQ(peer.host_words, prequest.credit);
  }
  EXPECT_EQ(Partita_Prequest_free(&prequest), MPI_SUCCESS);
}

}  // namespace
}  // namespace partita::test
