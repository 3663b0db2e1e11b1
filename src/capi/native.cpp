#include "capi/native.hpp"

#include "core/native.hpp"

void Partita_use_native(void* (*find)(const char* name)) {
  partita::native::take_from(find);
}
