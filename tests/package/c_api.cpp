// The C program is C++ too.
#include "c_api.c"
