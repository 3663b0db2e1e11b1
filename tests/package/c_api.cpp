// The C program is C++ too.
#include "c_api.c"  // NOLINT(bugprone-suspicious-include)
