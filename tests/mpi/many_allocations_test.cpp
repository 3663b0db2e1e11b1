// Thousands of MPI_Alloc_mem in a process that may open few files: it can still open its own.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <vector>

#include "support/job.hpp"

namespace partita::test {
namespace {

long shared_kib() {
  std::ifstream statm("/proc/self/statm");
  long pages = 0, resident = 0, shared = 0;
  statm >> pages >> resident >> shared;
  return shared * ::sysconf(_SC_PAGESIZE) / 1024;
}

/// At most `count` files more than now.
class FewFiles {
 public:
  explicit FewFiles(unsigned count) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const int lowest_free = ::dup(0);
    ::close(lowest_free);
    rlimit few = before_;
    few.rlim_cur = static_cast<rlim_t>(lowest_free) + count;
    ::setrlimit(RLIMIT_NOFILE, &few);
  }
  ~FewFiles() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  FewFiles(const FewFiles&) = delete;
  FewFiles& operator=(const FewFiles&) = delete;

 private:
  rlimit before_{};
};

TEST(ManyAllocations, need_few_descriptors_and_give_their_memory_back) {
  constexpr int count = 5000;
  const long before = shared_kib();
  const FewFiles few(16);
  std::vector<unsigned char*> all;
  for (int i = 0; i < count; ++i) {
    unsigned char* memory = nullptr;
    const MPI_Aint size = i % 10 == 0 ? 40000 : 1 + i % 700;
    ASSERT_EQ(MPI_Alloc_mem(size, MPI_INFO_NULL, &memory), MPI_SUCCESS) << i;
    ASSERT_TRUE(std::all_of(memory, memory + size, [](unsigned char byte) { return byte == 0; })) << i;
    std::fill(memory, memory + size, static_cast<unsigned char>(i));
    all.push_back(memory);
  }
  const int fd = ::open("/dev/null", O_RDONLY);
  EXPECT_GE(fd, 0) << "the program's own open fails";
  ::close(fd);
  for (int i = 0; i < count; ++i) {
    int ours = 0;
    EXPECT_EQ(Partita_Is_allocated(all[static_cast<std::size_t>(i)], &ours), MPI_SUCCESS);
    EXPECT_EQ(ours, 1);
    EXPECT_EQ(all[static_cast<std::size_t>(i)][0], static_cast<unsigned char>(i)) << "written by another one";
  }
  for (const int odd : {1, 0}) {
    for (std::size_t i = static_cast<std::size_t>(odd); i < all.size(); i += 2) {
      ASSERT_EQ(MPI_Free_mem(all[i]), MPI_SUCCESS) << i;
    }
  }
  int ours = 1;
  EXPECT_EQ(Partita_Is_allocated(all[17], &ours), MPI_SUCCESS);
  EXPECT_EQ(ours, 0) << "freed";
  EXPECT_LT(shared_kib() - before, 6000);
}

TEST(ManyAllocations, are_the_mpis_where_no_descriptor_is_free) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer's look at a thrown object takes a descriptor";
#endif
  const FewFiles none(0);
  std::vector<void*> all;
  for (int i = 0; i < 100; ++i) {
    void* memory = nullptr;
    ASSERT_EQ(MPI_Alloc_mem(1 << 20, MPI_INFO_NULL, &memory), MPI_SUCCESS) << i;
    *static_cast<char*>(memory) = 1;
    all.push_back(memory);
  }
  for (void* memory : all) EXPECT_EQ(MPI_Free_mem(memory), MPI_SUCCESS);
}

}  // namespace
}  // namespace partita::test
