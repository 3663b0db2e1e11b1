#include "dropin/progress.hpp"

#include <cstdlib>
#include <string_view>

namespace partita::dropin {

/// Partita_Init checks the variable's value.
bool caller_progress_is_set() {
  const char* setting = std::getenv("PARTITA_PROGRESS");
  return setting != nullptr && std::string_view(setting) == "caller";
}

}  // namespace partita::dropin
