#include "capi/links.hpp"

#include <fmt/format.h>

#include <string>

#include "capi/report.hpp"
#include "capi/state.hpp"

using namespace partita;
using namespace partita::capi;

const char* Partita_Describe_link(int which) {
  const Runtime* const current = current_runtime();
  if (current == nullptr || which < 0 || which >= static_cast<int>(current->links.size())) return nullptr;
  static thread_local std::string text;
  const int code = guarded("Describe_link", [&] {
    const link::Capabilities& link = current->links[static_cast<std::size_t>(which)]->capabilities();
    text = fmt::format("{:<8}{}", link.name, describe(link));
  });
  return code == MPI_SUCCESS ? text.c_str() : nullptr;
}
