// Transfers and offsets beyond 2^31 bytes, where the machine has the memory.
#include <gtest/gtest.h>
#include <mpi.h>

#include <fstream>
#include <limits>

#include "contract/job_links.hpp"
#include "support/job.hpp"
#include "support/pattern.hpp"

namespace partita::test {
namespace {

constexpr std::int64_t gib = std::int64_t{1} << 30;

std::int64_t available_bytes() {
  std::ifstream lines("/proc/meminfo");
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("MemAvailable:")) return std::stoll(line.substr(13)) * 1024;
  }
  return 0;
}

class HugeTransfer : public testing::TestWithParam<std::string> {};

TEST_P(HugeTransfer, bytes_beyond_two_gib_arrive) {
  const Shape shape{2, 1, 1, 2 * gib + 8192};
  const auto available = static_cast<std::int64_t>(from_rank_zero(static_cast<unsigned long long>(available_bytes())));
  if (available < 8 * gib) GTEST_SKIP() << "needs 8 GiB of free memory, this machine has " << available / gib;
  static_assert(2 * gib > std::numeric_limits<std::int32_t>::max());

  JobLinks links;
  Pair pair(links, GetParam(), shape, MemoryKind::exported);
  if (pair.refusal()) GTEST_SKIP() << "link " << GetParam() << ": " << *pair.refusal();
  const std::int64_t samples[] = {0, 2 * gib - 1, 2 * gib, shape.total_bytes - 1};
  const Epoch epoch = 1;
  if (pair.receives()) {
    pair.receiver->open(epoch);
    until(pair.link(), "the huge transfer has arrived", [&] { return pair.receiver->arrived(0, epoch); });
    const std::byte* landed = pair.receiver_facts.landing(epoch);
    for (const std::int64_t offset : samples) {
      EXPECT_EQ(static_cast<std::uint8_t>(landed[offset]), pattern(epoch, offset)) << "offset " << offset;
    }
  } else {
    pair.sender->start(epoch);
    for (const std::int64_t offset : samples) pair.buffer().fill(epoch, {offset, offset + 1});
    until(pair.link(), "the receiver is ready", [&] { return pair.sender->ready(epoch); });
    pair.sender->put({0, 1}, epoch);
    until(pair.link(), "the sender has finished", [&] { return pair.sender->finished(); });
  }
  harness_barrier();
}

INSTANTIATE_TEST_SUITE_P(Links, HugeTransfer, testing::ValuesIn(links_under_test()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace partita::test
