// One line to standard error, whole, with the rank in front.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <iterator>
#include <new>
#include <utility>

namespace partita {

/// The rank that log lines name; set once the world is known.
inline int log_rank = -1;

/// Writes one line with one write(2), so that lines of several ranks do not mix. A line of up to about 400 characters
/// takes no memory; a longer one for which there is none is not written.
template <class... Args>
void log(fmt::format_string<Args...> format, Args&&... args) noexcept {
  try {
    fmt::memory_buffer line;
    fmt::format_to(std::back_inserter(line), "[partita rank {}] ", log_rank);
    fmt::format_to(std::back_inserter(line), format, std::forward<Args>(args)...);
    line.push_back('\n');
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
  } catch (const std::bad_alloc&) {
    return;
  }
}

}  // namespace partita
