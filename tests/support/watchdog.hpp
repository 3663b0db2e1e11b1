// Ends a job whose test hangs, and says where each rank stands.
#pragma once

#include <string>

namespace partita::test {

/// Watches from now on: a test case may take half of `limit_s`, the process five sixths of it. When a limit
/// passes, this rank prints its test, its last step() and since when that lasts, and the stack of the main thread, and
/// ends with code 70.
void start_watchdog(int rank, long limit_s);
void stop_watchdog();

/// Tells the watchdog which test case runs now; empty: none.
void watch_case(const std::string& name);
/// Tells the watchdog of a failed check, so that a hang that follows from it is reported with its cause.
void watch_failure(const std::string& sentence);

}  // namespace partita::test
