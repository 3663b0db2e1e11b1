// The level of threads that the drop-in reports, and what it asks its MPI for.
#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "dropin_ring.hpp"
#include "limited_mpi.hpp"

namespace partita::test {
namespace {

/// As MPIs report it, whatever the drop-in asks its MPI for.
TEST(ThreadLevel, is_the_lesser_of_what_the_mpi_gives_and_the_program_asks_for) {
  const char* name = std::getenv("PARTITEST_THREAD_LEVEL");
  const std::string_view asked = name == nullptr ? "multiple" : name;
  const int asked_level = asked == "single"       ? MPI_THREAD_SINGLE
                          : asked == "funneled"   ? MPI_THREAD_FUNNELED
                          : asked == "serialized" ? MPI_THREAD_SERIALIZED
                                                  : MPI_THREAD_MULTIPLE;
  EXPECT_EQ(std::min(asked_level, most_of_mpi()), thread_level());
  int level = -1;
  ASSERT_EQ(MPI_SUCCESS, MPI_Query_thread(&level));
  EXPECT_EQ(level, thread_level());
}

}  // namespace
}  // namespace partita::test
