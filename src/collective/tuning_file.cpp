#include "collective/tuning_file.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "collective/algorithms.hpp"
#include "collective/kernel_algorithms.hpp"
#include "core/error.hpp"

namespace partita::collective {
namespace {

constexpr std::string_view first_line_of_file = "# partita tuning 1";
constexpr std::string_view columns = "collective,driver,ranks,from_bytes,algorithm,medians_us";
constexpr std::size_t column_count = 6;
constexpr std::pair<MovedBy, std::string_view> drivers[] = {{MovedBy::host, "host"}, {MovedBy::device, "device"}};
constexpr std::string_view any = "any";

/// What an error quotes of a file's text.
std::string_view quoted(std::string_view text) {
  return text.substr(0, 60);
}

/// Where the reader is, for its errors.
struct Place {
  std::string_view file;
  std::size_t line = 0;

  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw Error(ErrorClass::arg, "{}, line {}: {}", file, line, fmt::format(format, std::forward<Args>(args)...));
  }
};

std::string_view driver_name(MovedBy by) {
  return std::ranges::find(drivers, by, &std::pair<MovedBy, std::string_view>::first)->second;
}

template <class Number>
std::optional<Number> number_of(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0;; ++begin) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end;
    if (end == text.size()) return parts;
  }
}

Kind read_kind(const Place& place, std::string_view text) {
  std::vector<std::string_view> known;
  for (int kind = 0; kind < kind_count; ++kind) {
    known.emplace_back(name_of(static_cast<Kind>(kind)));
    if (known.back() == text) return static_cast<Kind>(kind);
  }
  place.fail("the collective is \"{}\"; expected is one of {}", quoted(text), fmt::join(known, ", "));
}

MovedBy read_driver(const Place& place, std::string_view text) {
  for (const auto& [by, name] : drivers) {
    if (text == name) return by;
  }
  place.fail("the driver is \"{}\"; expected is host or device", quoted(text));
}

int read_ranks(const Place& place, std::string_view text, MovedBy by) {
  if (text == any) return any_ranks;
  const auto ranks = number_of<int>(text);
  if (!ranks || *ranks < 1) place.fail("ranks are \"{}\"; expected is a number from 1, or any", quoted(text));
  if (*ranks > most_ranks_of(by)) {
    place.fail("ranks are {}; expected with driver {} are up to {}", *ranks, driver_name(by), most_ranks_of(by));
  }
  return *ranks;
}

std::int64_t read_from_bytes(const Place& place, std::string_view text, const Rule& rule) {
  const auto bytes = number_of<std::int64_t>(text);
  if (!bytes || *bytes < 0) place.fail("from_bytes is \"{}\"; expected is a number from 0", quoted(text));
  if (*bytes > 0 && !size_may_decide(rule.kind)) {
    place.fail("from_bytes is {}; expected of {} is 0, since not all of its ranks know the sizes of its blocks", *bytes,
               name_of(rule.kind));
  }
  return *bytes;
}

/// What serves any number of ranks is asked for none in particular: the built-in rule stands in where it does not.
std::string read_algorithm(const Place& place, std::string_view text, const Rule& rule) {
  const std::vector<std::string_view> serving = algorithm_names(rule.kind, rule.by, rule.ranks);
  if (std::ranges::find(serving, text) != serving.end()) return std::string(text);
  const std::vector<std::string_view> known = algorithm_names(rule.kind, rule.by, any_ranks);
  if (known.empty()) {
    place.fail("{} is not moved by kernels; expected of it is driver host", name_of(rule.kind));
  }
  const bool is_known = std::ranges::find(known, text) != known.end();
  place.fail("algorithm \"{}\" {}; expected is one of {}", quoted(text),
             is_known ? fmt::format("cannot serve {} among {} ranks", name_of(rule.kind), rule.ranks)
                      : fmt::format("is none of {} by the {}", name_of(rule.kind), driver_name(rule.by)),
             fmt::join(serving, ", "));
}

/// They are for people, who shall not be misled by half a line.
void check_medians(const Place& place, std::string_view text) {
  if (text.empty()) return;
  for (const std::string_view entry : split(text, ' ')) {
    const std::size_t equals = entry.find('=');
    if (equals != std::string_view::npos && equals > 0 && number_of<double>(entry.substr(equals + 1))) continue;
    place.fail("medians_us has \"{}\"; expected are entries such as ring=12.5 with a space between them",
               quoted(entry));
  }
}

Rule read_rule(const Place& place, std::string_view line) {
  const std::vector<std::string_view> fields = split(line, ',');
  if (fields.size() != column_count) {
    place.fail("there are {} fields; expected are {}: {}", fields.size(), column_count, columns);
  }
  Rule rule;
  rule.kind = read_kind(place, fields[0]);
  rule.by = read_driver(place, fields[1]);
  rule.ranks = read_ranks(place, fields[2], rule.by);
  rule.from_bytes = read_from_bytes(place, fields[3], rule);
  rule.algorithm = read_algorithm(place, fields[4], rule);
  check_medians(place, fields[5]);
  return rule;
}

bool are_about_the_same(const Rule& a, const Rule& b) {
  return a.kind == b.kind && a.by == b.by && a.ranks == b.ranks && a.from_bytes == b.from_bytes;
}

}  // namespace

std::vector<std::string_view> algorithm_names(Kind kind, MovedBy by, int ranks) {
  std::vector<std::string_view> names;
  if (by == MovedBy::device) {
    if (built_in_tuning().find({kind, by, 1, 0}) == nullptr) return names;
    for (const KernelAlgorithm& each : kernel_algorithms()) {
      if (each.serves(kind)) names.push_back(each.name);
    }
    return names;
  }
  for (const Algorithm* each : algorithms()) {
    if (!each->kinds.contain(kind)) continue;
    if (ranks == any_ranks || each->serves({.kind = kind, .size = ranks})) names.push_back(each->name);
  }
  return names;
}

Tuning read_tuning(std::string_view file, std::string_view text) {
  std::vector<Rule> rules;
  std::vector<std::size_t> lines_of_rules;
  bool has_columns = false;
  Place place{file};
  for (std::string_view line : split(text, '\n')) {
    ++place.line;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (place.line == 1) {
      if (line != first_line_of_file) {
        place.fail("it is \"{}\"; expected of a tuning file is \"{}\"", line.substr(0, 60), first_line_of_file);
      }
    } else if (line.empty() || line.front() == '#') {
      continue;
    } else if (!has_columns) {
      if (line != columns) place.fail("it is \"{}\"; expected are the columns {}", line.substr(0, 60), columns);
      has_columns = true;
    } else {
      Rule rule = read_rule(place, line);
      const auto same = std::ranges::find_if(rules, [&](const Rule& old) { return are_about_the_same(old, rule); });
      if (same != rules.end()) {
        place.fail("line {} has a rule for the same collective, driver, ranks and from_bytes; expected is one",
                   lines_of_rules[static_cast<std::size_t>(same - rules.begin())]);
      }
      rules.push_back(std::move(rule));
      lines_of_rules.push_back(place.line);
    }
  }
  if (!has_columns) place.fail("the file ends; expected are the columns {}", columns);
  return Tuning(std::move(rules));
}

std::string write_tuning(std::span<const std::string> notes, std::span<const MeasuredRule> rules) {
  std::string text = fmt::format("{}\n", first_line_of_file);
  for (const std::string& note : notes) text += fmt::format("# {}\n", note);
  text += fmt::format("{}\n", columns);
  for (const auto& [rule, medians_us] : rules) {
    std::vector<std::string> medians;
    medians.reserve(medians_us.size());
    for (const auto& [name, median_us] : medians_us) medians.push_back(fmt::format("{}={:.2f}", name, median_us));
    text += fmt::format("{},{},{},{},{},{}\n", name_of(rule.kind), driver_name(rule.by),
                        rule.ranks == any_ranks ? std::string(any) : fmt::format("{}", rule.ranks), rule.from_bytes,
                        rule.algorithm, fmt::join(medians, " "));
  }
  return text;
}

}  // namespace partita::collective
