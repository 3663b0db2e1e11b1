// Many epochs with flat memory.
#include <gtest/gtest.h>
#include <mpi.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

#include "support/face.hpp"
#include "support/job.hpp"
#include "support/transfer.hpp"

namespace partita::test {
namespace {

/// Resident memory of this process, without what it shares with others.
long private_kib() {
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) return 0;
  long pages = 0, resident = 0, shared = 0;
  const int read = std::fscanf(file, "%ld %ld %ld", &pages, &resident, &shared);
  std::fclose(file);
  return read == 3 ? (resident - shared) * sysconf(_SC_PAGESIZE) / 1024 : 0;
}

/// What this process has touched of Partita's shared segments, its own and its peers'.
long segments_kib() {
  std::ifstream file("/proc/self/smaps");
  long sum = 0;
  bool in_segment = false;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string first;
    words >> first;
    if (first.find('-') != std::string::npos) {  // the line that begins a mapping: its addresses, ..., its file
      in_segment = line.find("/memfd:partita") != std::string::npos;
    } else if (in_segment && first == "Rss:") {
      long kib = 0;
      words >> kib;
      sum += kib;
    }
  }
  return sum;
}

struct Footprint {
  long own_kib = private_kib();
  long segments = segments_kib();
};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// A sanitizer keeps freed memory for a while, to find its use; here it checks the epochs, not the memory.
constexpr long allowed_growth_kib = 1L << 40;
#else
constexpr long allowed_growth_kib = 1024;
#endif
/// Four pages. A block has 64 bytes at least: of 2,500 requests every tenth that lost one would show.
constexpr long allowed_segment_growth_kib = 16;

// With GPU memory fewer epochs run, in which CUDA's own memory still settles, and buffers of a request are staged: what
// is held against these is a leak in each epoch, or of each such buffer.
constexpr long allowed_growth_with_cuda_kib = 8 * 1024;
constexpr long allowed_segment_growth_with_cuda_kib = 512;

void expect_flat(const Footprint& warm, const std::string& over) {
  const Footprint end;
  const bool with_cuda = gpu_memory_is_wanted();
  EXPECT_LE(end.own_kib - warm.own_kib, with_cuda ? allowed_growth_with_cuda_kib : allowed_growth_kib)
      << "private memory grew from " << warm.own_kib << " KiB to " << end.own_kib << " KiB over " << over;
  EXPECT_LE(end.segments - warm.segments, with_cuda ? allowed_segment_growth_with_cuda_kib : allowed_segment_growth_kib)
      << "Partita's shared memory grew from " << warm.segments << " KiB to " << end.segments << " KiB over " << over;
}

/// The size of a partition in plain memory: where ranks of a node have cores for it, both copy (docs/design/link.md).
constexpr std::int64_t shared_copy_bytes = 512 * 1024;

template <class Face>
class Soak : public testing::Test {};
TYPED_TEST_SUITE(Soak, Faces, FaceNames);

TYPED_TEST(Soak, memory_stays_flat_over_many_epochs) {
  const long epochs = environment_number("PARTITEST_EPOCHS", 100000);
  const int right = (rank() + 1) % ranks(), left = (rank() + ranks() - 1) % ranks();
  struct Pair {
    int every;  ///< epochs
    Sending<TypeParam> send{};
    Receiving<TypeParam> recv{};
  };
  std::array<Pair, 3> pairs{{{1}, {100}, {500}}};
  pairs[0].send.init(8, 16, right, 1);
  pairs[0].recv.init(4, 32, left, 1);
  pairs[1].send.init(4, 40000, right, 2);
  pairs[1].recv.init(8, 20000, left, 2);
  pairs[2].send.init(2, shared_copy_bytes, right, 3);
  pairs[2].recv.init(2, shared_copy_bytes, left, 3);
  RETURN_IF_FAILED();
  std::optional<Footprint> warm;
  for (long epoch = 0; epoch < epochs; ++epoch) {
    if (epoch == epochs / 5) warm.emplace();
    if (epoch % 1000 == 0) step("epoch " + std::to_string(epoch));
    const auto key = static_cast<std::uint64_t>(epoch);
    const auto of_this_epoch = [&](auto action) {
      for (Pair& pair : pairs) {
        if (epoch % pair.every == 0) action(pair);
      }
    };
    of_this_epoch([](Pair& pair) { pair.recv.start(); });
    of_this_epoch([](Pair& pair) { pair.send.start(); });
    of_this_epoch([&](Pair& pair) { pair.send.mark_all(key); });
    of_this_epoch([&](Pair& pair) { pair.recv.wait_for(key); });
    of_this_epoch([](Pair& pair) { pair.send.wait(); });
    if (this->HasFailure()) return;
  }
  expect_flat(warm.value(), std::to_string(epochs * 4 / 5) + " epochs");
  for (Pair& pair : pairs) {
    pair.send.free();
    pair.recv.free();
  }
}

/// What stays of a tag is the count of its requests, each way.
TEST(SoakOfTags, a_used_tag_keeps_a_few_bytes) {
  constexpr long most_bytes = 2 * 24;
  const long tags = environment_number("PARTITEST_EPOCHS", 100000);
  const long first_tags = tags / 10;
  const int other = 1 - rank();
  std::optional<Footprint> warm;
  for (long tag = 0; tag < first_tags + tags; ++tag) {
    if (tag == first_tags) warm.emplace();
    if (tag % 1000 == 0) step("tag " + std::to_string(tag));
    Sending<CFace> send;
    Receiving<CFace> recv;
    send.init(1, 64, other, static_cast<int>(tag));
    recv.init(1, 64, other, static_cast<int>(tag));
    recv.start();
    send.start();
    send.mark_all(1);
    recv.wait_for(1);
    send.wait();
    send.free();
    recv.free();
    RETURN_IF_FAILED();
  }
  const long grown_kib = Footprint().own_kib - warm->own_kib;
  EXPECT_LE(grown_kib, tags * most_bytes / 1024 + allowed_growth_kib)
      << "private memory grew by " << grown_kib * 1024 / tags << " bytes a tag over " << tags << " tags each way";
}

TYPED_TEST(Soak, memory_stays_flat_over_many_requests) {
  const long rounds = environment_number("PARTITEST_EPOCHS", 100000) / 20;
  const int right = (rank() + 1) % ranks(), left = (rank() + ranks() - 1) % ranks();
  std::optional<Footprint> warm;
  for (long round = 0; round < rounds; ++round) {
    if (round == rounds / 2) warm.emplace();
    if (round % 100 == 0) step("round " + std::to_string(round));
    Sending<TypeParam> send;
    Receiving<TypeParam> recv;
    const std::int64_t partition_bytes = round % 50 == 0 ? shared_copy_bytes : round % 2 == 0 ? 64 : 50000;
    send.init(2, partition_bytes, right, 3);
    recv.init(2, partition_bytes, left, 3);
    recv.start();
    send.start();
    send.mark_all(1);
    recv.wait_for(1);
    send.wait();
    send.free();
    recv.free();
    if (this->HasFailure()) return;
  }
  expect_flat(warm.value(), std::to_string(rounds / 2) + " requests each way");
}

}  // namespace
}  // namespace partita::test
