// Programs that have the tests of several files: an entry of CTest runs those of its own.
#pragma once

namespace partita::test {

/// With PARTITEST_FILES=queue_test.cpp,other.cpp only the cases that these files define will run, of which GoogleTest's
/// own filter chooses as ever. Without the variable, all. Ends the process where this program knows no case of any of
/// them. To be called after InitGoogleTest and before the first case.
void run_chosen_files_only();

}  // namespace partita::test
