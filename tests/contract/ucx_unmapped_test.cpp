// A buffer that the program unmaps under an inactive request and maps again at the same address is registered anew, and
// the sender puts with the new key. On transports that write by address, as those of a machine without RDMA do, the old
// key would do as well: so the calls of UCX are watched.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <ucp/api/ucp.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>

#include "contract/job_links.hpp"
#include "link/ucx/unmapped.hpp"
#include "support/job.hpp"

namespace {

constexpr std::size_t page_bytes = 4096;

/// What this process asked of UCX. A key is known by how often buffers had been mapped anew when it was unpacked.
struct Calls {
  std::mutex mutex;
  int mapped_anew = 0;
  std::map<ucp_rkey_h, int> keys;
  int unpacked = 0;
  int oldest_key_put_with = 0;  ///< of the puts of a page and more since the last reset
  int puts = 0;

  void reset() {
    const std::lock_guard lock(mutex);
    unpacked = puts = 0;
    oldest_key_put_with = mapped_anew;
  }
} calls;

template <class Function>
Function of_ucx(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" ucs_status_t ucp_ep_rkey_unpack(ucp_ep_h endpoint, const void* packed, ucp_rkey_h* key) {
  static const auto unpack = of_ucx<decltype(&ucp_ep_rkey_unpack)>("ucp_ep_rkey_unpack");
  const ucs_status_t status = unpack(endpoint, packed, key);
  const std::lock_guard lock(calls.mutex);
  calls.keys[*key] = calls.mapped_anew;
  ++calls.unpacked;
  return status;
}

extern "C" ucs_status_ptr_t ucp_put_nbx(ucp_ep_h endpoint, const void* buffer, std::size_t count, std::uint64_t address,
                                        ucp_rkey_h key, const ucp_request_param_t* param) {
  static const auto put = of_ucx<decltype(&ucp_put_nbx)>("ucp_put_nbx");
  if (count >= page_bytes) {
    const std::lock_guard lock(calls.mutex);
    calls.oldest_key_put_with = std::min(calls.oldest_key_put_with, calls.keys[key]);
    ++calls.puts;
  }
  return put(endpoint, buffer, count, address, key, param);
}

namespace partita::test {
namespace {

using link::ucx::UnmapWatch;
using link::ucx::Watched;

/// Anonymous pages that go with this.
class Pages {
 public:
  explicit Pages(std::size_t count) : size_bytes_(count * page_bytes), data_(map(nullptr, size_bytes_, 0)) {}
  ~Pages() { ::munmap(data_, size_bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  std::span<std::byte> some(std::size_t first, std::size_t count) const {
    return {data_ + first * page_bytes, count * page_bytes};
  }

  static std::byte* map(void* where, std::size_t size_bytes, int flags) {
    void* const mapped = ::mmap(where, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    return static_cast<std::byte*>(mapped);
  }

 private:
  std::size_t size_bytes_;
  std::byte* data_;
};

/// Other memory under the address of all whole pages of `memory`.
void map_anew(std::span<std::byte> memory) {
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.data());
  const std::size_t skipped = (page_bytes - begin % page_bytes) % page_bytes;
  const std::size_t size_bytes = (memory.size() - skipped) / page_bytes * page_bytes;
  Pages::map(memory.data() + skipped, size_bytes, MAP_FIXED);
  const std::lock_guard lock(calls.mutex);
  ++calls.mapped_anew;
}

/// Whether UCX has its hooks, which are switched off for sanitizers.
bool unmapping_is_noticed() {
  UnmapWatch watch;
  const Pages pages(1);
  const Watched watched(watch, pages.some(0, 1));
  Pages::map(pages.some(0, 1).data(), page_bytes, MAP_FIXED);
  return watched.unmapped();
}

class UcxUnmapped : public testing::Test {
 protected:
  void SetUp() override {
    if (!unmapping_is_noticed()) GTEST_SKIP() << "UCX's hooks into memory are switched off";
  }
  void TearDown() override { harness_barrier(); }
};

TEST_F(UcxUnmapped, every_way_to_give_pages_back_is_noticed) {
  UnmapWatch watch;
  const Pages pages(4);
  const auto memory = pages.some(1, 2);
  const auto first = pages.some(1, 1);
  {
    const Watched watched(watch, memory);
    EXPECT_FALSE(watched.unmapped());
    ::munmap(first.data(), first.size());
    EXPECT_TRUE(watched.unmapped());
    Pages::map(first.data(), first.size(), MAP_FIXED);
  }
  {
    const Watched watched(watch, memory);
    EXPECT_FALSE(watched.unmapped());
    ::madvise(first.data(), first.size(), MADV_DONTNEED);
    EXPECT_TRUE(watched.unmapped());
  }
  {
    const Watched watched(watch, memory);
    const Pages elsewhere(1);
    ::mremap(first.data(), first.size(), first.size(), MREMAP_MAYMOVE | MREMAP_FIXED, elsewhere.some(0, 1).data());
    EXPECT_TRUE(watched.unmapped());
    Pages::map(first.data(), first.size(), MAP_FIXED);
  }
}

TEST_F(UcxUnmapped, a_block_given_to_free_is_noticed) {
  constexpr std::size_t size_bytes = 64u << 20;  // by far too large to be kept
  UnmapWatch watch;
  auto* const block = static_cast<std::byte*>(std::malloc(size_bytes));
  const Watched watched(watch, {block, size_bytes});
  std::free(block);
  EXPECT_TRUE(watched.unmapped());
}

TEST_F(UcxUnmapped, what_happens_beside_it_does_not_count) {
  UnmapWatch watch;
  const Pages pages(5);
  const Watched watched(watch, pages.some(2, 1));
  const Watched neighbour(watch, pages.some(3, 1));
  Pages::map(pages.some(0, 2).data(), 2 * page_bytes, MAP_FIXED);
  Pages::map(pages.some(3, 2).data(), 2 * page_bytes, MAP_FIXED);
  EXPECT_FALSE(watched.unmapped());
  EXPECT_TRUE(neighbour.unmapped());
}

const Shape remapped_shape{4, 4, 4, 4'000'000};

TEST_F(UcxUnmapped, the_next_epoch_is_put_with_a_new_key) {
  JobLinks links;
  Pair pair(links, "ucx", remapped_shape, MemoryKind::plain);
  if (pair.refusal()) GTEST_SKIP() << *pair.refusal();
  pair.round(1);
  for (Epoch epoch = 2; epoch < 6; epoch += 2) {
    harness_barrier();
    if (pair.receives()) map_anew({pair.buffer().data(), static_cast<std::size_t>(remapped_shape.total_bytes)});
    if (pair.sends()) ++calls.mapped_anew;
    calls.reset();
    harness_barrier();
    pair.round(epoch);
    if (pair.sends()) {
      EXPECT_EQ(calls.puts, 4);
      EXPECT_EQ(calls.oldest_key_put_with, calls.mapped_anew);
      EXPECT_EQ(calls.unpacked, 1);
    }
    pair.round(epoch + 1);
    if (pair.sends()) {
      EXPECT_EQ(calls.unpacked, 1) << "nothing was unmapped";
    }
  }
}

TEST_F(UcxUnmapped, a_key_that_comes_before_the_answer_is_the_one_used) {
  JobLinks links;
  link::Link& link = links.named("ucx");
  const Buffer from(links, MemoryKind::plain, remapped_shape.total_bytes),
      into(links, MemoryKind::plain, remapped_shape.total_bytes);
  auto made = link.sender(from.endpoint(rank()));
  if (const auto* refused = std::get_if<link::Refusal>(&made)) GTEST_SKIP() << refused->reason;
  const auto sender = std::move(std::get<std::unique_ptr<link::Sender>>(made));
  auto made_receiver =
      link.receiver(into.endpoint(rank()), remapped_shape.plan(), remapped_shape.transfers_or_all(), sender->offer());
  const auto receiver = std::move(std::get<std::unique_ptr<link::Receiver>>(made_receiver));
  const link::ReceiverAnswer answer = receiver->answer();

  constexpr Epoch epoch = 1;
  map_anew({into.data(), static_cast<std::size_t>(remapped_shape.total_bytes)});
  receiver->open(epoch);
  const auto until_it_came = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
  while (std::chrono::steady_clock::now() < until_it_came) link.progress();
  calls.reset();
  EXPECT_TRUE(
      std::holds_alternative<link::SenderFacts>(sender->connect(remapped_shape.plan(), from.data(), answer.bytes)));
  sender->start(epoch);
  from.fill(epoch, {0, remapped_shape.total_bytes});
  until(link, "the receiver is ready", [&] { return sender->ready(epoch); });
  for (std::int32_t t = 0; t < 4; ++t) sender->put({t, t + 1}, epoch);
  for (std::int32_t t = 0; t < 4; ++t) {
    until(link, "all has arrived", [&] { return receiver->arrived(t, epoch); });
  }
  until(link, "the sender has finished", [&] { return sender->finished(); });
  EXPECT_EQ(into.first_wrong(answer.facts.landing(epoch), epoch, {0, remapped_shape.total_bytes}).first,
            remapped_shape.total_bytes);
  EXPECT_EQ(calls.unpacked, 3) << "of the flags, the answer's and the new one";
  EXPECT_EQ(calls.puts, 4);
}

}  // namespace
}  // namespace partita::test
