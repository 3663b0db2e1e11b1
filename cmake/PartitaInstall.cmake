# What ./dev install PREFIX lays down: headers, libraries, the program, the CMake package and the pkg-config files.
# The tree may be moved afterwards; only the MPI (and UCX) stay where they were found.

include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/partita")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
        FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp" PATTERN "*.cuh")

# The wrapper mpi.h must come before the MPI's own, so the include folders are not system ones.
set_target_properties(partita_mpi PROPERTIES EXPORT_NAME mpi)
set_target_properties(partita partita_mpi PROPERTIES EXPORT_NO_SYSTEM ON)
# MPI's C++ bindings, which left the standard with MPI 3, would need a library of their own in every C++ program.
set(skip_cxx_bindings OMPI_SKIP_MPICXX=1 MPICH_SKIP_MPICXX=1)
target_compile_definitions(partita INTERFACE ${skip_cxx_bindings})
install(TARGETS partita partita_mpi EXPORT partita-targets LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(EXPORT partita-targets NAMESPACE partita:: DESTINATION "${package_dir}")

configure_package_config_file(cmake/partita-config.cmake.in partita-config.cmake INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file(partita-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/partita-config.cmake" "${PROJECT_BINARY_DIR}/partita-config-version.cmake"
              cmake/PartitaWhichMpi.cmake DESTINATION "${package_dir}")

# pkg-config: the MPI's own flags are named, so that plain cc serves as well as the MPI's wrapper.
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig"
           OUTPUT_VARIABLE pc_prefix)
list(TRANSFORM MPI_C_INCLUDE_DIRS PREPEND "-I" OUTPUT_VARIABLE pc_mpi_cflags)
list(TRANSFORM skip_cxx_bindings PREPEND "-D" OUTPUT_VARIABLE pc_definitions)
list(APPEND pc_mpi_cflags ${pc_definitions})
list(JOIN pc_mpi_cflags " " pc_mpi_cflags)
set(pc_mpi_libs ${MPI_C_LIBRARIES})
foreach(library IN LISTS MPI_C_LIBRARIES)
  cmake_path(GET library PARENT_PATH folder)
  if(NOT folder IN_LIST CMAKE_C_IMPLICIT_LINK_DIRECTORIES)
    list(APPEND pc_mpi_libs "-Wl,-rpath,${folder}")
  endif()
endforeach()
list(REMOVE_DUPLICATES pc_mpi_libs)
list(JOIN pc_mpi_libs " " pc_mpi_libs)
foreach(name partita partita-mpi)
  configure_file(cmake/${name}.pc.in ${name}.pc @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/${name}.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endforeach()

if(PARTITA_BUILD_PROGRAM)
  install(TARGETS partita_program RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()
