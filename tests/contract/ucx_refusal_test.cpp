// What link ucx cannot serve it refuses with a reason, or reports as an error; it never fails later.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>

#include "contract/job_links.hpp"
#include "support/job.hpp"

namespace partita::test {
namespace {

using link::Refusal;

class UcxRefusal : public testing::Test {
 protected:
  void TearDown() override { harness_barrier(); }

  /// The sending half towards this rank itself, with its offer; skips where this build or machine has no usable UCX.
  void make_offer() {
    made_ = link_.sender(endpoint_);
    if (const auto* refused = std::get_if<Refusal>(&made_)) GTEST_SKIP() << refused->reason;
    offer_ = std::get<std::unique_ptr<link::Sender>>(made_)->offer();
  }

  JobLinks links_;
  link::Link& link_ = links_.named("ucx");
  Buffer buffer_{links_, MemoryKind::plain, 64};
  link::Endpoint endpoint_{.peer = rank(), .data = buffer_.data(), .size_bytes = 64, .kind = memory::Kind::host};
  std::variant<std::unique_ptr<link::Sender>, Refusal> made_;
  wire::Bytes offer_;
};

TEST_F(UcxRefusal, a_build_or_machine_without_ucx_says_so) {
  const auto made = link_.sender(endpoint_);
  const auto* refused = std::get_if<Refusal>(&made);
  if (refused == nullptr) GTEST_SKIP() << "UCX works here";
  EXPECT_NE(refused->reason.find("UCX"), std::string::npos) << refused->reason;
  EXPECT_NE(refused->reason.back(), '.');
}

TEST_F(UcxRefusal, another_version_of_ucx_is_named) {
  make_offer();
  if (IsSkipped()) return;
  const std::uint32_t other[2] = {1, 9};
  std::memcpy(offer_.data(), other, sizeof other);  // the version stands first in every offer
  const auto made = link_.receiver(endpoint_, link::Plan(1, 1, 1, 64), 1, offer_);
  const auto* refused = std::get_if<Refusal>(&made);
  ASSERT_NE(refused, nullptr);
  EXPECT_NE(refused->reason.find(fmt::format("rank {} runs UCX 1.9", rank())), std::string::npos) << refused->reason;
}

TEST_F(UcxRefusal, an_offer_that_was_cut_short_is_an_error) {
  make_offer();
  if (IsSkipped()) return;
  offer_.resize(offer_.size() - 1);
  EXPECT_THROW(link_.receiver(endpoint_, link::Plan(1, 1, 1, 64), 1, offer_), Error);
}

TEST_F(UcxRefusal, memory_of_a_gpu_needs_a_ucx_that_reaches_it) {
  make_offer();
  if (IsSkipped()) return;
  endpoint_.kind = memory::Kind::device;  // which UCX cannot find out, since it is not true
  const auto made = link_.sender(endpoint_);
  const auto* refused = std::get_if<Refusal>(&made);
  ASSERT_NE(refused, nullptr);
  EXPECT_NE(refused->reason.find("CUDA"), std::string::npos) << refused->reason;
}

TEST(UcxRelease, a_message_that_comes_after_the_memory_was_released_is_dropped) {
  constexpr std::size_t size_bytes = 64;
  JobLinks links;
  Pair pair(links, "ucx", {1, 1, 1, size_bytes}, MemoryKind::plain, rank(), rank());
  if (pair.refusal()) GTEST_SKIP() << *pair.refusal();
  constexpr Epoch epoch = 1;
  pair.receiver->open(epoch);
  pair.sender->start(epoch);
  until(pair.link(), "the receiver is ready", [&] { return pair.sender->ready(epoch); });
  std::byte* const into = pair.receiver_facts.landing(epoch);
  std::memset(into, 0x5a, size_bytes);
  pair.receiver->release_memory();  // as for a request whose wait has timed out
  pair.buffer().fill(epoch, {0, size_bytes});
  pair.sender->put({0, 1}, epoch);
  until(pair.link(), "the message has left", [&] { return pair.sender->finished(); });
  const auto until_it_came = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
  while (std::chrono::steady_clock::now() < until_it_came) pair.link().progress();
  for (std::size_t i = 0; i < size_bytes; ++i) ASSERT_EQ(into[i], std::byte{0x5a}) << "byte " << i;
}

}  // namespace
}  // namespace partita::test
