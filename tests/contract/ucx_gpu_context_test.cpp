// Who drives link ucx has a GPU current, once memory of a GPU travels. On a GPU that only counts its calls, so that no
// machine needs one.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/progress.hpp"
#include "link/ucx/process.hpp"

namespace partita::test {
namespace {

using link::ucx::Worker;

/// The one that is current for the calling thread.
thread_local int current_gpu = -1;

/// A driver that keeps what is current and can do nothing else.
class CountingGpu final : public memory::DeviceMemory {
 public:
  void make_current(int device) override {
    if (lost) throw Error(ErrorClass::other, "the GPU is lost");
    ++calls;
    current_gpu = device;
  }
  void without_gpu(const std::function<void()>& body) override {
    const int before = std::exchange(current_gpu, -1);
    body();
    at_end();
    EXPECT_EQ(current_gpu, -1) << "something made a GPU current meanwhile";
    current_gpu = before;
  }

  memory::Place place_of(const void*, std::size_t) override { return {}; }
  std::variant<memory::DeviceExport, memory::NotMappable> export_to(int, const void*, std::size_t) override {
    return memory::NotMappable{"it only counts"};
  }
  std::string why_not_exported(const void*, std::size_t) override { return "it only counts"; }
  std::variant<std::shared_ptr<std::byte>, memory::NotMappable> import(int, const memory::DeviceExport&, int,
                                                                       memory::Closing) override {
    return memory::NotMappable{"it only counts"};
  }
  std::shared_ptr<std::byte> find_mapping(int, const memory::DeviceExport&, int) override { return nullptr; }
  void decline(int, const memory::DeviceExport&) override {}
  std::uint64_t memory_bytes(int) override { return 0; }
  std::byte* allocate_block(int, std::size_t) override { return nullptr; }
  void free_block(int, std::byte*, std::size_t) override {}
  std::byte* device_pointer(int, std::byte* host) override { return host; }
  std::unique_ptr<memory::Stream> make_stream(int) override { return nullptr; }
  std::unique_ptr<memory::Stream> stream_of_program(void*) override { return nullptr; }
  std::unique_ptr<memory::Event> make_event(int) override { return nullptr; }
  void copy(void*, const void*, std::size_t) override {}
  void check(int) override {}
  std::uint64_t trim(std::size_t, memory::Closing) override { return 0; }

  std::atomic<int> calls{0};
  std::atomic<bool> lost{false};
  std::function<void()> at_end = [] {};  ///< of without_gpu, no GPU being current yet
};

/// A connection of this process to itself, over which words travel.
class UcxGpuContext : public testing::Test {
 protected:
  static constexpr int gpu_in_use = 3;

  void SetUp() override {
    address_ = process_.worker.context().address();
    peer_ = &process_.worker.connect(0, address_);
    words_ = process_.words.words(1);
    key_ = std::make_unique<link::ucx::Key>(process_.worker, *peer_, words_->packed_key());
    transfer_.peer = peer_;
    transfer_.tally = &tally_;
    transfer_.flag_values = {&epoch_, 1};
    transfer_.flags = {words_->address(), key_->handle()};
  }
  void TearDown() override {
    gpu_.lost = false;
    if (peer_ != nullptr) expect_to_end();
  }

  void submit() {
    ++epoch_;
    tally_.outstanding.fetch_add(1);
    process_.worker.submit(transfer_);
  }
  bool under_way() const { return tally_.outstanding.load() != 0; }
  void expect_to_end() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while ((under_way() || words_->load(0) != epoch_) && std::chrono::steady_clock::now() < deadline) {
      process_.worker.progress();
    }
    EXPECT_FALSE(under_way());
    EXPECT_EQ(words_->load(0), epoch_);
  }
  /// Which GPU is current after `call` in a thread that has used none.
  static int current_after(const std::function<void()>& call) {
    int current = -1;
    std::thread([&] {
      call();
      current = current_gpu;
    }).join();
    return current;
  }

  CountingGpu gpu_;
  Progress progress_{1};
  link::ucx::Process process_{progress_, gpu_};
  wire::Bytes address_;
  link::ucx::Peer* peer_ = nullptr;
  std::unique_ptr<link::ucx::Words> words_;
  std::unique_ptr<link::ucx::Key> key_;
  link::ucx::Tally tally_;
  link::ucx::Transfer transfer_;
  Epoch epoch_ = 0;
};

TEST_F(UcxGpuContext, without_gpu_buffers_no_gpu_is_touched) {
  submit();
  expect_to_end();
  const Worker::Hold hold(process_.worker);
  EXPECT_EQ(gpu_.calls, 0);
}

TEST_F(UcxGpuContext, whoever_takes_steps_has_the_gpu_current) {
  process_.worker.use_gpu(gpu_in_use);
  EXPECT_EQ(current_after([&] { submit(); }), gpu_in_use);
  expect_to_end();
  EXPECT_EQ(current_after([&] { process_.worker.progress(); }), gpu_in_use);
}

TEST_F(UcxGpuContext, a_holder_that_is_left_work_has_the_gpu_current) {
  process_.worker.use_gpu(gpu_in_use);
  const auto hold_and_take_work = [&] {
    const Worker::Hold hold(process_.worker);
    std::thread([&] { submit(); }).join();
    EXPECT_TRUE(under_way());
  };
  EXPECT_EQ(current_after(hold_and_take_work), gpu_in_use);
}

TEST_F(UcxGpuContext, nobody_takes_steps_while_host_memory_is_registered_out_of_the_gpu) {
  process_.worker.use_gpu(gpu_in_use);
  std::vector<std::byte> buffer(100'000);
  bool waited = false;
  gpu_.at_end = [&] {
    std::thread([&] { submit(); }).join();
    waited = under_way();
  };
  const auto region = process_.regions.region(buffer, memory::Kind::host);
  gpu_.at_end = [] {};
  EXPECT_TRUE(waited);
  EXPECT_EQ(current_gpu, gpu_in_use);
  expect_to_end();
}

TEST_F(UcxGpuContext, what_needs_no_gpu_travels_on_when_the_gpu_is_lost) {
  process_.worker.use_gpu(gpu_in_use);
  gpu_.lost = true;
  submit();
  expect_to_end();
}

}  // namespace
}  // namespace partita::test
