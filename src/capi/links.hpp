// For the program partita alone.
#pragma once

#include "partita/partita.h"

extern "C" {

/// The name of link `which` in the order in which `auto` prefers them, and what it can do, in words; null behind the
/// last one, and outside Partita_Init … Partita_Finalize. Lives until the thread's next call.
PARTITA_EXPORT const char* Partita_Describe_link(int which);
}
