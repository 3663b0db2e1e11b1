// The progress rule in calls on files.
#include <unistd.h>

#include <string>

#include "crossing.hpp"
#include "dropin_ring.hpp"
#include "support/sanitized.hpp"

namespace partita::test {
namespace {

/// A file of four bytes a rank, open on all of them.
class SharedFile {
 public:
  SharedFile() {
    const std::string name = testing::TempDir() + "partita_shared_" + std::to_string(from_rank_zero(getpid()));
    EXPECT_EQ(MPI_SUCCESS,
              MPI_File_open(MPI_COMM_WORLD, name.c_str(), MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                            MPI_INFO_NULL, &file));
    MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
  }
  ~SharedFile() { EXPECT_EQ(MPI_SUCCESS, MPI_File_close(&file)); }
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  MPI_File file = MPI_FILE_NULL;
};

TEST_P(Crossing, ends_around_collective_access_to_files) {
  const SharedFile shared;
  MPI_File file = shared.file;
  MPI_Status status{};
  cross([&] {
    const int own = rank() + 5;
    ASSERT_EQ(MPI_SUCCESS, MPI_File_write_at_all(file, rank(), &own, 1, MPI_INT, &status));
  });
  cross([&] { ASSERT_EQ(MPI_SUCCESS, MPI_File_sync(file)); });
  cross([&] {
    int read = -1;
    ASSERT_EQ(MPI_SUCCESS, MPI_File_read_at_all(file, rank(), &read, 1, MPI_INT, &status));
    ASSERT_EQ(rank() + 5, read);
  });
  cross([&] {
    int read = -1;
    ASSERT_EQ(MPI_SUCCESS, MPI_File_read_at_all_begin(file, rank(), &read, 1, MPI_INT));
    ASSERT_EQ(MPI_SUCCESS, MPI_File_read_at_all_end(file, &read, &status));
    ASSERT_EQ(rank() + 5, read);
  });
  cross([&] { ASSERT_EQ(MPI_SUCCESS, MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL)); });
  cross([&] { ASSERT_EQ(MPI_SUCCESS, MPI_File_set_size(file, 4 * static_cast<MPI_Offset>(ranks()))); });
}

/// What a call has begun, the MPI carries on in its other calls, those of Partita's progress thread among them.
TEST(Files, are_accessed_by_calls_that_return_at_once) {
  const SharedFile shared;
  MPI_File file = shared.file;
  Ring ring;
  const int rounds = ranks() == 2 ? repetitions(1000, 300) : 100;  // four ranks take turns on a machine of two cores
  for (int epoch = 0; epoch < 3; ++epoch) {
    ring.start();
    for (int round = 0; round < rounds; ++round) {
      const int written = 1000 * rank() + round;
      int read = -1;
      MPI_Request request = MPI_REQUEST_NULL;
      ASSERT_EQ(MPI_SUCCESS, MPI_File_iwrite_at(file, rank(), &written, 1, MPI_INT, &request));
      ASSERT_EQ(MPI_SUCCESS, MPI_Wait(&request, MPI_STATUS_IGNORE));
      ASSERT_EQ(MPI_SUCCESS, MPI_File_iread_at(file, rank(), &read, 1, MPI_INT, &request));
      ASSERT_EQ(MPI_SUCCESS, MPI_Wait(&request, MPI_STATUS_IGNORE));
      ASSERT_EQ(written, read);
      read = -1;
      ASSERT_EQ(MPI_SUCCESS, MPI_File_read_at_all_begin(file, rank(), &read, 1, MPI_INT));
      ASSERT_EQ(MPI_SUCCESS, MPI_File_read_at_all_end(file, &read, MPI_STATUS_IGNORE));
      ASSERT_EQ(written, read);
    }
    ring.mark_all();
    ring.finish();
    ring.expect_arrived();
  }
}

TEST_P(Crossing, ends_around_files) {
  const std::string name = testing::TempDir() + "partita_crossing_" + std::to_string(from_rank_zero(getpid()));
  cross([&] {
    MPI_File file = MPI_FILE_NULL;
    ASSERT_EQ(MPI_SUCCESS,
              MPI_File_open(MPI_COMM_WORLD, name.c_str(), MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                            MPI_INFO_NULL, &file));
    ASSERT_EQ(MPI_SUCCESS, MPI_File_close(&file));
  });
}

INSTANTIATE_TEST_SUITE_P(SmallAndHugeFiles, Crossing, testing::Values(64, 64 * 1024, 4 * 1024 * 1024));

}  // namespace
}  // namespace partita::test
