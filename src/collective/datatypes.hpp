// The predefined datatypes by kinds, as the standard groups them for its operations (MPI-4, section 6.9.2).
#pragma once

#include <mpi.h>

#include <vector>

namespace partita::collective::datatypes {

/// Some elements are MPI_DATATYPE_NULL in an MPI without Fortran or C++.
using Types = std::vector<MPI_Datatype>;

const Types& signed_c_integers();
const Types& unsigned_c_integers();
const Types& fortran_integers();
/// Addresses, offsets and counts, which are signed integers.
const Types& multi_language_types();
const Types& reals();
const Types& logicals();
const Types& complexes();
const Types& bytes();
/// Each of a value and an index.
const Types& pairs();

/// Whether `datatype` is one of them; MPI_DATATYPE_NULL is none.
bool has(const Types& types, MPI_Datatype datatype);

}  // namespace partita::collective::datatypes
