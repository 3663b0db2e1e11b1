// Allocations by C++'s new, of all of the process: counted, and made to fail. For tests that name allocations.cpp among
// their sources.
#pragma once

namespace partita::test {

/// Allocations of the calling thread so far; the progress thread's are its own.
long allocations();

/// The `count`-th allocation of the process from here on fails, and no other; none where `count` is not positive.
void fail_allocation(long count);
/// Ends that. Whether the allocation was still to come.
bool end_failing();

}  // namespace partita::test
