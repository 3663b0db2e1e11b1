// One line to standard error, whole, with the rank in front.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <string>
#include <utility>

namespace partita {

/// The rank that log lines name; set once the world is known.
inline int log_rank = -1;

/// Writes one line with one write(2), so that lines of several ranks do not mix.
template <class... Args>
void log(fmt::format_string<Args...> format, Args&&... args) {
  const std::string line =
      fmt::format("[partita rank {}] {}\n", log_rank, fmt::format(format, std::forward<Args>(args)...));
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace partita
