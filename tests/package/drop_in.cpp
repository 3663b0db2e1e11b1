// The C program is C++ too.
#include "drop_in.c"
