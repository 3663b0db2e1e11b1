# What an installed Partita needs at run time beside itself, and where its run paths find it.
#
# ./dev brings the MPI and UCX as wheels, into .venv of the checkout, and would leave an installed tree that ends with the checkout.
# So wheels that lie inside the source tree are installed too:
#   lib/partita/mpi/                 the MPI: bin, include and lib
#   lib/partita/libucx/lib/          UCX, its modules in ucx/
#   lib/partita/libucx_cu13.libs/    the CUDA runtime that one of these modules needs
# in the wheels' own layout, in which their parts find each other. Everything else stays where it was found and is named by its path. Sets
#   PARTITA_BUNDLED_MPI, PARTITA_BUNDLED_UCX    whether
#   PARTITA_OUTSIDE                             list of the folders outside the prefix that the installed libraries need

set(PARTITA_BUNDLE AUTO CACHE STRING "Install the wheels of MPICH and UCX too: AUTO (those inside the source tree), ON or OFF")
set_property(CACHE PARTITA_BUNDLE PROPERTY STRINGS AUTO ON OFF)
set(bundle_folder "${CMAKE_INSTALL_LIBDIR}/partita")

# partita_bundles(RESULT FILE): whether what lies at FILE is to be installed.
function(partita_bundles result file)
  set(${result} FALSE PARENT_SCOPE)
  file(REAL_PATH "${PROJECT_SOURCE_DIR}" source)
  cmake_path(GET file PARENT_PATH folder)
  file(REAL_PATH "${folder}" folder)
  cmake_path(IS_PREFIX source "${folder}" inside)
  if(PARTITA_BUNDLE STREQUAL "ON" OR (PARTITA_BUNDLE STREQUAL "AUTO" AND inside))
    set(${result} TRUE PARENT_SCOPE)
  endif()
endfunction()

# A wheel's licences go where the documentation goes.
function(partita_install_licences wheel)
  file(GLOB licences "${PARTITA_PYTHON_PACKAGES}/${wheel}-*.dist-info/licenses/*")
  install(FILES ${licences} DESTINATION "${CMAKE_INSTALL_DOCDIR}/licenses/${wheel}")
endfunction()

cmake_path(GET MPI_C_COMPILER PARENT_PATH mpi_prefix)
cmake_path(GET mpi_prefix PARENT_PATH mpi_prefix)
file(GLOB mpich_wheel "${PARTITA_PYTHON_PACKAGES}/mpich-*.dist-info")
set(PARTITA_BUNDLED_MPI FALSE)
if(mpich_wheel)
  partita_bundles(PARTITA_BUNDLED_MPI "${MPI_C_COMPILER}")
endif()
if(PARTITA_BUNDLED_MPI)
  foreach(program mpicc mpicxx mpic++ mpiexec mpiexec.hydra mpirun mpichversion mpivars hydra_nameserver hydra_persist
                  hydra_pmi_proxy)
    install(PROGRAMS "${mpi_prefix}/bin/${program}" DESTINATION "${bundle_folder}/mpi/bin")
  endforeach()
  install(FILES "${mpi_prefix}/include/mpi.h" "${mpi_prefix}/include/mpi_proto.h"
          DESTINATION "${bundle_folder}/mpi/include")
  file(GLOB mpi_libraries "${mpi_prefix}/lib/libmpi.so*")
  install(FILES ${mpi_libraries} DESTINATION "${bundle_folder}/mpi/lib")
  install(DIRECTORY "${mpi_prefix}/lib/mpich" DESTINATION "${bundle_folder}/mpi/lib")
  partita_install_licences(mpich)
endif()

set(PARTITA_BUNDLED_UCX FALSE)
file(GLOB ucx_wheel "${PARTITA_PYTHON_PACKAGES}/libucx_cu*.dist-info")
if(PARTITA_HAVE_UCX AND ucx_wheel)
  partita_bundles(PARTITA_BUNDLED_UCX "${PARTITA_UCX_LIB_ucp}")
endif()
if(PARTITA_BUNDLED_UCX)
  cmake_path(GET PARTITA_UCX_LIB_ucp PARENT_PATH ucx_folder)
  foreach(part ucp uct ucs ucm ucs_signal)
    install(FILES "${ucx_folder}/lib${part}.so.0" DESTINATION "${bundle_folder}/libucx/lib")
  endforeach()
  # Without its benchmark's module, which is as large as all the others.
  install(DIRECTORY "${ucx_folder}/ucx" DESTINATION "${bundle_folder}/libucx/lib"
          FILES_MATCHING PATTERN "*.so.0" PATTERN "libucx_perftest*" EXCLUDE)
  cmake_path(GET ucx_wheel STEM wheel_name)  # libucx_cu13-1
  string(REGEX REPLACE "-.*" "" wheel_name "${wheel_name}")
  file(GLOB cuda_runtime "${PARTITA_PYTHON_PACKAGES}/${wheel_name}.libs/libcudart*")
  install(FILES ${cuda_runtime} DESTINATION "${bundle_folder}/${wheel_name}.libs")
  partita_install_licences(${wheel_name})
endif()

# The run paths: of ours, of what is bundled, and of the folders of an MPI and a UCX that are not.
set(PARTITA_OUTSIDE "")
set(library_run_path "$ORIGIN")
set(needed ${MPI_C_LIBRARIES})
if(PARTITA_BUNDLED_MPI)
  set(needed "")
  list(APPEND library_run_path "$ORIGIN/partita/mpi/lib")
endif()
if(PARTITA_BUNDLED_UCX)
  list(APPEND library_run_path "$ORIGIN/partita/libucx/lib")
elseif(PARTITA_HAVE_UCX)
  list(APPEND needed "${PARTITA_UCX_LIB_ucp}")
endif()
# The loader wants the file itself: Debian's Open MPI is linked by a name in a folder of its own that leads to the system's.
foreach(library IN LISTS needed)
  file(REAL_PATH "${library}" library)
  cmake_path(GET library PARENT_PATH folder)
  list(APPEND PARTITA_OUTSIDE "${folder}")
endforeach()
list(REMOVE_DUPLICATES PARTITA_OUTSIDE)
list(REMOVE_ITEM PARTITA_OUTSIDE ${CMAKE_C_IMPLICIT_LINK_DIRECTORIES})
list(APPEND library_run_path ${PARTITA_OUTSIDE})
set_target_properties(partita partita_mpi PROPERTIES INSTALL_RPATH "${library_run_path}")
if(PARTITA_BUILD_PROGRAM)
  list(TRANSFORM library_run_path REPLACE "^.ORIGIN" "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}" OUTPUT_VARIABLE program_run_path)
  set_target_properties(partita_program PROPERTIES INSTALL_RPATH "${program_run_path}")
endif()
