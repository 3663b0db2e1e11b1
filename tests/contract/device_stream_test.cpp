// What every stream promises, Partita's own, with and without stream memory operations, and the program's; on the fake
// GPU and on CUDA.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "contract/gpu_job.hpp"
#include "contract/gpu_program.hpp"
#include "core/error.hpp"
#include "memory/blocks.hpp"
#include "support/job.hpp"

namespace partita::test {
namespace {

using memory::Until;

/// Long enough for work that does not wait to be done.
constexpr auto time_of_a_stream = std::chrono::milliseconds(20);

/// A word in host memory that the GPU reads and writes.
template <class Word>
class HostWord {
 public:
  HostWord(memory::HostMemory& host_memory, memory::DeviceMemory& device_memory)
      : block_(host_memory, sizeof(Word)),
        on_gpu_(reinterpret_cast<Word*>(device_memory.device_pointer(gpu(), block_.address()))) {}

  Word* on_gpu() const { return on_gpu_; }
  void store(Word value) { word().store(value, std::memory_order_release); }
  Word load() const { return word().load(std::memory_order_acquire); }
  void await(Word value) const {
    while (load() != value) std::this_thread::yield();
  }

 private:
  std::atomic_ref<Word> word() const { return std::atomic_ref<Word>(*reinterpret_cast<Word*>(block_.address())); }

  memory::HostBlock block_;
  Word* on_gpu_;
};
using Word = HostWord<std::uint32_t>;
using LongWord = HostWord<std::uint64_t>;

enum class StreamKind { own, without_memory_operations, of_program };

class Streams : public GpuJob {
 protected:
  std::unique_ptr<memory::Stream> make(StreamKind kind) {
    if (kind == StreamKind::own) return device_memory().make_stream(gpu());
    if (kind == StreamKind::without_memory_operations) return stream_without_memory_operations();
    return device_memory().stream_of_program(program_stream().native());
  }
  ProgramStream& program_stream() {
    if (program_stream_ == nullptr) program_stream_ = std::make_unique<ProgramStream>();
    return *program_stream_;
  }
  Word word() { return {host_memory(), device_memory()}; }
  LongWord long_word() { return {host_memory(), device_memory()}; }

 private:
  std::unique_ptr<ProgramStream> program_stream_;
};

class EveryStream : public Streams, public testing::WithParamInterface<StreamKind> {
 protected:
  std::unique_ptr<memory::Stream> make_one() { return make(GetParam()); }
};

TEST_P(EveryStream, names_its_gpu_and_captures_nothing) {
  const auto stream = make_one();
  EXPECT_EQ(stream->device(), gpu());
  EXPECT_FALSE(stream->capturing());
}

TEST_P(EveryStream, does_what_it_is_asked_for_in_order) {
  constexpr std::size_t size = 100'001;
  const auto stream = make_one();
  const ProgramMemory first(size);
  const ProgramMemory second(size);
  auto go = word();
  const auto done = word();
  for (std::uint32_t round = 1; round <= 20; ++round) {
    const auto bytes = pattern(size, round);
    write(first.data(), bytes);
    stream->wait(go.on_gpu(), round, Until::equal);
    stream->copy(second.data(), first.data(), size);
    stream->write(done.on_gpu(), round);
    std::this_thread::sleep_for(std::chrono::microseconds(500));
    EXPECT_EQ(done.load(), round - 1);
    EXPECT_FALSE(stream->idle());
    go.store(round);
    done.await(round);
    ASSERT_EQ(read(second.data(), size), bytes);
    stream->drain();
    EXPECT_TRUE(stream->idle());
  }
}

TEST_P(EveryStream, writes_many_words_in_order) {
  constexpr std::size_t count = 300;
  const auto stream = make_one();
  const ProgramMemory words(count * sizeof(Epoch));
  const auto done = word();
  std::vector<memory::WordWrite> writes;
  for (std::size_t i = 0; i < count; ++i) {
    writes.push_back({reinterpret_cast<Epoch*>(words.data()) + i, static_cast<Epoch>(i + 7)});
  }
  writes.push_back({done.on_gpu(), 1});
  stream->write(writes);
  done.await(1);
  std::vector<Epoch> read_back(count);
  device_memory().copy(read_back.data(), words.data(), count * sizeof(Epoch));
  for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(read_back[i], i + 7);
  stream->write(std::span<const memory::WordWrite>());
  stream->drain();
}

TEST_P(EveryStream, writes_words_of_4_and_of_8_bytes_in_one_call) {
  const auto stream = make_one();
  const ProgramMemory words(6 * sizeof(Epoch));
  const std::vector<Epoch> before(6, 0xaaaaaaaa);
  device_memory().copy(words.data(), before.data(), 6 * sizeof(Epoch));
  const auto done = word();
  auto* const first = reinterpret_cast<Epoch*>(words.data());
  stream->write(std::vector<memory::WordWrite>{
      {first, 1}, {reinterpret_cast<std::uint64_t*>(first + 2), 0x300000002}, {first + 5, 5}, {done.on_gpu(), 1}});
  done.await(1);
  std::vector<Epoch> read_back(6);
  device_memory().copy(read_back.data(), words.data(), 6 * sizeof(Epoch));
  EXPECT_EQ(read_back, (std::vector<Epoch>{1, 0xaaaaaaaa, 2, 3, 0xaaaaaaaa, 5}));
  stream->drain();
}

TEST_P(EveryStream, waits_for_a_counter_across_its_wrap) {
  const auto stream = make_one();
  auto counter = word();
  const auto done = word();
  counter.store(0xffff'fff0);
  stream->wait(counter.on_gpu(), 0xffff'fff0, Until::reached);
  stream->write(done.on_gpu(), 1);
  done.await(1);
  stream->wait(counter.on_gpu(), 5, Until::reached);
  stream->write(done.on_gpu(), 2);
  std::this_thread::sleep_for(time_of_a_stream);
  EXPECT_EQ(done.load(), 1u);
  counter.store(9);
  done.await(2);
  stream->drain();
}

TEST_P(EveryStream, waits_for_and_writes_long_words) {
  const auto stream = make_one();
  auto counter = long_word();
  auto done = long_word();
  constexpr std::uint64_t high = std::uint64_t{1} << 40;
  counter.store(3);
  stream->wait(counter.on_gpu(), high | 3, Until::equal);
  stream->write(done.on_gpu(), high | 4);
  std::this_thread::sleep_for(time_of_a_stream);
  EXPECT_EQ(done.load(), 0u);
  counter.store(high | 3);
  done.await(high | 4);
  stream->wait(counter.on_gpu(), 9, Until::reached);
  stream->write(done.on_gpu(), std::uint64_t{5});
  done.await(5);
  stream->drain();
}

TEST_P(EveryStream, one_stream_awaits_a_place_in_another) {
  const auto first = make_one();
  const auto second = device_memory().make_stream(gpu());
  const auto event = device_memory().make_event(gpu());
  auto go = word();
  const auto done = word();
  EXPECT_TRUE(event->passed());
  for (std::uint32_t round = 1; round <= 3; ++round) {
    first->wait(go.on_gpu(), round, Until::equal);
    first->record(*event);
    second->await(*event);
    second->write(done.on_gpu(), round);
    std::this_thread::sleep_for(time_of_a_stream);
    EXPECT_EQ(done.load(), round - 1);
    EXPECT_FALSE(event->passed());
    go.store(round);
    done.await(round);
    EXPECT_TRUE(event->passed());
  }
  first->drain();
  second->drain();
}

TEST_P(EveryStream, follows_another_as_far_as_that_was_asked) {
  const auto first = make_one();
  const auto second = make_one();
  auto go = word();
  const auto done = word();
  for (std::uint32_t round = 1; round <= 6; round += 2) {
    first->wait(go.on_gpu(), round, Until::equal);
    second->follow(*first);
    second->write(done.on_gpu(), round);
    first->wait(go.on_gpu(), round + 1, Until::equal);  // it does not wait for this
    std::this_thread::sleep_for(time_of_a_stream);
    EXPECT_EQ(done.load(), round - 1);
    go.store(round);
    done.await(round);
    second->follow(*first);
    second->write(done.on_gpu(), round + 1);
    std::this_thread::sleep_for(time_of_a_stream);
    EXPECT_EQ(done.load(), round);
    go.store(round + 1);
    done.await(round + 1);
  }
  first->drain();
  second->drain();
}

TEST_P(EveryStream, kernels_store_what_they_find_in_memory) {
  const auto stream = make_one();
  auto epoch = word();
  auto wide = long_word();
  const auto narrow_copy = word();
  const auto wide_copy = long_word();
  const auto last = word();
  epoch.store(41);
  wide.store(std::uint64_t{1} << 50);
  memory::StoreWords stores;
  stores.add({narrow_copy.on_gpu(), epoch.on_gpu(), 0, 4});
  stores.add({wide_copy.on_gpu(), wide.on_gpu(), 0, 8});
  stores.add({last.on_gpu(), nullptr, 7, 4});
  stream->launch({}, stores);
  last.await(7);
  EXPECT_EQ(narrow_copy.load(), 41u);
  EXPECT_EQ(wide_copy.load(), std::uint64_t{1} << 50);
  stream->drain();
}

TEST_P(EveryStream, a_kernel_awaits_the_value_that_it_finds_in_memory) {
  const auto stream = make_one();
  auto wanted = word();
  auto seen = word();
  const auto done = word();
  wanted.store(0xffff'ffff);
  memory::AwaitWord wait{seen.on_gpu(), wanted.on_gpu(), 0, 4, Until::reached, 20'000'000'000, nullptr};
  seen.store(0xffff'fffe);
  stream->launch({}, wait);
  stream->write(done.on_gpu(), 1);
  std::this_thread::sleep_for(time_of_a_stream);
  EXPECT_EQ(done.load(), 0u);
  seen.store(2);
  done.await(1);
  stream->drain();
}

TEST_P(EveryStream, the_wait_of_a_kernel_ends_at_its_limit) {
  const auto stream = make_one();
  const auto never = word();
  const auto late = word();
  stream->launch({}, memory::AwaitWord{never.on_gpu(), nullptr, 1, 4, Until::equal, 5'000'000, late.on_gpu()});
  stream->drain();
  EXPECT_EQ(late.load(), 1u);
}

/// Ours were loaded before any kernel could run.
TEST_P(EveryStream, a_first_launch_does_not_wait_for_a_kernel_that_spins) {
  const auto spinning = device_memory().make_stream(gpu());
  const auto stream = make_one();
  auto go = word();
  const auto done = word();
  spinning->launch({}, memory::AwaitWord{go.on_gpu(), nullptr, 1, 4, Until::equal, 20'000'000'000, nullptr});
  memory::StoreWords store;
  store.add({done.on_gpu(), nullptr, 1, 4});
  stream->launch({}, store);
  done.await(1);
  EXPECT_FALSE(spinning->idle());
  go.store(1);
  spinning->drain();
  stream->drain();
}

INSTANTIATE_TEST_SUITE_P(Contract, EveryStream,
                         testing::Values(StreamKind::own, StreamKind::without_memory_operations,
                                         StreamKind::of_program),
                         [](const auto& info) -> std::string {
                           if (info.param == StreamKind::own) return "own";
                           return info.param == StreamKind::of_program ? "of_program" : "without_memory_operations";
                         });

using OwnStream = Streams;

/// What the stream stands at may be this very thread's to end.
TEST_F(OwnStream, is_drained_while_the_thread_is_called_now_and_then) {
  const auto stream = make(StreamKind::own);
  auto go = word();
  int calls = 0;
  const memory::Meanwhile meanwhile(device_memory(), [&](int) { go.store(++calls < 3 ? 0 : 1); });
  stream->wait(go.on_gpu(), 1, Until::equal);
  stream->drain();
  EXPECT_GE(calls, 3);
}

using StreamOfProgram = Streams;

TEST_F(StreamOfProgram, is_ordered_with_what_the_program_asks_for) {
  auto go = word();
  const auto done = word();
  const auto stream = make(StreamKind::of_program);
  stream->wait(go.on_gpu(), 1, Until::equal);
  stream->write(done.on_gpu(), 1);
  go.store(1);
  program_stream().drain();
  EXPECT_EQ(done.load(), 1u);
}

TEST_F(StreamOfProgram, knows_that_it_is_captured_and_refuses_to_be_asked_for_its_end) {
  const auto stream = make(StreamKind::of_program);
  const auto done = word();
  program_stream().capture([&] {
    EXPECT_TRUE(stream->capturing());
    EXPECT_THROW(stream->idle(), Error);
    EXPECT_THROW(stream->drain(), Error);
    stream->write(done.on_gpu(), 3);
  });
  EXPECT_FALSE(stream->capturing());
  EXPECT_EQ(done.load(), 0u);
  program_stream().launch_graph();
  stream->drain();
  EXPECT_EQ(done.load(), 3u);
}

TEST_F(StreamOfProgram, a_graph_of_kernels_goes_through_another_epoch_each_time) {
  constexpr std::size_t size = 5000;
  const auto stream = make(StreamKind::of_program);
  const ProgramMemory from(size);
  const ProgramMemory to(size);
  auto epoch = word();
  auto credit = word();
  const auto flag = word();
  program_stream().capture([&] {
    stream->launch({},
                   memory::AwaitWord{credit.on_gpu(), epoch.on_gpu(), 0, 4, Until::reached, 20'000'000'000, nullptr});
    stream->copy(to.data(), from.data(), size);
    memory::StoreWords store;
    store.add({flag.on_gpu(), epoch.on_gpu(), 0, 4});
    stream->launch({}, store);
  });
  for (std::uint32_t round = 0xffff'fffe; round != 3; ++round) {
    const auto bytes = pattern(size, round);
    write(from.data(), bytes);
    epoch.store(round);
    program_stream().launch_graph();
    credit.store(round);
    stream->drain();
    EXPECT_EQ(flag.load(), round);
    ASSERT_EQ(read(to.data(), size), bytes);
  }
}

}  // namespace
}  // namespace partita::test
