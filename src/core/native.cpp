#include "core/native.hpp"

namespace partita::native {

// NOLINTBEGIN(bugprone-macro-parentheses): a name
void take_from(void* (*find)(const char* name)) {
#define PARTITA_NATIVE(NAME) \
  if (void* const found = find("PMPI_" #NAME); found != nullptr) NAME = reinterpret_cast<decltype(NAME)>(found);
#include "core/native_calls.inc"
#undef PARTITA_NATIVE
}
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace partita::native
