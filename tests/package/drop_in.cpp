// The C program is C++ too.
#include "drop_in.c"  // NOLINT(bugprone-suspicious-include)
