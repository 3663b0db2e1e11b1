#include "collective/datatypes.hpp"

namespace partita::collective::datatypes {

const Types& signed_c_integers() {
  static const Types types = {MPI_INT,    MPI_LONG,    MPI_SHORT,   MPI_LONG_LONG, MPI_SIGNED_CHAR,
                              MPI_INT8_T, MPI_INT16_T, MPI_INT32_T, MPI_INT64_T};
  return types;
}

const Types& unsigned_c_integers() {
  static const Types types = {MPI_UNSIGNED,           MPI_UNSIGNED_LONG, MPI_UNSIGNED_SHORT,
                              MPI_UNSIGNED_LONG_LONG, MPI_UNSIGNED_CHAR, MPI_UINT8_T,
                              MPI_UINT16_T,           MPI_UINT32_T,      MPI_UINT64_T};
  return types;
}

// Fortran's types of a size are not in every MPI.

const Types& fortran_integers() {
  static const Types types = {
      MPI_INTEGER,
#if defined(MPI_INTEGER1)
      MPI_INTEGER1,
#endif
#if defined(MPI_INTEGER2)
      MPI_INTEGER2,
#endif
#if defined(MPI_INTEGER4)
      MPI_INTEGER4,
#endif
#if defined(MPI_INTEGER8)
      MPI_INTEGER8,
#endif
#if defined(MPI_INTEGER16)
      MPI_INTEGER16,
#endif
  };
  return types;
}

const Types& multi_language_types() {
  static const Types types = {MPI_AINT, MPI_OFFSET, MPI_COUNT};
  return types;
}

const Types& reals() {
  static const Types types = {
      MPI_FLOAT,  MPI_DOUBLE, MPI_LONG_DOUBLE, MPI_REAL, MPI_DOUBLE_PRECISION,
#if defined(MPI_REAL2)
      MPI_REAL2,
#endif
#if defined(MPI_REAL4)
      MPI_REAL4,
#endif
#if defined(MPI_REAL8)
      MPI_REAL8,
#endif
#if defined(MPI_REAL16)
      MPI_REAL16,
#endif
  };
  return types;
}

const Types& logicals() {
  static const Types types = {
      MPI_C_BOOL,    MPI_LOGICAL, MPI_CXX_BOOL,
#if defined(MPI_LOGICAL1)
      MPI_LOGICAL1,
#endif
#if defined(MPI_LOGICAL2)
      MPI_LOGICAL2,
#endif
#if defined(MPI_LOGICAL4)
      MPI_LOGICAL4,
#endif
#if defined(MPI_LOGICAL8)
      MPI_LOGICAL8,
#endif
#if defined(MPI_LOGICAL16)
      MPI_LOGICAL16,
#endif
  };
  return types;
}

const Types& complexes() {
  static const Types types = {
      MPI_C_COMPLEX,      MPI_C_FLOAT_COMPLEX,   MPI_C_DOUBLE_COMPLEX,   MPI_C_LONG_DOUBLE_COMPLEX,   MPI_COMPLEX,
      MPI_DOUBLE_COMPLEX, MPI_CXX_FLOAT_COMPLEX, MPI_CXX_DOUBLE_COMPLEX, MPI_CXX_LONG_DOUBLE_COMPLEX,
#if defined(MPI_COMPLEX4)
      MPI_COMPLEX4,
#endif
#if defined(MPI_COMPLEX8)
      MPI_COMPLEX8,
#endif
#if defined(MPI_COMPLEX16)
      MPI_COMPLEX16,
#endif
#if defined(MPI_COMPLEX32)
      MPI_COMPLEX32,
#endif
  };
  return types;
}

const Types& bytes() {
  static const Types types = {MPI_BYTE};
  return types;
}

const Types& pairs() {
  static const Types types = {MPI_FLOAT_INT,       MPI_DOUBLE_INT, MPI_LONG_INT,          MPI_2INT,    MPI_SHORT_INT,
                              MPI_LONG_DOUBLE_INT, MPI_2REAL,      MPI_2DOUBLE_PRECISION, MPI_2INTEGER};
  return types;
}

bool has(const Types& types, MPI_Datatype datatype) {
  for (const MPI_Datatype each : types) {
    if (each == datatype && each != MPI_DATATYPE_NULL) return true;
  }
  return false;
}

}  // namespace partita::collective::datatypes
