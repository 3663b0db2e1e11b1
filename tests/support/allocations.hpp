// Allocations by C++'s new, of all of the process: counted, and made to fail. For tests that name allocations.cpp among
// their sources.
#pragma once

namespace partita::test {

/// Allocations of the calling thread so far; the progress thread's are its own.
long allocations();

/// The `first`-th allocation of the process from here on fails, and the next ones, `in_a_row` in all.
void fail_allocations(long first, long in_a_row = 1);
/// The `first`-th allocation of the calling thread and the next ones fail; the progress thread goes on undisturbed.
void fail_allocations_of_this_thread(long first, long in_a_row = 1);
/// Ends that. Whether the first one was still to come.
bool end_failing();

}  // namespace partita::test
