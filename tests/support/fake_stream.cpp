#include "support/fake_stream.hpp"
#include "support/word_writes.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "core/error.hpp"
#include "memory/collective_bodies.cuh"
#include "memory/epoch_bodies.cuh"
#include "memory/kernel_bodies.cuh"
#include "memory/message_bodies.cuh"
#include "memory/pack_bodies.cuh"
#include "memory/reduce_bodies.cuh"
#include "support/cpu_kernel.hpp"
#include "support/fake_gpu.hpp"
#include "support/sanitized.hpp"

namespace partita::test {
namespace {

constexpr std::size_t word_bytes = sizeof(std::uint32_t);
/// A request's words in GPU memory are fewer, in packets, too; the data of most tests are more.
constexpr std::size_t most_words_bytes = 640;

bool are_words(const void* to, const void* from, std::size_t size_bytes) {
  const auto bits = reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from) | size_bytes;
  return bits % word_bytes == 0 && size_bytes <= most_words_bytes;
}

void copy_words(std::uint32_t* to, const std::uint32_t* from, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto word = std::atomic_ref(const_cast<std::uint32_t&>(from[i])).load(std::memory_order_acquire);
    std::atomic_ref(to[i]).store(word, std::memory_order_release);
  }
}

/// Counts how often it was recorded, and how often the stream has come to the place.
class FakeEvent final : public memory::Event {
 public:
  struct Places {
    std::atomic<std::uint64_t> recorded{0};
    std::atomic<std::uint64_t> passed{0};
  };

  bool passed() override { return places_->passed == places_->recorded; }
  const std::shared_ptr<Places>& places() const { return places_; }

 private:
  std::shared_ptr<Places> places_ = std::make_shared<Places>();
};

void wait_while_held(const void* from) {
  while (FakeGpu::instance().holds(from)) std::this_thread::sleep_for(std::chrono::microseconds(100));
}

/// So many blocks that must run at once have room, and so many threads of each.
constexpr GridShape most_at_once{2, repetitions(3U, 2U)};

/// A block is one thread, and blocks come one after another, unless they must run at once.
void run(memory::Kernel kernel, memory::Grid grid, const std::vector<std::byte>& bytes) {
  const auto with = [&](auto arguments, auto body) {
    std::memcpy(&arguments, bytes.data(), sizeof arguments);
    body(arguments);
  };
  switch (kernel) {
    case memory::Kernel::store_words:
      return with(memory::StoreWords{}, [](const auto& arguments) { memory::store_words(arguments); });
    case memory::Kernel::await_word:
      return with(memory::AwaitWord{}, [](const auto& arguments) { memory::await_word(arguments); });
    case memory::Kernel::reduce_elements:
      return with(memory::ReduceElements{}, [&](const auto& arguments) {
        const unsigned threads = grid.blocks * grid.threads;
        for (unsigned thread = 0; thread < threads; ++thread) memory::reduce_elements(arguments, {thread, threads});
      });
    case memory::Kernel::pack_elements:
      return with(memory::PackElements{}, [&](const auto& arguments) {
        wait_while_held(arguments.unpacks != 0 ? arguments.packed : arguments.user);
        const unsigned threads = grid.blocks * grid.threads;
        for (unsigned thread = 0; thread < threads; ++thread) memory::pack_elements(arguments, {thread, threads});
      });
    case memory::Kernel::pack_together:
      return with(memory::PackTogether{}, [&](const auto& arguments) {
        for (unsigned block = 0; block < grid.blocks; ++block) {
          for (unsigned thread = 0; thread < grid.threads; ++thread)
            memory::pack_together(arguments, block, thread, grid.threads);
        }
      });
    case memory::Kernel::do_collective:
      return with(memory::DoCollective{}, [&](const auto& arguments) {
        const GridShape shape{std::min(grid.blocks, most_at_once.blocks), std::min(grid.threads, most_at_once.threads)};
        CpuKernel kernel(shape, [&](unsigned) { memory::do_collective(arguments); }, grid.grids_at_once > 0);
        kernel.end();
      });
    case memory::Kernel::reduce_pushed:
      return with(memory::ReducePushed{}, [&](const auto& arguments) {
        const GridShape shape{std::min(grid.blocks, most_at_once.blocks), std::min(grid.threads, most_at_once.threads)};
        CpuKernel kernel(shape, [&](unsigned) { memory::reduce_pushed(arguments); });
        kernel.end();
      });
    case memory::Kernel::run_message:
      return with(memory::RunMessage{}, [&](const auto& arguments) {
        for (unsigned block = 0; block < grid.blocks; ++block) memory::run_message(arguments, block);
      });
    case memory::Kernel::run_messages:
      return with(memory::RunMessages{}, [&](const auto& arguments) {
        for (unsigned block = 0; block < grid.blocks; ++block) memory::run_messages(arguments, block);
      });
    case memory::Kernel::run_epochs:
      return with(memory::RunEpochs{}, [&](const auto& arguments) {
        for (unsigned block = 0; block < grid.blocks; ++block) {
          CpuKernel kernel({1, std::min(grid.threads, most_at_once.threads)},
                           [&](unsigned) { memory::run_epoch(arguments.requests[block], arguments.step); });
          kernel.end();
        }
      });
  }
}

template <class Word>
void await_value(const Word* word, Word value, memory::Until until) {
  const std::atomic_ref<Word> watched(*const_cast<Word*>(word));
  const auto there = [&](Word seen) {
    return until == memory::Until::equal ? seen == value : static_cast<std::make_signed_t<Word>>(seen - value) >= 0;
  };
  while (!there(watched.load(std::memory_order_acquire))) std::this_thread::yield();
}

class FakeStream final : public memory::Stream {
 public:
  /// What of a worker's it ends with.
  enum class Work { all, own };

  FakeStream(int gpu, std::unique_ptr<FakeWorker> own) : gpu_(gpu), own_(std::move(own)), worker_(*own_) {}
  FakeStream(int gpu, FakeWorker& worker, Work work) : gpu_(gpu), worker_(worker), work_(work) {}

  int device() const override { return gpu_; }
  bool capturing() override { return worker_.capturing(); }

  void copy(void* to, const void* from, std::size_t size_bytes) override {
    FakeGpu::instance().ask_copy();
    FakeGpu::instance().count_copy(to, from);
    ask([=] {
      wait_while_held(from);
      copy_as_an_engine(to, from, size_bytes);
    });
  }
  void write(std::span<const memory::WordWrite> writes) override {
    FakeGpu::instance().count_words(writes.size());
    ask([kept = std::vector(writes.begin(), writes.end())] {
      for (const memory::WordWrite& write : kept) make(write);
    });
  }
  void write(std::uint64_t* word, std::uint64_t value) override {
    ask([=] { std::atomic_ref(*word).store(value, std::memory_order_release); });
  }
  void wait(const std::uint32_t* word, std::uint32_t value, memory::Until until) override {
    ask([=] { await_value(word, value, until); });
  }
  void wait(const std::uint64_t* word, std::uint64_t value, memory::Until until) override {
    ask([=] { await_value(word, value, until); });
  }
  void record(memory::Event& event) override {
    FakeGpu::instance().check_limit();
    const auto places = static_cast<FakeEvent&>(event).places();
    const std::uint64_t place = ++places->recorded;
    ask([=] { places->passed = place; });
  }
  void await(const memory::Event& event) override {
    const auto places = static_cast<const FakeEvent&>(event).places();
    ask([=, place = places->recorded.load()] {
      while (places->passed < place) std::this_thread::yield();
    });
  }
  void follow(memory::CopyQueue& other) override {
    FakeEvent end;
    static_cast<FakeStream&>(other).record(end);
    await(end);
  }
  bool idle() override {
    refuse_capture("asked whether it is idle");
    return worker_.has_come_to(last());
  }
  void drain() override {
    refuse_capture("drained");
    const FakeWorker::Place end = last();
    for (unsigned looks = 1; !worker_.has_come_to(end); ++looks) {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
      if (looks % looks_each_meanwhile == 0) FakeGpu::instance().meanwhile(gpu_);
    }
  }

 private:
  void launch(memory::Kernel kernel, memory::Grid grid, std::span<const std::byte> arguments) override {
    FakeGpu::instance().check(gpu_);
    FakeGpu::instance().count_launch();
    ask([=, kept = std::vector(arguments.begin(), arguments.end())] {
      run(kernel, grid, kept);
      FakeGpu::instance().count_end_of_launch();
    });
  }
  void refuse_capture(const char* action) {
    if (capturing()) throw Error(ErrorClass::other, "a stream that is capturing is {}", action);
  }

  static constexpr unsigned looks_each_meanwhile = 100;

  void ask(FakeWorker::Operation operation) { last_ = worker_.ask(std::move(operation)); }
  FakeWorker::Place last() { return work_ == Work::own ? last_.load() : worker_.asked(); }

  int gpu_;
  std::unique_ptr<FakeWorker> own_;
  FakeWorker& worker_;
  const Work work_ = Work::all;
  std::atomic<FakeWorker::Place> last_{0};  ///< of its own
};

}  // namespace

void copy_as_an_engine(void* to, const void* from, std::size_t size_bytes) {
  if (are_words(to, from, size_bytes)) {
    copy_words(static_cast<std::uint32_t*>(to), static_cast<const std::uint32_t*>(from), size_bytes / word_bytes);
  } else {
    std::memcpy(to, from, size_bytes);
  }
}

FakeWorker::FakeWorker() : thread_([this] { work(); }) {}

FakeWorker::~FakeWorker() {
  {
    const std::lock_guard lock(mutex_);
    asked_.emplace_back();
    changed_.notify_all();
  }
  thread_.join();
}

FakeWorker::Place FakeWorker::ask(Operation operation) {
  const std::lock_guard lock(mutex_);
  (capturing_ ? captured_ : asked_).push_back(std::move(operation));
  changed_.notify_all();
  return done_ + asked_.size();
}

FakeWorker::Place FakeWorker::asked() {
  const std::lock_guard lock(mutex_);
  return done_ + asked_.size();
}

bool FakeWorker::has_come_to(Place place) {
  const std::lock_guard lock(mutex_);
  return done_ >= place;
}

void FakeWorker::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return asked_.empty(); });
}

void FakeWorker::begin_capture() {
  const std::lock_guard lock(mutex_);
  capturing_ = true;
}

bool FakeWorker::capturing() {
  const std::lock_guard lock(mutex_);
  return capturing_;
}

std::vector<FakeWorker::Operation> FakeWorker::end_capture() {
  const std::lock_guard lock(mutex_);
  capturing_ = false;
  const std::deque<Operation> captured = std::exchange(captured_, {});
  return {captured.begin(), captured.end()};
}

void FakeWorker::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return !asked_.empty(); });
    const Operation operation = asked_.front();
    if (!operation) return;
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(20));
    operation();
    lock.lock();
    asked_.pop_front();
    ++done_;
    changed_.notify_all();
  }
}

std::unique_ptr<memory::Stream> make_fake_stream(int gpu) {
  return std::make_unique<FakeStream>(gpu, std::make_unique<FakeWorker>());
}

std::unique_ptr<memory::Stream> fake_stream_of(int gpu, FakeWorker& worker) {
  return std::make_unique<FakeStream>(gpu, worker, FakeStream::Work::all);
}

std::unique_ptr<memory::Stream> fake_stream_beside(int gpu, FakeWorker& worker) {
  return std::make_unique<FakeStream>(gpu, worker, FakeStream::Work::own);
}

std::unique_ptr<memory::Event> make_fake_event() {
  return std::make_unique<FakeEvent>();
}

}  // namespace partita::test
