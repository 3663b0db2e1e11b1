// What ends a benchmark early: a sentence, and the check that makes one of a failed call.
#pragma once

#include <fmt/format.h>
#include <mpi.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace partita::bench {

/// A benchmark that cannot run or gave wrong data; ends the job with exit status 1.
class Failure : public std::runtime_error {
 public:
  template <class... Args>
  explicit Failure(fmt::format_string<Args...> format, Args&&... args)
      : std::runtime_error(fmt::format(format, std::forward<Args>(args)...)) {}
};

[[noreturn]] inline void fail_call(int code, const char* call) {
  throw Failure("{} returned the error code {}.", call, code);
}

/// For calls that return MPI error codes. MPI's default handler has ended the job before; other handlers,
/// and libraries that only return codes, end here.
inline void check(int code, const char* call) {
  if (code != MPI_SUCCESS) fail_call(code, call);
}

}  // namespace partita::bench
