// The names of the links.
#pragma once

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

namespace partita::link {

/// In the order in which `auto` prefers them.
inline constexpr std::string_view names[] = {
#define PARTITA_LINK(name) #name,
#include "link/links.inc"
#undef PARTITA_LINK
};

/// Those that have to be named to be taken on a node: all but the first, which is `auto` there.
inline std::vector<std::string> others() {
  return {std::next(std::begin(names)), std::end(names)};
}

/// Whether `wish` is what a program or a user may ask for: auto or a link.
inline bool is_choice(std::string_view wish) {
  return wish == "auto" || std::find(std::begin(names), std::end(names), wish) != std::end(names);
}

/// "auto, direct, ..."
inline std::string choices() {
  std::string text = "auto";
  for (const std::string_view name : names) text.append(", ").append(name);
  return text;
}

}  // namespace partita::link
