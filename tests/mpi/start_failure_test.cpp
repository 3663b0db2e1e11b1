// What one rank cannot do at the start fails on every rank, with a sentence that names the rank; no rank is left
// waiting.
#include <gtest/gtest.h>
#include <mpi.h>
#include <partita/partita.h>
#include <sys/resource.h>
#include <unistd.h>

#include <string>

#include "support/errors.hpp"
#include "support/job.hpp"

namespace partita::test {
namespace {

/// Takes from this process, while it lives, the right to open one more descriptor.
class NoDescriptors {
 public:
  explicit NoDescriptors(bool here) : here_(here) {
    getrlimit(RLIMIT_NOFILE, &before_);
    if (!here_) return;
    const int next = dup(STDIN_FILENO);
    close(next);
    const rlimit none{static_cast<rlim_t>(next), before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoDescriptors() {
    if (here_) setrlimit(RLIMIT_NOFILE, &before_);
  }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  bool here_;
  rlimit before_{};
};

class StartFailure : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(MPI_SUCCESS, Partita_Finalize()); }
  void TearDown() override { ASSERT_EQ(MPI_SUCCESS, Partita_Init(MPI_COMM_WORLD)); }
  ErrorsReturn handler_{MPI_COMM_SELF};
};

TEST_F(StartFailure, of_one_rank_is_every_ranks_error) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer's look at a thrown object takes a descriptor";
#endif
  const int last = ranks() - 1;
  int code = MPI_SUCCESS;
  {
    const NoDescriptors none(rank() == last);
    code = Partita_Init(MPI_COMM_WORLD);
  }
  EXPECT_ERROR(code, MPI_ERR_OTHER, "rank " + std::to_string(last) + " could not", "Too many open files");
  int started = 1;
  EXPECT_OK(Partita_Initialized(&started));
  EXPECT_EQ(0, started);
}

TEST_F(StartFailure, a_wrong_value_on_one_rank_is_every_ranks_error) {
  const int last = ranks() - 1;
  if (rank() == last) setenv("PARTITA_LINK", "nonsense", 1);
  const int code = Partita_Init(MPI_COMM_WORLD);
  if (rank() == last) unsetenv("PARTITA_LINK");
  EXPECT_ERROR(code, MPI_ERR_ARG, "rank " + std::to_string(last) + ": ", "PARTITA_LINK=nonsense");
}

}  // namespace
}  // namespace partita::test
