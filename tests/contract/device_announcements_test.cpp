// How the host's puts between GPUs announce themselves (src/link/direct/device_sender.cpp): by one word where no gap
// lies before what leaves, else by its flags, behind its bytes. On copy queues that a case lets go on step by step.
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
#include "partita/device/impl/words.hpp"
#include "support/job.hpp"
#include "support/pattern.hpp"
#include "support/random.hpp"
#include "support/runs.hpp"
#include "support/word_writes.hpp"

namespace partita::test {
namespace {

using link::Driver;
using link::Range;

/// The fake GPU, with copy queues of its own: lane 0 is the first one that was made.
class SteppedGpu final : public memory::DeviceMemory {
 public:
  explicit SteppedGpu(memory::DeviceMemory& gpu) : gpu_(gpu) {}

  /// What lane `lane` has not done yet: c, a copy; w, a word; f, to wait for the other lane.
  std::string waiting(std::size_t lane) const {
    std::string kinds;
    if (lane < lanes_.size()) {
      for (const Asked& asked : lanes_[lane]->asked) {
        kinds += asked.followed != nullptr ? 'f' : asked.word ? 'w' : 'c';
      }
    }
    return kinds;
  }
  /// Takes `count` steps of lane `lane`, fewer where it waits for the other one; returns how many.
  std::size_t let(std::size_t lane, std::size_t count) {
    for (std::size_t taken = 0; taken < count; ++taken) {
      if (!make_oldest(*lanes_.at(lane))) return taken;
    }
    return count;
  }
  /// The first time that a lane is to which is made from now on.
  void fail_to_follow() { fails_to_follow_ = true; }
  void let_all(std::size_t lane) {
    if (lane < lanes_.size()) let(lane, lanes_[lane]->asked.size());
  }
  void let_all() {
    for (std::size_t taken = 1; taken > 0;) {
      taken = 0;
      for (std::size_t lane = 0; lane < lanes_.size(); ++lane) taken += let(lane, lanes_[lane]->asked.size());
    }
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
    lanes_.back()->fails_to_follow = fails_to_follow_;
    return std::make_unique<Queue>(lanes_.back());
  }
  std::unique_ptr<memory::Stream> stream_of_program(void* native) override { return gpu_.stream_of_program(native); }
  std::unique_ptr<memory::Event> make_event(int device) override { return gpu_.make_event(device); }
  void copy(void* to, const void* from, std::size_t size) override { gpu_.copy(to, from, size); }
  void check(int device) override { gpu_.check(device); }
  std::uint64_t trim(std::size_t allowed, memory::Closing closing) override { return gpu_.trim(allowed, closing); }
  void make_current(int device) override { gpu_.make_current(device); }

 private:
  struct Lane;
  /// A copy, or a word, or a wait for so many steps of another lane.
  struct Asked {
    std::byte* to = nullptr;
    const std::byte* from = nullptr;
    std::size_t size_bytes = 0;
    std::optional<memory::WordWrite> word = std::nullopt;
    const Lane* followed = nullptr;
    std::size_t steps = 0;
  };
  struct Lane {
    std::deque<Asked> asked;
    std::size_t done = 0;
    bool fails_to_follow = false;
  };

  class Queue final : public memory::CopyQueue {
   public:
    explicit Queue(std::shared_ptr<Lane> lane) : lane_(std::move(lane)) {}
    void copy(void* to, const void* from, std::size_t size) override {
      lane_->asked.push_back({static_cast<std::byte*>(to), static_cast<const std::byte*>(from), size});
    }
    void write(std::span<const memory::WordWrite> writes) override {
      for (const memory::WordWrite& write : writes) lane_->asked.push_back({.word = write});
    }
    void follow(CopyQueue& other) override {
      if (std::exchange(lane_->fails_to_follow, false)) throw Error(ErrorClass::other, "the fake GPU follows nobody");
      const Lane& followed = *static_cast<Queue&>(other).lane_;
      lane_->asked.push_back({.followed = &followed, .steps = followed.done + followed.asked.size()});
    }
    bool idle() override { return lane_->asked.empty(); }
    void drain() override {
      while (!lane_->asked.empty()) {
        const Asked& oldest = lane_->asked.front();
        if (oldest.followed != nullptr) {
          while (oldest.followed->done < oldest.steps) make_oldest(const_cast<Lane&>(*oldest.followed));
        }
        make_oldest(*lane_);
      }
    }

   private:
    std::shared_ptr<Lane> lane_;
  };

  /// The bytes of larger copies are not there.
  static constexpr std::size_t largest_bytes = 1 << 20;

  /// False where it waits for another lane.
  static bool make_oldest(Lane& lane) {
    const Asked asked = lane.asked.front();
    if (asked.followed != nullptr && asked.followed->done < asked.steps) return false;
    lane.asked.pop_front();
    ++lane.done;
    if (asked.word) {
      make(*asked.word);
    } else if (asked.size_bytes > 0 && asked.size_bytes <= largest_bytes) {
      std::memcpy(asked.to, asked.from, asked.size_bytes);
    }
    return true;
  }

  memory::DeviceMemory& gpu_;
  std::vector<std::shared_ptr<Lane>> lanes_;
  bool fails_to_follow_ = false;
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
  /// The flags that a host reads, and those that kernels do; the front lies behind them.
  Epoch* host_flags() const { return host_flags_; }
  Epoch* device_flags() const { return device_flags_; }

  /// What the host, or kernels of a device-driven receive, see. Kernels are told first.
  bool arrived(std::int64_t t, Epoch epoch) const {
    const bool for_kernels = device_flags_[t] == epoch || t < arrived_in_front(device_flags_, epoch);
    if (host_flags_ == nullptr) return for_kernels;
    const bool for_host = receiver->arrived(static_cast<std::int32_t>(t), epoch);
    EXPECT_EQ(receiver->first_missing({t, t + 1}, epoch) == t + 1, for_host);
    EXPECT_TRUE(for_kernels || !for_host) << "transport partition " << t << ", epoch " << epoch;
    return for_host;
  }
  /// By the front behind `flags`.
  std::int64_t arrived_in_front(Epoch* flags, Epoch epoch) const {
    if (transports() == 1) return 0;
    return device::arrived_in_front(*front_behind(flags), epoch);
  }
  std::uint64_t* front_behind(Epoch* flags) const {
    return reinterpret_cast<std::uint64_t*>(flags + device::place_of_front(transports()));
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

/// What a lane is asked for, behind a copy of bytes: a word, or one a flag, in each memory, and the lane's own,
/// perhaps behind the other lane; or copies of flags with a fence in front of each, for which numbers of the epoch may
/// have to be brought.
constexpr const char* const one_word = "cwww";
constexpr const char* const one_word_in_the_gpu = "cww";
constexpr const char* const one_word_behind_the_other_lane = "cfwww";
constexpr const char* const copied_flags = "cwcwcw";
constexpr const char* const brought_and_copied_flags = "ccwcwcw";
constexpr const char* const brought_ahead = "cw";

TEST_F(DeviceAnnouncements, of_all_that_leaves_at_once_are_one_word) {
  for (const std::int32_t transports : {1, 2, 4, 5, 64, 3000}) {
    for (const Driver receiving : {Driver::host, Driver::device}) {
      const auto request = make(transports, receiving);
      for (Epoch epoch = 1; epoch <= 3; ++epoch) {
        request->open(epoch);
        request->sender->put({0, transports}, epoch);
        EXPECT_EQ(request->gpu.waiting(0), receiving == Driver::host ? one_word : one_word_in_the_gpu) << transports;
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

TEST_F(DeviceAnnouncements, of_the_first_ones_are_one_word) {
  const auto request = make(64);
  for (Epoch epoch = 1; epoch <= 3; ++epoch) {
    request->open(epoch);
    std::int64_t begin = 0;
    for (const std::int64_t end : {2, 12, 15, 64}) {
      request->sender->put({begin, end}, epoch);
      EXPECT_EQ(request->gpu.waiting(0) + request->gpu.waiting(1), one_word) << end;
      request->expect_arrived({0, begin}, epoch);
      request->gpu.let_all();
      request->expect_arrived({0, end}, epoch);
      begin = end;
    }
    request->expect_all(epoch);
  }
}

/// Lanes do not wait for one another else, but this word tells of what the other one copies, too.
TEST_F(DeviceAnnouncements, of_the_next_ones_are_one_word_behind_what_another_lane_copies) {
  const auto request = make(64);
  request->open(1);
  request->sender->put({0, 10}, 1);
  request->sender->put({10, 40}, 1);
  EXPECT_EQ(request->gpu.waiting(0), one_word);
  EXPECT_EQ(request->gpu.waiting(1), one_word_behind_the_other_lane);
  request->gpu.let_all(1);
  EXPECT_EQ(request->gpu.waiting(1), "fwww");
  request->expect_arrived({}, 1);
  request->sender->put({40, 64}, 1);
  EXPECT_EQ(request->gpu.waiting(0), std::string(one_word) + one_word_behind_the_other_lane);
  request->gpu.let_all(0);
  EXPECT_EQ(request->gpu.waiting(0), "fwww");
  request->expect_arrived({0, 10}, 1);
  request->gpu.let_all(1);
  request->expect_arrived({0, 40}, 1);
  EXPECT_FALSE(request->sender->finished());
  request->gpu.let_all(0);
  request->expect_all(1);
}

/// A few would wait for the other lane's bytes, which may be many.
TEST_F(DeviceAnnouncements, of_a_few_do_not_wait_for_what_another_lane_copies) {
  const auto request = make(64);
  request->open(1);
  request->sender->put({0, 10}, 1);
  request->sender->put({10, 13}, 1);
  EXPECT_EQ(request->gpu.waiting(1), "cwwwwwww");
  request->gpu.let_all(1);
  request->expect_arrived({10, 13}, 1);
  request->sender->put({13, 64}, 1);
  EXPECT_EQ(request->gpu.waiting(0), std::string(one_word) + one_word);
  request->gpu.let_all();
  request->expect_all(1);
}

TEST_F(DeviceAnnouncements, of_many_behind_a_gap_are_their_flags_and_of_what_fills_it_one_word) {
  const auto request = make(64);
  request->open(1);
  request->sender->put({10, 40}, 1);
  EXPECT_EQ(request->gpu.waiting(0), brought_and_copied_flags);
  request->sender->put({0, 3}, 1);
  EXPECT_EQ(request->gpu.waiting(1), one_word) << "nothing lies before them";
  request->gpu.let_all(1);
  request->expect_arrived({0, 3}, 1);
  request->sender->put({3, 10}, 1);
  EXPECT_EQ(request->gpu.waiting(0), std::string(brought_and_copied_flags) + one_word);
  request->gpu.let_all(0);
  request->expect_arrived({0, 40}, 1);
  request->sender->put({40, 64}, 1);
  EXPECT_EQ(request->gpu.waiting(1), one_word);
  EXPECT_EQ(request->gpu.waiting(0), brought_ahead);
  request->gpu.let_all();
  request->expect_all(1);
}

/// What was not announced is never counted, nor what lies behind it.
TEST_F(DeviceAnnouncements, of_what_lies_behind_a_failure_do_not_tell_of_what_has_failed) {
  const auto request = make(64);
  request->open(1);
  request->sender->put({0, 10}, 1);
  request->gpu.fail_to_follow();
  EXPECT_THROW(request->sender->put({10, 40}, 1), Error);
  request->sender->put({40, 64}, 1);
  request->gpu.let_all(0);
  for (std::int64_t t = 0; t < 64; ++t) EXPECT_EQ(request->arrived(t, 1), t < 10 || t >= 40) << t;
  request->gpu.let_all();
}

/// All 64 behind a gap, then what fills it: on lane 0, flags and one flag; on lane 1, flags.
void put_behind_a_gap(Request& request, Epoch epoch) {
  request.open(epoch);
  request.sender->put({1, 31}, epoch);
  request.sender->put({31, 64}, epoch);
  request.sender->put({0, 1}, epoch);
}
constexpr const char* const one_flag = "cwww";

TEST_F(DeviceAnnouncements, of_many_find_their_numbers_in_the_gpu_from_the_second_epoch_on) {
  const auto request = make(64);
  for (Epoch epoch = 1; epoch <= 5; ++epoch) {
    const std::string flags = epoch == 1 ? brought_and_copied_flags : copied_flags;
    put_behind_a_gap(*request, epoch);
    EXPECT_EQ(request->gpu.waiting(0), flags + one_flag + brought_ahead) << "epoch " << epoch;
    EXPECT_EQ(request->gpu.waiting(1), flags + brought_ahead) << "epoch " << epoch;
    request->gpu.let_all();
    request->expect_all(epoch);
  }
  // An epoch that needs none leaves those of its own there, which are nobody else's.
  request->open(6);
  request->sender->put({0, 64}, 6);
  request->gpu.let_all();
  request->expect_all(6);
  put_behind_a_gap(*request, 7);
  EXPECT_EQ(request->gpu.waiting(1), std::string(brought_and_copied_flags) + brought_ahead);
  request->gpu.let_all();
  request->expect_all(7);
}

/// The host may not write numbers of a later epoch where a lane has still to copy those of this one.
TEST_F(DeviceAnnouncements, do_not_take_numbers_away_that_are_still_to_be_brought) {
  const auto request = make(64);
  put_behind_a_gap(*request, 1);
  request->gpu.let(0, std::strlen(brought_and_copied_flags) + std::strlen(one_flag));
  request->gpu.let(1, std::strlen(brought_and_copied_flags));
  for (const std::size_t lane : {0, 1}) EXPECT_EQ(request->gpu.waiting(lane), brought_ahead);
  request->expect_all(1);
  put_behind_a_gap(*request, 2);
  EXPECT_EQ(request->gpu.waiting(0), std::string(brought_ahead) + copied_flags + one_flag);
  EXPECT_EQ(request->gpu.waiting(1), std::string(brought_ahead) + copied_flags);
  request->gpu.let_all();
  request->expect_all(2);
  put_behind_a_gap(*request, 3);
  EXPECT_EQ(request->gpu.waiting(0), std::string(brought_and_copied_flags) + one_flag + brought_ahead);
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

TEST_F(DeviceAnnouncements, of_what_takes_several_copies_come_behind_each) {
  constexpr std::int64_t transport_bytes = 8 * 1024 * 1024;  // 8 of them are a copy
  Request request(world(), host_memory(), device_memory(), 24, Driver::host, no_epoch, transport_bytes);
  request.open(1);
  request.sender->put({0, 24}, 1);
  EXPECT_EQ(request.gpu.waiting(0), std::string(one_word) + one_word_behind_the_other_lane);
  EXPECT_EQ(request.gpu.waiting(1), one_word_behind_the_other_lane);
  request.gpu.let_all(0);
  EXPECT_EQ(request.gpu.waiting(0), "fwww");
  request.expect_arrived({0, 8}, 1);
  request.gpu.let_all(1);
  request.expect_arrived({0, 16}, 1);
  request.gpu.let_all(0);
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
      flags[0] = again;
      flags[1] = next(again);
      *request->front_behind(flags) = device::front_of(8, again);
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
