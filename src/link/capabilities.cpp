#include "link/capabilities.hpp"

#include <fmt/format.h>

namespace partita::link {
namespace {

std::string joined(const std::string& list, std::string_view separator, const std::string& item) {
  return list.empty() ? item : fmt::format("{}{}{}", list, separator, item);
}

std::string words_of(const Kinds& kinds) {
  std::string words;
  if (kinds.has(memory::Kind::host)) words = joined(words, " or ", "host");
  if (kinds.has(memory::Kind::device)) words = joined(words, " or ", "GPU");
  if (kinds.has(memory::Kind::managed)) words = joined(words, " or ", "managed");
  return words;
}

std::string words_of(std::span<const Movement> movements) {
  std::string words;
  for (const Movement& movement : movements) {
    words = joined(words, ", ", fmt::format("{} to {}", words_of(movement.from), words_of(movement.to)));
  }
  return words;
}

}  // namespace

std::string describe(const Capabilities& link) {
  if (link.movements.empty()) return "is not in this build";
  std::string text = "moves " + words_of(link.movements);
  if (!link.kernel_movements.empty()) text += "; kernels put " + words_of(link.kernel_movements);
  if (link.host_flags) text += "; flags in host memory tell what has arrived";
  if (link.costly_to_start) text += "; starts where it is wanted";
  return text;
}

}  // namespace partita::link
