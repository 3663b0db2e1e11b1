// Many epochs with flat memory.
#include <gtest/gtest.h>
#include <mpi.h>
#include <unistd.h>

#include <cstdio>
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

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// A sanitizer keeps freed memory for a while, to find its use; here it checks the epochs, not the memory.
constexpr long allowed_growth_kib = 1L << 40;
#else
constexpr long allowed_growth_kib = 1024;
#endif

template <class Face>
class Soak : public testing::Test {};
TYPED_TEST_SUITE(Soak, Faces, FaceNames);

TYPED_TEST(Soak, memory_stays_flat_over_many_epochs) {
  const long epochs = environment_number("PARTITEST_EPOCHS", 100000);
  const int right = (rank() + 1) % ranks(), left = (rank() + ranks() - 1) % ranks();
  Sending<TypeParam> small_send, large_send;
  Receiving<TypeParam> small_recv, large_recv;
  small_send.init(8, 16, right, 1);
  small_recv.init(4, 32, left, 1);
  large_send.init(4, 40000, right, 2);
  large_recv.init(8, 20000, left, 2);
  RETURN_IF_FAILED();
  long warm_kib = 0;
  for (long epoch = 0; epoch < epochs; ++epoch) {
    if (epoch == epochs / 5) warm_kib = private_kib();
    if (epoch % 1000 == 0) step("epoch " + std::to_string(epoch));
    const bool with_large = epoch % 100 == 0;
    const auto key = static_cast<std::uint64_t>(epoch);
    small_recv.start();
    small_send.start();
    if (with_large) large_recv.start();
    if (with_large) large_send.start();
    small_send.mark_all(key);
    if (with_large) large_send.mark_all(key);
    small_recv.wait_for(key);
    if (with_large) large_recv.wait_for(key);
    if (with_large) large_send.wait();
    small_send.wait();
    if (this->HasFailure()) return;
  }
  const long end_kib = private_kib();
  EXPECT_LE(end_kib - warm_kib, allowed_growth_kib) << "private memory grew from " << warm_kib << " KiB to " << end_kib
                                                    << " KiB over " << epochs * 4 / 5 << " epochs";
  small_send.free();
  small_recv.free();
  large_send.free();
  large_recv.free();
}

TYPED_TEST(Soak, memory_stays_flat_over_many_requests) {
  const long rounds = environment_number("PARTITEST_EPOCHS", 100000) / 20;
  const int right = (rank() + 1) % ranks(), left = (rank() + ranks() - 1) % ranks();
  long warm_kib = 0;
  for (long round = 0; round < rounds; ++round) {
    if (round == rounds / 2) warm_kib = private_kib();
    if (round % 100 == 0) step("round " + std::to_string(round));
    Sending<TypeParam> send;
    Receiving<TypeParam> recv;
    const std::int64_t partition_bytes = round % 2 == 0 ? 64 : 50000;
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
  const long end_kib = private_kib();
  EXPECT_LE(end_kib - warm_kib, allowed_growth_kib)
      << "private memory grew from " << warm_kib << " KiB to " << end_kib << " KiB over " << rounds / 2 << " requests";
}

}  // namespace
}  // namespace partita::test
