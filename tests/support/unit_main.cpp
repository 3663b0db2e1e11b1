// main() of tests that start no MPI.
#include <gtest/gtest.h>

#include "support/chosen_files.hpp"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  partita::test::run_chosen_files_only();
  return RUN_ALL_TESTS();
}
