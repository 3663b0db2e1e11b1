// How the host's puts between GPUs announce themselves (src/link/direct/device_sender.cpp): by one flag where all
// leaves at once, else by the flags of what has left, behind its bytes. On copy queues that a case lets go on step by
// step.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "contract/gpu_job.hpp"
#include "contract/gpu_program.hpp"
#include "link/direct/device.hpp"
#include "support/job.hpp"
#include "support/pattern.hpp"
#include "support/random.hpp"
#include "support/runs.hpp"

namespace partita::test {
namespace {

using link::Driver;
using link::Range;

/// The fake GPU, with copy queues of its own: lane 0 is the first one that was made.
class SteppedGpu final : public memory::DeviceMemory {
 public:
  explicit SteppedGpu(memory::DeviceMemory& gpu) : gpu_(gpu) {}

  /// What lane `lane` has not done yet: c, a copy; w, a word.
  std::string waiting(std::size_t lane) const {
    std::string kinds;
    if (lane < lanes_.size()) {
      for (const Asked& asked : *lanes_[lane]) kinds += asked.size_bytes > 0 ? 'c' : 'w';
    }
    return kinds;
  }
  void let(std::size_t lane, std::size_t count) {
    for (; count > 0; --count) make_oldest(*lanes_.at(lane));
  }
  void let_all(std::size_t lane) {
    if (lane < lanes_.size()) let(lane, lanes_[lane]->size());
  }
  void let_all() {
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) let_all(lane);
  }

  memory::Place place_of(const void* address, std::size_t size) override { return gpu_.place_of(address, size); }
  std::variant<memory::DeviceExport, memory::NotMappable> export_to(int peer, const void* address,
                                                                    std::size_t size) override {
    return gpu_.export_to(peer, address, size);
  }
  std::string why_not_exported(const void* address, std::size_t size_bytes) override {
    return gpu_.why_not_exported(address, size_bytes);
  }
  std::variant<std::shared_ptr<std::byte>, memory::NotMappable> import(int peer, const memory::DeviceExport& named,
                                                                       int device, memory::Closing closing) override {
    return gpu_.import(peer, named, device, closing);
  }
  std::shared_ptr<std::byte> find_mapping(int peer, const memory::DeviceExport& named, int device) override {
    return gpu_.find_mapping(peer, named, device);
  }
  void decline(int peer, const memory::DeviceExport& named) override { gpu_.decline(peer, named); }
  std::uint64_t memory_bytes(int device) override { return gpu_.memory_bytes(device); }
  std::byte* allocate_block(int device, std::size_t size) override { return gpu_.allocate_block(device, size); }
  void free_block(int device, std::byte* block, std::size_t size) override { gpu_.free_block(device, block, size); }
  std::byte* device_pointer(int device, std::byte* host) override { return gpu_.device_pointer(device, host); }
  std::unique_ptr<memory::Stream> make_stream(int device) override { return gpu_.make_stream(device); }
  std::unique_ptr<memory::CopyQueue> make_copy_queue(int) override {
    lanes_.push_back(std::make_shared<Lane>());
    return std::make_unique<Queue>(lanes_.back());
  }
  std::unique_ptr<memory::Stream> stream_of_program(void* native) override { return gpu_.stream_of_program(native); }
  std::unique_ptr<memory::Event> make_event(int device) override { return gpu_.make_event(device); }
  void copy(void* to, const void* from, std::size_t size) override { gpu_.copy(to, from, size); }
  void check(int device) override { gpu_.check(device); }
  std::uint64_t trim(std::size_t allowed, memory::Closing closing) override { return gpu_.trim(allowed, closing); }
  void make_current(int device) override { gpu_.make_current(device); }

 private:
  /// A copy, or a word where it has no size.
  struct Asked {
    std::byte* to;
    const std::byte* from;
    std::size_t size_bytes;
    Epoch value;
  };
  using Lane = std::deque<Asked>;

  class Queue final : public memory::CopyQueue {
   public:
    explicit Queue(std::shared_ptr<Lane> lane) : lane_(std::move(lane)) {}
    void copy(void* to, const void* from, std::size_t size) override {
      lane_->push_back({static_cast<std::byte*>(to), static_cast<const std::byte*>(from), size, no_epoch});
    }
    void write(std::span<const memory::WordWrite> writes) override {
      for (const auto& [word, value] : writes) {
        lane_->push_back({reinterpret_cast<std::byte*>(word), nullptr, 0, value});
      }
    }
    bool idle() override { return lane_->empty(); }
    void drain() override {
      while (!lane_->empty()) make_oldest(*lane_);
    }

   private:
    std::shared_ptr<Lane> lane_;
  };

  /// The bytes of larger copies are not there.
  static constexpr std::size_t largest_bytes = 1 << 20;

  static void make_oldest(Lane& lane) {
    const Asked asked = lane.front();
    lane.pop_front();
    if (asked.size_bytes == 0) {
      std::atomic_ref(*reinterpret_cast<Epoch*>(asked.to)).store(asked.value, std::memory_order_release);
    } else if (asked.size_bytes <= largest_bytes) {
      std::memcpy(asked.to, asked.from, asked.size_bytes);
    }
  }

  memory::DeviceMemory& gpu_;
  std::vector<std::shared_ptr<Lane>> lanes_;
};

constexpr std::int64_t partition_bytes = 24;

/// A request of this rank to itself, whose sender the host drives.
class Request {
 public:
  Request(World& world, memory::HostMemory& host_memory, memory::DeviceMemory& device_memory, std::int32_t transports,
          Driver receiving, Epoch first_epoch, std::int64_t bytes_each = partition_bytes)
      : gpu(device_memory), plan_(transports, transports, transports, transports * bytes_each) {
    settings_.first_epoch = first_epoch;
    const bool there = bytes_each == partition_bytes;
    const auto total = static_cast<std::size_t>(plan_.total_bytes());
    sent_.resize(there ? total : 16);
    received_.resize(there ? total : 16);
    const link::Context context{settings_, world, host_memory, gpu, progress_};
    link::Endpoint endpoint;
    endpoint.peer = world.rank();
    endpoint.size_bytes = plan_.total_bytes();
    endpoint.kind = memory::Kind::device;
    endpoint.device = test::gpu();
    endpoint.data = sent_.data();
    probe_ = std::make_unique<memory::DeviceBlock>(gpu, endpoint.device, sizeof(Epoch));
    sender = std::get<std::unique_ptr<link::Sender>>(link::make_device_sender(context, endpoint, *probe_));
    endpoint.data = received_.data();
    endpoint.driver = receiving;
    receiver = std::get<std::unique_ptr<link::Receiver>>(
        link::make_device_receiver(context, endpoint, plan_, sender->offer()));
    EXPECT_TRUE(
        std::holds_alternative<link::SenderFacts>(sender->connect(plan_, sent_.data(), receiver->answer().bytes)));
    const auto to = sender->device_route();
    host_flags_ = to.arrival_host;
    device_flags_ = to.arrival_device;
  }

  void open(Epoch epoch) {
    receiver->open(epoch);
    sender->start(epoch);
    ASSERT_TRUE(sender->ready(epoch));
  }
  std::int64_t transports() const { return plan_.transport_partitions(); }
  /// The flags that a host reads, and those that kernels do; the common one lies behind them.
  Epoch* host_flags() const { return host_flags_; }
  Epoch* device_flags() const { return device_flags_; }

  /// What the host, or kernels of a device-driven receive, see. Kernels are told first.
  bool arrived(std::int64_t t, Epoch epoch) const {
    const bool for_kernels = device_flags_[t] == epoch || device_flags_[transports()] == epoch;
    if (host_flags_ == nullptr) return for_kernels;
    const bool for_host = receiver->arrived(static_cast<std::int32_t>(t), epoch);
    EXPECT_EQ(receiver->first_missing({t, t + 1}, epoch) == t + 1, for_host);
    EXPECT_TRUE(for_kernels || !for_host) << "transport partition " << t << ", epoch " << epoch;
    return for_host;
  }
  void expect_arrived(Range arrived_ones, Epoch epoch) const {
    for (std::int64_t t = 0; t < transports(); ++t) {
      EXPECT_EQ(arrived(t, epoch), arrived_ones.begin <= t && t < arrived_ones.end)
          << "transport partition " << t << ", epoch " << epoch;
    }
  }
  void expect_all(Epoch epoch) const {
    expect_arrived({0, transports()}, epoch);
    // No flag of a device-driven receive is raised in host memory.
    EXPECT_EQ(receiver->first_missing({0, transports()}, epoch), host_flags_ != nullptr ? transports() : 0);
    EXPECT_TRUE(sender->finished());
  }

  void fill(Epoch epoch) { write_pattern(sent_.data(), epoch, 0, plan_.total_bytes()); }
  bool bytes_are_there(std::int64_t t, Epoch epoch) const {
    const Range bytes = plan_.bytes(t);
    return first_off_pattern(received_.data() + bytes.begin, epoch, bytes.begin, bytes.end) == bytes.end;
  }

  SteppedGpu gpu;
  std::unique_ptr<link::Sender> sender;
  std::unique_ptr<link::Receiver> receiver;

 private:
  Settings settings_;
  Progress progress_{0};
  link::Plan plan_;
  std::vector<std::byte> sent_;
  std::vector<std::byte> received_;
  std::unique_ptr<memory::DeviceBlock> probe_;
  Epoch* host_flags_ = nullptr;
  Epoch* device_flags_ = nullptr;
};

class DeviceAnnouncements : public GpuJob {
 protected:
  std::unique_ptr<Request> make(std::int32_t transports, Driver receiving = Driver::host,
                                Epoch first_epoch = no_epoch) {
    return std::make_unique<Request>(world(), host_memory(), device_memory(), transports, receiving, first_epoch);
  }
};

/// What is put may be under way, and kernels may know the way, when the receiver has freed its request.
TEST_F(DeviceAnnouncements, and_copies_end_before_the_buffer_of_a_peer_that_is_gone_is_let_go_of) {
  const auto request = make(2);
  request->open(1);
  request->sender->put({0, 2}, 1);
  EXPECT_FALSE(request->sender->release_peer(true));
  request->gpu.let_all();
  EXPECT_FALSE(request->sender->release_peer(false)) << "kernels have been told the way";
  EXPECT_NE(request->sender->device_route().remote, nullptr);
  EXPECT_TRUE(request->sender->release_peer(true));
  EXPECT_TRUE(request->sender->release_peer(true)) << "once more";
  EXPECT_EQ(request->sender->device_route().remote, nullptr);
  request->receiver->open(2);
  EXPECT_THROW(request->sender->put({0, 1}, 2), Error);
}

TEST_F(DeviceAnnouncements, and_the_buffer_of_the_peer_is_let_go_of_with_the_own_one) {
  const auto request = make(2);
  request->open(1);
  request->sender->put({0, 2}, 1);
  request->gpu.let_all();
  request->sender->release_memory();
  EXPECT_EQ(request->sender->device_route().remote, nullptr);
}

/// What a lane is asked for, behind a copy of bytes: a word, or one a flag, in each memory, and the lane's own;
/// or copies of flags with a fence in front of each, for which numbers of the epoch may have to be brought.
constexpr const char* const one_flag = "cwww";
constexpr const char* const one_flag_in_the_gpu = "cww";
constexpr const char* const copied_flags = "cwcwcw";
constexpr const char* const brought_and_copied_flags = "ccwcwcw";
constexpr const char* const brought_ahead = "cw";

TEST_F(DeviceAnnouncements, of_all_that_leaves_at_once_are_one_flag) {
  for (const std::int32_t transports : {1, 2, 4, 5, 64, 3000}) {
    for (const Driver receiving : {Driver::host, Driver::device}) {
      const auto request = make(transports, receiving);
      for (Epoch epoch = 1; epoch <= 3; ++epoch) {
        request->open(epoch);
        request->sender->put({0, transports}, epoch);
        EXPECT_EQ(request->gpu.waiting(0), receiving == Driver::host ? one_flag : one_flag_in_the_gpu) << transports;
        EXPECT_EQ(request->gpu.waiting(1), "");
        request->expect_arrived({}, epoch);
        request->gpu.let_all();
        request->expect_all(epoch);
        EXPECT_EQ(request->device_flags()[0], transports == 1 ? epoch : no_epoch);
      }
    }
  }
}

TEST_F(DeviceAnnouncements, of_a_few_are_their_flags) {
  const auto request = make(64);
  request->open(1);
  request->sender->put({3, 4}, 1);
  EXPECT_EQ(request->gpu.waiting(0), "cwww");
  request->gpu.let_all();
  request->expect_arrived({3, 4}, 1);
  request->sender->put({10, 14}, 1);
  EXPECT_EQ(request->gpu.waiting(1), "cwwwwwwwww");
  request->gpu.let_all();
  for (std::int64_t t = 0; t < 64; ++t) EXPECT_EQ(request->arrived(t, 1), t == 3 || (t >= 10 && t < 14)) << t;
  request->gpu.let_all();
}

/// The last ones stand for all only where the others have ended: lanes do not wait for one another.
TEST_F(DeviceAnnouncements, of_the_last_do_not_tell_of_what_another_lane_still_copies) {
  const auto request = make(64);
  request->open(1);
  request->sender->put({0, 10}, 1);
  request->sender->put({10, 64}, 1);
  EXPECT_EQ(request->gpu.waiting(0), std::string(brought_and_copied_flags) + brought_ahead);
  EXPECT_EQ(request->gpu.waiting(1), std::string(brought_and_copied_flags) + brought_ahead);
  request->gpu.let_all(1);
  request->expect_arrived({10, 64}, 1);
  EXPECT_FALSE(request->sender->finished());
  request->gpu.let_all(0);
  request->expect_all(1);
}

TEST_F(DeviceAnnouncements, of_the_last_are_one_flag_where_the_others_have_ended) {
  const auto request = make(64);
  for (Epoch epoch = 1; epoch <= 3; ++epoch) {
    request->open(epoch);
    request->sender->put({0, 3}, epoch);
    request->gpu.let_all(0);
    request->expect_arrived({0, 3}, epoch);
    request->sender->put({3, 64}, epoch);
    EXPECT_EQ(request->gpu.waiting(1), one_flag);
    request->gpu.let_all();
    request->expect_all(epoch);
  }
  // Behind what the same lane copies they come anyhow.
  request->open(4);
  request->sender->put({0, 3}, 4);
  request->sender->put({3, 6}, 4);
  request->gpu.let_all(1);
  request->sender->put({6, 64}, 4);
  EXPECT_EQ(request->gpu.waiting(0), std::string("cwwwwwww") + one_flag);
  request->gpu.let_all();
  request->expect_all(4);
}

TEST_F(DeviceAnnouncements, of_many_find_their_numbers_in_the_gpu_from_the_second_epoch_on) {
  const auto request = make(64);
  for (Epoch epoch = 1; epoch <= 5; ++epoch) {
    const std::string flags = epoch == 1 ? brought_and_copied_flags : copied_flags;
    request->open(epoch);
    request->sender->put({0, 10}, epoch);
    EXPECT_EQ(request->gpu.waiting(0), flags) << "epoch " << epoch;
    request->sender->put({10, 64}, epoch);
    EXPECT_EQ(request->gpu.waiting(1), flags + brought_ahead) << "epoch " << epoch;
    request->gpu.let_all();
    request->expect_all(epoch);
  }
  // An epoch that needs none leaves those of its own there, which are nobody else's.
  request->open(6);
  request->sender->put({0, 64}, 6);
  request->gpu.let_all();
  request->expect_all(6);
  request->open(7);
  request->sender->put({0, 10}, 7);
  request->sender->put({10, 64}, 7);
  EXPECT_EQ(request->gpu.waiting(1), std::string(brought_and_copied_flags) + brought_ahead);
  request->gpu.let_all();
  request->expect_all(7);
}

/// The host may not write numbers of a later epoch where a lane has still to copy those of this one.
TEST_F(DeviceAnnouncements, do_not_take_numbers_away_that_are_still_to_be_brought) {
  const auto request = make(64);
  const auto put = [&](Epoch epoch) {
    request->open(epoch);
    request->sender->put({0, 10}, epoch);
    request->sender->put({10, 64}, epoch);
  };
  put(1);
  for (const std::size_t lane : {std::size_t{0}, std::size_t{1}}) {
    request->gpu.let(lane, std::strlen(brought_and_copied_flags));
    EXPECT_EQ(request->gpu.waiting(lane), brought_ahead);
  }
  request->expect_all(1);
  put(2);
  for (const std::size_t lane : {std::size_t{0}, std::size_t{1}}) {
    EXPECT_EQ(request->gpu.waiting(lane), std::string(brought_ahead) + copied_flags);
  }
  request->gpu.let_all();
  request->expect_all(2);
  put(3);
  EXPECT_EQ(request->gpu.waiting(0), std::string(brought_and_copied_flags) + brought_ahead);
  request->gpu.let_all();
  request->expect_all(3);
}

TEST_F(DeviceAnnouncements, go_on_behind_an_epoch_that_was_given_up) {
  const auto request = make(64);
  request->open(1);
  request->sender->put({0, 10}, 1);
  request->sender->give_up(1);
  EXPECT_EQ(request->gpu.waiting(0), "");
  request->open(2);
  request->expect_arrived({}, 2);
  request->sender->put({0, 10}, 2);
  request->sender->put({10, 64}, 2);
  request->gpu.let_all();
  request->expect_all(2);
}

TEST_F(DeviceAnnouncements, of_copies_on_two_lanes_tell_of_no_other_copy) {
  constexpr std::int64_t transport_bytes = 8 * 1024 * 1024;  // 8 of them are a copy
  Request request(world(), host_memory(), device_memory(), 24, Driver::host, no_epoch, transport_bytes);
  request.open(1);
  request.sender->put({0, 24}, 1);
  EXPECT_EQ(request.gpu.waiting(0), std::string(brought_and_copied_flags) + brought_and_copied_flags + brought_ahead);
  EXPECT_EQ(request.gpu.waiting(1), std::string(brought_and_copied_flags) + brought_ahead);
  request.gpu.let(0, std::strlen(brought_and_copied_flags));
  request.expect_arrived({0, 8}, 1);
  request.gpu.let_all(0);
  for (std::int64_t t = 0; t < 24; ++t) EXPECT_EQ(request.arrived(t, 1), t < 8 || t >= 16) << t;
  request.gpu.let_all(1);
  request.expect_all(1);
}

/// As epochs have left them that were 2^32 ago.
TEST_F(DeviceAnnouncements, of_old_are_forgotten_before_their_epoch_comes_again) {
  for (const Epoch before : {0x7ffffffeU, 0xfffffffeU}) {
    const auto request = make(8, Driver::host, before);
    const Epoch last = next(before), again = next(last);
    request->open(last);
    request->sender->put({0, 3}, last);
    request->sender->put({3, 8}, last);
    request->gpu.let_all();
    request->expect_all(last);
    for (Epoch* const flags : {request->host_flags(), request->device_flags()}) {
      flags[0] = flags[8] = again;
      flags[1] = next(again);
    }
    for (const Epoch epoch : {again, next(again)}) {
      request->open(epoch);
      request->expect_arrived({}, epoch);
      request->sender->put({0, 8}, epoch);
      request->gpu.let_all();
      request->expect_all(epoch);
    }
  }
}

/// Runs of any length leave in any order while lanes go on as they like: what has arrived is there, and all arrives.
TEST_F(DeviceAnnouncements, come_behind_the_bytes_whatever_the_lanes_do) {
  Random random(job_seed());
  for (int round = 0; round < 60 && !HasFailure(); ++round) {
    const std::int32_t transports = random.integer(1, 40);
    Epoch epoch = round % 2 == 0 ? no_epoch : 0xffffffffU - static_cast<Epoch>(random.integer(1, 6));
    const auto request = make(transports, round % 3 == 0 ? Driver::device : Driver::host, epoch);
    for (int count = 0; count < 12 && !HasFailure(); ++count) {
      epoch = next(epoch);
      request->fill(epoch);
      request->open(epoch);
      request->expect_arrived({}, epoch);
      const bool whole = random.one_in(3);
      for (const Range run : whole ? std::vector<Range>{{0, transports}} : random_runs(random, transports)) {
        request->sender->put(run, epoch);
        for (int step = random.integer(0, 12); step > 0; --step) {
          const auto lane = static_cast<std::size_t>(random.integer(0, 1));
          if (!request->gpu.waiting(lane).empty()) request->gpu.let(lane, 1);
          const std::int64_t t = random.integer(0, transports - 1);
          EXPECT_TRUE(!request->arrived(t, epoch) || request->bytes_are_there(t, epoch)) << "epoch " << epoch;
        }
      }
      while (!request->sender->finished()) {
        for (const std::size_t lane : {std::size_t{0}, std::size_t{1}}) {
          if (!request->gpu.waiting(lane).empty()) request->gpu.let(lane, 1);
        }
      }
      request->expect_all(epoch);
      for (std::int64_t t = 0; t < transports; ++t)
        EXPECT_TRUE(request->bytes_are_there(t, epoch)) << "epoch " << epoch;
    }
  }
}

}  // namespace
}  // namespace partita::test
