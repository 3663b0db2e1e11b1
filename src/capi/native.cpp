#include "capi/native.hpp"

#include "capi/report.hpp"
#include "core/native.hpp"

void Partita_use_native(void* (*find)(const char* name), const char* (*current_call)()) {
  partita::native::take_from(find);
  partita::capi::name_calls_by(current_call);
}
