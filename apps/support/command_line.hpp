// What the apps' command lines share.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
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

/// Where an app computes. `help` begins with what that is.
inline void add_device(CLI::App& app, std::string& device, const std::string& help) {
  app.add_option("--device", device, help + "; gpu: one process a GPU")
      ->check(CLI::IsMember(std::vector<std::string>{"cpu", "gpu"}))
      ->capture_default_str();
}

/// The names of an app's modes.
struct ModeNames {
  std::vector<std::string> cpu;
  std::vector<std::string> gpu;

  const std::vector<std::string>& of(bool on_gpu) const { return on_gpu ? gpu : cpu; }
};

/// `help` tells what the modes differ in.
inline void add_mode(CLI::App& app, std::string& mode, const std::string& help, const ModeNames& names) {
  app.add_option("--mode", mode,
                 fmt::format("{}; all compares the modes. On the CPU: {}; on GPUs: {}", help,
                             fmt::join(names.cpu, ", "), fmt::join(names.gpu, ", ")))
      ->capture_default_str();
}

/// Takes "all" and the modes of the device.
inline std::string problem_with_mode(const std::string& mode, const ModeNames& names, bool gpu) {
  const std::vector<std::string>& known = names.of(gpu);
  if (mode == "all" || std::ranges::find(known, mode) != known.end()) return "";
  return fmt::format("--mode: {} is no mode of --device {}, which has {} and all", mode, gpu ? "gpu" : "cpu",
                     fmt::join(known, ", "));
}

/// How often all modes run. `mode` is what the app calls one of them, `reported` what it makes of a mode's runs.
inline void add_repeat(CLI::App& app, int& repeat, const std::string& mode, const std::string& reported) {
  app.add_option("--repeat", repeat,
                 fmt::format("Run every {} so often, in turns, each time in an order drawn anew, and report {}", mode,
                             reported))
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
}

/// The seed of in_drawn_order (order.hpp).
inline void add_order_seed(CLI::App& app, std::uint64_t& seed) {
  app.add_option("--order-seed", seed, "From which the order of the modes is drawn for each of --repeat's rounds")
      ->capture_default_str();
}

/// Takes any prefix of files but the empty one.
inline std::string problem_with_prefix(const std::string& prefix) {
  return prefix.empty() ? "PREFIX is empty" : "";
}

}  // namespace partita::apps
