#include "core/settings.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <numeric>
#include <string_view>

#include "core/error.hpp"

namespace partita {
namespace {

/// A variable, what it accepts, and how its value gets into the Settings. `assign` returns false on a bad value.
struct Setting {
  SettingDescription description;
  bool (*assign)(Settings&, const std::string&);
};

template <class Number>
bool parse_number(const std::string& text, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

template <class Number>
bool parse_at_least(const std::string& text, Number least, Number& value) {
  Number parsed{};
  if (!parse_number(text, parsed) || !(parsed >= least)) return false;
  value = parsed;
  return true;
}

bool parse_seconds(const std::string& text, double& value) {
  return parse_at_least(text, 0.0, value) && std::isfinite(value);
}
bool parse_or_off(const std::string& text, std::int64_t least, std::optional<std::int64_t>& value) {
  if (text != "off") return parse_at_least(text, least, value.emplace());
  value.reset();
  return true;
}

bool parse_peer_collectives(const std::string& text, PeerCollectiveSize& size) {
  using From = PeerCollectiveSize::From;
  size = {text == "auto" ? From::measured : text == "off" ? From::never : From::bytes, 0};
  return size.from != From::bytes || parse_at_least(text, std::int64_t{0}, size.bytes);
}

const std::vector<Setting>& settings_table() {
  static const std::vector<Setting> table = {
      {{"PARTITA_LINK", "auto or the name of a link", "which link moves the bytes"},
       [](Settings& s, const std::string& v) {
         s.link = v;
         return !v.empty();
       }},
      {{"PARTITA_PARTITIONS", "a whole number from 1", "transport partitions per request (default: by size)"},
       [](Settings& s, const std::string& v) { return parse_at_least(v, 1, s.transport_partitions); }},
      {{"PARTITA_GPU_COPY", "auto, kernel or engine", "who moves what kernels mark: the kernel itself or the host"},
       [](Settings& s, const std::string& v) {
         const auto parsed = parse_gpu_copy(v);
         s.gpu_copy = parsed.value_or(GpuCopy::automatic);
         return parsed.has_value();
       }},
      {{"PARTITA_GPU_AWARE", "auto, on or off",
        "whether MPI's own calls give GPU memory to Partita (default: auto, where the MPI does not take it)"},
       [](Settings& s, const std::string& v) {
         s.gpu_aware = v == "on" ? GpuAware::on : v == "off" ? GpuAware::off : GpuAware::automatic;
         return v == "auto" || v == "on" || v == "off";
       }},
      {{"PARTITA_GPU_AWARE_STREAM", "none, legacy or per-thread",
        "which default stream of the program MPI's own calls on GPU memory come behind (default: none)"},
       [](Settings& s, const std::string& v) {
         const auto parsed = parse_default_stream(v);
         s.call_stream = parsed.value_or(CallStream::none);
         return parsed.has_value();
       }},
      {{"PARTITA_PEER_COLLECTIVES", "auto, bytes, or off",
        "from how many bytes of a rank on MPI's blocking collectives go from GPU to GPU (default: auto, from a size "
        "for each)"},
       [](Settings& s, const std::string& v) { return parse_peer_collectives(v, s.peer_collectives); }},
      {{"PARTITA_PEER_MESSAGES", "bytes from 252, or off",
        "from how many bytes on MPI's messages between GPUs of a node are copied by the receiver (default: off)"},
       [](Settings& s, const std::string& v) { return parse_or_off(v, 252, s.peer_messages_from_bytes); }},
      {{"PARTITA_PROGRESS", "thread or caller", "who takes the host steps of communication"},
       [](Settings& s, const std::string& v) {
         s.progress_thread = v == "thread";
         return v == "thread" || v == "caller";
       }},
      {{"PARTITA_WARN_AFTER", "seconds, 0 for never", "when a wait explains what it waits for (default 30)"},
       [](Settings& s, const std::string& v) { return parse_seconds(v, s.warn_after_s); }},
      {{"PARTITA_TIMEOUT", "seconds, 0 for never", "when a wait ends with an error (default 0)"},
       [](Settings& s, const std::string& v) { return parse_seconds(v, s.timeout_s); }},
      {{"PARTITA_VERBOSE", "0 or 1", "tell versions at the start, and for each peer which link requests take, and why"},
       [](Settings& s, const std::string& v) {
         s.verbose = v == "1";
         return v == "0" || v == "1";
       }},
      {{"PARTITA_TRACE", "a file name", "write the life of every partition there (Chrome trace format)"},
       [](Settings& s, const std::string& v) {
         s.trace_file = v;
         return !v.empty();
       }},
      {{"PARTITA_TUNING", "a file name", "which algorithms collectives take: a file of partita tune"},
       [](Settings& s, const std::string& v) {
         s.tuning_file = v;
         return !v.empty();
       }},
      {{"PARTITA_NODES", "a whole number from 1",
        "for tests and measurements: for how many nodes the ranks of a machine take themselves (default 1)"},
       [](Settings& s, const std::string& v) { return parse_at_least(v, 1, s.nodes); }},
      {{"PARTITA_SLOT_LIMIT", "bytes", "largest request that may travel through slots on a node (default 1048576)"},
       [](Settings& s, const std::string& v) { return parse_at_least(v, std::int64_t{0}, s.slot_limit_bytes); }},
      {{"PARTITA_FIRST_EPOCH", "a whole number below 2^32", "for tests: the epoch before a request's first"},
       [](Settings& s, const std::string& v) { return parse_number(v, s.first_epoch); }},
  };
  return table;
}

std::string list_of_known() {
  std::string list;
  for (const auto& known : known_settings()) {
    list += fmt::format("\n  {} ({}): {}", known.name, known.expected, known.meaning);
  }
  return list;
}

/// Names that systems of modules and package managers set for what they install, whatever it is called.
bool is_for_a_package(std::string_view name) {
  constexpr std::string_view names[] = {"PARTITA_ROOT", "PARTITA_HOME", "PARTITA_DIR", "PARTITA_PREFIX",
                                        "PARTITA_VERSION"};
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

void assign(Settings& settings, const std::string& name, const std::string& value) {
  for (const auto& setting : settings_table()) {
    if (name != setting.description.name) continue;
    if (!setting.assign(settings, value)) {
      throw malformed_setting(name, value, setting.description.expected);
    }
    return;
  }
  if (!is_for_a_package(name)) settings.unknown.push_back(name);
}

/// How many letters must be put in, taken out or replaced to make `b` of `a` (Levenshtein).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row[b.size()];
}

const char* nearest_known(const std::string& name) {
  const auto& known = known_settings();
  return std::min_element(known.begin(), known.end(),
                          [&](const SettingDescription& a, const SettingDescription& b) {
                            return edit_distance(name, a.name) < edit_distance(name, b.name);
                          })
      ->name;
}

}  // namespace

const std::vector<SettingDescription>& known_settings() {
  static const std::vector<SettingDescription> descriptions = [] {
    std::vector<SettingDescription> list;
    for (const auto& setting : settings_table()) list.push_back(setting.description);
    return list;
  }();
  return descriptions;
}

Error malformed_setting(const std::string& name, const std::string& value, const std::string& expected) {
  return Error(ErrorClass::arg, "the environment sets {}={}, but expected is {}; the known settings are:{}", name,
               value, expected, list_of_known());
}

Settings read_settings(const char* const* environment) {
  constexpr std::string_view prefix = "PARTITA_";
  Settings settings;
  for (auto entry = environment; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view variable(*entry);
    const auto equals = variable.find('=');
    if (!variable.starts_with(prefix) || equals == std::string_view::npos) continue;
    assign(settings, std::string(variable.substr(0, equals)), std::string(variable.substr(equals + 1)));
  }
  return settings;
}

std::string describe_unknown(const std::vector<std::string>& unknown) {
  std::string text = "the environment sets what is no setting of Partita's, and the job goes on without:";
  for (const std::string& name : unknown) text += fmt::format(" {} (is {} meant?)", name, nearest_known(name));
  return text;
}

std::optional<GpuCopy> parse_gpu_copy(const std::string& text) {
  if (text == "auto") return GpuCopy::automatic;
  if (text == "kernel") return GpuCopy::kernel;
  if (text == "engine") return GpuCopy::engine;
  return std::nullopt;
}

int parse_transport_partitions(const std::string& what, const std::string& text) {
  int value = 0;
  if (!parse_at_least(text, 1, value)) {
    throw Error(ErrorClass::info_value, "{} is \"{}\", but expected is a whole number from 1", what, text);
  }
  return value;
}

}  // namespace partita
