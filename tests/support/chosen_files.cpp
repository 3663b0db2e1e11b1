#include "support/chosen_files.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>

namespace partita::test {
namespace {

std::set<std::string> parts_of(std::string_view list) {
  std::set<std::string> parts;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(','), list.size());
    parts.emplace(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return parts;
}

std::string name_without_folder(const char* file) {
  const std::string_view path = file;
  return std::string(path.substr(path.rfind('/') + 1));
}

/// The cases that other files define, as a filter of GoogleTest names what shall not run; whole suites where it can.
std::string cases_of_others(const std::set<std::string>& chosen, bool& some_are_chosen) {
  const testing::UnitTest& program = *testing::UnitTest::GetInstance();
  std::string others;
  for (int s = 0; s < program.total_test_suite_count(); ++s) {
    const testing::TestSuite& suite = *program.GetTestSuite(s);
    std::string of_suite;
    int count = 0;
    for (int c = 0; c < suite.total_test_count(); ++c) {
      const testing::TestInfo& test = *suite.GetTestInfo(c);
      if (chosen.contains(name_without_folder(test.file()))) continue;
      of_suite += std::string(":") + suite.name() + "." + test.name();
      ++count;
    }
    if (count < suite.total_test_count()) some_are_chosen = true;
    others += count == suite.total_test_count() ? std::string(":") + suite.name() + ".*" : of_suite;
  }
  return others;
}

}  // namespace

void run_chosen_files_only() {
  const char* const wanted = std::getenv("PARTITEST_FILES");
  if (wanted == nullptr || *wanted == '\0') return;
  bool some_are_chosen = false;
  const std::string others = cases_of_others(parts_of(wanted), some_are_chosen);
  if (!some_are_chosen) {
    std::fprintf(stderr, "PARTITEST_FILES=%s: this program has no case of these files\n", wanted);
    std::exit(2);
  }
  std::string& filter = testing::GTEST_FLAG(filter);
  if (!others.empty()) filter += (filter.find('-') == std::string::npos ? "-" : "") + others;
}

}  // namespace partita::test
