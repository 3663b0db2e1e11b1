#include "apps/support/shown_command.hpp"

#include <fstream>
#include <regex>
#include <vector>

namespace partita::apps {

namespace {

/// A path may be a word, or stand behind "=", as in --json=FILE, behind ":", as in library:FILE, or in a list.
std::string without_folders(const std::string& word) {
  static const std::regex folders("(^|[=:,])[^=:,?]*/");
  return std::regex_replace(word, folders, "$1");
}

std::string quoted(const std::string& word) {
  static const std::regex plain("[-A-Za-z0-9_./:=,+@%]+");
  if (std::regex_match(word, plain)) return word;
  return "'" + std::regex_replace(word, std::regex("'"), "'\\''") + "'";
}

}  // namespace

std::string shown_command(std::span<const std::string> words) {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += ' ';
    text += quoted(without_folders(word));
  }
  return text;
}

std::string own_command() {
  std::ifstream file("/proc/self/cmdline");
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  return shown_command(words);
}

}  // namespace partita::apps
