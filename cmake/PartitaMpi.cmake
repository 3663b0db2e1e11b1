# Finds the MPI by asking its compiler wrapper, and the launcher that belongs to it. Sets
#   MPI::MPI_C              the target to link; its C++ bindings are off
#   PARTITA_MPI_VENDOR      mpich, openmpi or other
#   PARTITA_MPI_NAME        for people: "MPICH 5.0.2"
#   PARTITA_PYTHON_PACKAGES the packages of the Python environment that it lies in; empty if it lies in none
#   PARTITA_MPIEXEC         the launcher, called as: ${PARTITA_MPIEXEC} -n RANKS ${PARTITA_MPIEXEC_FLAGS} program
#   PARTITA_MPIEXEC_FLAGS   list: more ranks than cores are allowed, ranks are not bound
#   PARTITA_MPI_ENVIRONMENT list of NAME=VALUE that a launch on a developer's or CI machine needs (as root, in a container)

function(partita_find_mpicc result)
  set(wanted "${PARTITA_MPICC}")
  if(NOT wanted)
    set(wanted "$ENV{MPICC}")
  endif()
  if(NOT wanted AND EXISTS "${PROJECT_SOURCE_DIR}/.venv/bin/mpicc")
    set(wanted "${PROJECT_SOURCE_DIR}/.venv/bin/mpicc")
  endif()
  if(NOT wanted)
    set(wanted mpicc)
  endif()
  find_program(mpicc_path NAMES "${wanted}" NO_CACHE)
  if(NOT mpicc_path)
    message(FATAL_ERROR "the MPI compiler wrapper '${wanted}' was not found; run ./dev setup, or name one with MPICC=…")
  endif()
  set(${result} "${mpicc_path}" PARENT_SCOPE)
endfunction()

# The launcher beside the wrapper. Debian marks both with the MPI's name (mpicc.openmpi, mpirun.openmpi), perhaps behind
# a chain of alternatives; the chain is followed only as far as that mark, since the wrapper may itself be a link.
function(partita_find_mpiexec mpicc result)
  get_filename_component(folder "${mpicc}" DIRECTORY)
  set(step "${mpicc}")
  set(suffix "")
  while(IS_SYMLINK "${step}" AND NOT step MATCHES "mpicc\\.[a-z]+$")
    file(READ_SYMLINK "${step}" next)
    cmake_path(ABSOLUTE_PATH next BASE_DIRECTORY "${folder}" NORMALIZE)
    set(step "${next}")
    get_filename_component(folder "${step}" DIRECTORY)
  endwhile()
  if(step MATCHES "mpicc(\\.[a-z]+)$")
    set(suffix "${CMAKE_MATCH_1}")
  endif()
  get_filename_component(folder "${mpicc}" DIRECTORY)
  find_program(mpiexec_path NAMES "mpiexec${suffix}" "mpirun${suffix}" PATHS "${folder}" NO_DEFAULT_PATH NO_CACHE)
  if(NOT mpiexec_path)
    message(FATAL_ERROR "no mpiexec${suffix} or mpirun${suffix} lies beside ${mpicc}")
  endif()
  set(${result} "${mpiexec_path}" PARENT_SCOPE)
endfunction()

partita_find_mpicc(mpicc)
if(DEFINED CACHE{MPI_C_COMPILER} AND NOT "$CACHE{MPI_C_COMPILER}" STREQUAL "${mpicc}")
  message(FATAL_ERROR "this build directory was configured with $CACHE{MPI_C_COMPILER}; "
                      "two MPIs never share one: take another directory for ${mpicc}")
endif()
partita_find_mpiexec("${mpicc}" PARTITA_MPIEXEC)
set(MPI_C_COMPILER "${mpicc}" CACHE FILEPATH "The MPI's compiler wrapper")
set(MPIEXEC_EXECUTABLE "${PARTITA_MPIEXEC}" CACHE FILEPATH "The MPI's launcher")
set(MPI_DETERMINE_LIBRARY_VERSION OFF)
find_package(MPI 3.1 REQUIRED COMPONENTS C)

# Run paths are CMake's business: those that a wrapper asks for would stay in installed libraries, and name this machine's folders.
get_target_property(link_options MPI::MPI_C INTERFACE_LINK_OPTIONS)
if(link_options)
  string(REGEX REPLACE "-Wl(,|\\$<COMMA>)-rpath(( +-Wl)?(,|\\$<COMMA>)|=)[^ ;>]+" "" link_options "${link_options}")
  set_property(TARGET MPI::MPI_C PROPERTY INTERFACE_LINK_OPTIONS "${link_options}")
endif()

cmake_path(GET mpicc PARENT_PATH mpi_prefix)
cmake_path(GET mpi_prefix PARENT_PATH mpi_prefix)
file(GLOB PARTITA_PYTHON_PACKAGES "${mpi_prefix}/lib/python3*/site-packages")

# The C interface alone is used, in C++ too: the C++ bindings would only add a library.
set_property(TARGET MPI::MPI_C APPEND PROPERTY INTERFACE_COMPILE_DEFINITIONS OMPI_SKIP_MPICXX=1 MPICH_SKIP_MPICXX=1)

include(PartitaWhichMpi)
partita_which_mpi(MPI::MPI_C PARTITA_MPI_VENDOR PARTITA_MPI_NAME)
set(PARTITA_MPIEXEC_FLAGS "")
set(PARTITA_MPI_ENVIRONMENT "")
if(PARTITA_MPI_VENDOR STREQUAL "openmpi")
  set(PARTITA_MPIEXEC_FLAGS --oversubscribe --bind-to none)
  set(PARTITA_MPI_ENVIRONMENT OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1)
endif()
if(PARTITA_MPI_NAME MATCHES "MPICH 4\\.0")
  # Its header declares the arrays of statuses so that GCC takes MPI_STATUSES_IGNORE, in C, for one that is too short.
  add_compile_options("$<$<COMPILE_LANG_AND_ID:C,GNU>:-Wno-stringop-overflow>")
endif()
message(STATUS "MPI: ${PARTITA_MPI_NAME} (${mpicc}, ${PARTITA_MPIEXEC})")

# ./dev run and its like read this.
list(JOIN PARTITA_MPIEXEC_FLAGS "\", \"" flags)
list(JOIN PARTITA_MPI_ENVIRONMENT "\", \"" environment)
string(CONFIGURE [[{
  "mpi": "@PARTITA_MPI_NAME@",
  "mpicc": "@MPI_C_COMPILER@",
  "mpiexec": "@PARTITA_MPIEXEC@",
  "flags": ["@flags@"],
  "environment": ["@environment@"]
}
]] launch_settings @ONLY)
string(REPLACE "[\"\"]" "[]" launch_settings "${launch_settings}")
file(WRITE "${PROJECT_BINARY_DIR}/partita-launch.json" "${launch_settings}")
