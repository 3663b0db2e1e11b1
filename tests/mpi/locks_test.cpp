// The path of an epoch takes no lock, and does not try to, as long as it need not wait.
#include <gtest/gtest.h>
#include <mpi.h>

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "support/face.hpp"
#include "support/job.hpp"
#include "support/transfer.hpp"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// A sanitizer has its own functions in place of these, and needs to see the locks.
#define PARTITEST_CANNOT_COUNT_LOCKS
#endif

namespace {

/// Calls by this thread, from Partita's own code; the MPI's locks are its own.
struct Locks {
  long taken = 0;
  long tried = 0;
};
thread_local Locks locks;

struct Code {
  std::uintptr_t begin = 0, end = 0;
};
/// Where the code of libpartita and libpartita_mpi lies; written before `counting` is set.
Code partitas_code[8];
std::atomic<bool> counting{false};

/// For dl_iterate_phdr; `next` points into partitas_code.
int note_code(dl_phdr_info* object, std::size_t, void* next) {
  if (std::strstr(object->dlpi_name, "/libpartita") == nullptr) return 0;
  auto& place = *static_cast<Code**>(next);
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const auto& header = object->dlpi_phdr[i];
    if (header.p_type != PT_LOAD || (header.p_flags & PF_X) == 0) continue;
    if (place == std::end(partitas_code)) std::abort();
    const std::uintptr_t begin = object->dlpi_addr + header.p_vaddr;
    *place++ = {begin, begin + header.p_memsz};
  }
  return 0;
}

[[maybe_unused]] bool is_partitas(const void* caller) {
  if (!counting.load(std::memory_order_acquire)) return false;
  const auto address = reinterpret_cast<std::uintptr_t>(caller);
  return std::any_of(std::begin(partitas_code), std::end(partitas_code),
                     [&](const Code& code) { return address >= code.begin && address < code.end; });
}

using LockCall = int (*)(pthread_mutex_t*);

/// The C library's. Looked up again by whichever threads come before the first one has noted it.
[[maybe_unused]] LockCall looked_up(const char* name, std::atomic<LockCall>& noted) {
  LockCall call = noted.load(std::memory_order_relaxed);
  if (call != nullptr) return call;
  call = reinterpret_cast<LockCall>(::dlsym(RTLD_NEXT, name));
  noted.store(call, std::memory_order_relaxed);
  return call;
}

}  // namespace

#if !defined(PARTITEST_CANNOT_COUNT_LOCKS)
// In place of the C library's in all of the process.
extern "C" __attribute__((visibility("default"))) int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  static std::atomic<LockCall> noted{nullptr};
  if (is_partitas(__builtin_return_address(0))) ++locks.taken;
  return looked_up("pthread_mutex_lock", noted)(mutex);
}

extern "C" __attribute__((visibility("default"))) int pthread_mutex_trylock(pthread_mutex_t* mutex) noexcept {
  static std::atomic<LockCall> noted{nullptr};
  if (is_partitas(__builtin_return_address(0))) ++locks.tried;
  return looked_up("pthread_mutex_trylock", noted)(mutex);
}
#endif

namespace partita::test {
namespace {

template <class Face>
class Locking : public testing::Test {
 protected:
  static constexpr int partitions = 8;

  static void SetUpTestSuite() {
    if (counting) return;
    Code* next = partitas_code;
    ::dl_iterate_phdr(note_code, &next);
    counting = true;
  }
  void SetUp() override {
#if defined(PARTITEST_CANNOT_COUNT_LOCKS)
    GTEST_SKIP() << "locks are not counted under a sanitizer";
#endif
  }

  void init(std::int64_t partition_bytes) {
    send_.init(partitions, partition_bytes, (rank() + 1) % ranks(), 3);
    recv_.init(partitions, partition_bytes, (rank() + ranks() - 1) % ranks(), 3);
  }
  void free() {
    harness_barrier();
    send_.free();
    recv_.free();
  }
  /// An epoch in which no call has to wait for the other side.
  void run_epoch() {
    int codes = Face::start(&recv_.request);
    harness_barrier();
    codes += Face::start(&send_.request);
    for (int p = 0; p < partitions; ++p) codes += Face::pready(p, send_.request);
    codes += Face::wait(&send_.request, MPI_STATUS_IGNORE);
    harness_barrier();
    int arrived = 0;
    codes += Face::parrived(recv_.request, partitions - 1, &arrived);
    codes += Face::wait(&recv_.request, MPI_STATUS_IGNORE);
    EXPECT_EQ(arrived, 1);
    EXPECT_EQ(codes, 0);
  }

  Sending<Face> send_;
  Receiving<Face> recv_;
};

TYPED_TEST_SUITE(Locking, Faces, FaceNames);

TYPED_TEST(Locking, the_count_is_live) {
  const Locks before = locks;
  this->init(8);
  test::run_epoch(this->send_, this->recv_, 1);
  EXPECT_GT(locks.taken, before.taken) << "requests are made under locks";
  this->free();
}

TYPED_TEST(Locking, an_epoch_of_a_matched_pair_over_direct_takes_no_lock) {
  for (const std::int64_t partition_bytes : {8, 4096, 200000}) {
    this->init(partition_bytes);
    test::run_epoch(this->send_, this->recv_, 1);  // matched from here on
    for (int epoch = 0; epoch < 20 && !this->HasFailure(); ++epoch) {
      const Locks before = locks;
      this->run_epoch();
      EXPECT_EQ(locks.taken, before.taken) << partition_bytes << " bytes a partition";
      EXPECT_EQ(locks.tried, before.tried) << partition_bytes << " bytes a partition";
    }
    this->free();
  }
}

}  // namespace
}  // namespace partita::test
