// Makes one verdict of what all ranks found.
#pragma once

#include <gtest/gtest.h>

namespace partita::test {

/// Installs the listeners: rank 0 reports for all, the others are quiet. After each test case, rank 0 takes up
/// the failed checks of the others, each with the rank's number. Collective: all ranks run the same cases.
void install_listeners();

/// What the process ends with, the same on all ranks: 0, 77 if every case was skipped on every rank, else 1.
/// Collective.
int common_exit_code(int own_result);

/// The exit code that ctest knows as "skipped".
inline constexpr int skipped_exit_code = 77;

}  // namespace partita::test
