# Finds UCX for the link ucx. Sets PARTITA_HAVE_UCX to TRUE or FALSE and, where it is found, the target partita_ucx.
#
# One UCX serves a process, and an MPI may bring its own. partita_ucx names all four libraries, wanted or not: named before
# the MPI's they are loaded from one place, instead of ucp from here and uct from there.

set(PARTITA_UCX AUTO CACHE STRING "The link ucx: AUTO (where UCX is found), ON or OFF")
set_property(CACHE PARTITA_UCX PROPERTY STRINGS AUTO ON OFF)

set(PARTITA_HAVE_UCX FALSE)
if(NOT PARTITA_UCX STREQUAL "OFF")
  # An MPI from a Python environment goes with the UCX wheel of that environment, a system's MPI with the system's UCX.
  set(ucx_places "")
  if(PARTITA_PYTHON_PACKAGES)
    set(ucx_places PATHS "${PARTITA_PYTHON_PACKAGES}/libucx" NO_DEFAULT_PATH)
  endif()
  find_path(PARTITA_UCX_INCLUDE ucp/api/ucp.h PATH_SUFFIXES include ${ucx_places})
  foreach(part ucp uct ucs ucm)
    find_library(PARTITA_UCX_LIB_${part} ${part} PATH_SUFFIXES lib ${ucx_places})
  endforeach()
  if(PARTITA_UCX_INCLUDE AND PARTITA_UCX_LIB_ucp AND PARTITA_UCX_LIB_uct AND PARTITA_UCX_LIB_ucs AND PARTITA_UCX_LIB_ucm)
    set(PARTITA_HAVE_UCX TRUE)
  elseif(PARTITA_UCX STREQUAL "ON")
    message(FATAL_ERROR "PARTITA_UCX is ON, but UCX was not found; install libucx-dev, or let ./dev setup bring it")
  endif()
endif()

if(PARTITA_HAVE_UCX)
  foreach(part ucp uct ucs ucm)
    add_library(partita_ucx_${part} SHARED IMPORTED)
    set_target_properties(partita_ucx_${part} PROPERTIES IMPORTED_LOCATION "${PARTITA_UCX_LIB_${part}}"
                          INTERFACE_INCLUDE_DIRECTORIES "${PARTITA_UCX_INCLUDE}")
  endforeach()
  add_library(partita_ucx INTERFACE)
  target_link_libraries(partita_ucx INTERFACE -Wl,--push-state,--no-as-needed partita_ucx_ucp partita_ucx_uct
                        partita_ucx_ucs partita_ucx_ucm -Wl,--pop-state)
  message(STATUS "UCX: ${PARTITA_UCX_LIB_ucp}")
else()
  message(STATUS "UCX: not found; the link ucx is left out")
endif()
