// What the apps' command lines share.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "apps/support/exit.hpp"

namespace partita::apps {

/// `problem` as the app `name` says it.
inline Exit refused(const std::string& name, const std::string& problem) {
  return {2, fmt::format("{0}: {1}\nSee partita run {0} --help.\n", name, problem)};
}

/// Reads the options of the app `name` into what `app` binds; an Exit where the work ends there.
inline std::optional<Exit> parse(CLI::App& app, const std::string& name, int argc, const char* const* argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return Exit{0, app.help()};
  } catch (const CLI::ParseError& error) {
    return refused(name, error.what());
  }
  return std::nullopt;
}

/// Takes "all" and the modes of the device, which are `names`.
inline std::string problem_with_mode(const std::string& mode, const std::vector<std::string>& names, bool gpu) {
  if (mode == "all" || std::ranges::find(names, mode) != names.end()) return "";
  return fmt::format("--mode: {} is no mode of --device {}, which has {} and all", mode, gpu ? "gpu" : "cpu",
                     fmt::join(names, ", "));
}

/// Takes any prefix of files but the empty one.
inline std::string problem_with_prefix(const std::string& prefix) {
  return prefix.empty() ? "PREFIX is empty" : "";
}

}  // namespace partita::apps
