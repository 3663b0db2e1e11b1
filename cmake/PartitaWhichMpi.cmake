# partita_which_mpi(TARGET VENDOR NAME): which MPI the imported target TARGET is, by the macros of its mpi.h. VENDOR becomes mpich,
# openmpi or other, NAME something like "MPICH 5.0.2". Installed too: the package checks the program's MPI by it.

function(partita_which_mpi target vendor name)
  get_target_property(include_dirs ${target} INTERFACE_INCLUDE_DIRECTORIES)
  if(NOT include_dirs)
    set(include_dirs "")
  endif()
  set(source "${CMAKE_BINARY_DIR}/CMakeFiles/partita_which_mpi.c")
  file(WRITE "${source}" [[
#include <mpi.h>
#if defined(OPEN_MPI)
partita_mpi openmpi OMPI_MAJOR_VERSION OMPI_MINOR_VERSION OMPI_RELEASE_VERSION
#elif defined(MPICH_VERSION)
partita_mpi mpich MPICH_VERSION
#else
partita_mpi other MPI_VERSION MPI_SUBVERSION
#endif
]])
  list(TRANSFORM include_dirs PREPEND "-I")
  set(compiler "${CMAKE_C_COMPILER}")
  if(NOT compiler)
    set(compiler "${CMAKE_CXX_COMPILER}")
  endif()
  execute_process(COMMAND ${compiler} -x c -E -P ${include_dirs} "${source}"
                  OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCH "partita_mpi ([a-z]+) ([^\n]+)" found "${text}")
  set(titles_mpich "MPICH")
  set(titles_openmpi "Open MPI")
  set(titles_other "an MPI of standard")
  set(title "${titles_${CMAKE_MATCH_1}}")
  set(${vendor} "${CMAKE_MATCH_1}" PARENT_SCOPE)
  string(STRIP "${CMAKE_MATCH_2}" version)
  string(REPLACE "\"" "" version "${version}")
  string(REPLACE " " "." version "${version}")
  set(${name} "${title} ${version}" PARENT_SCOPE)
endfunction()
