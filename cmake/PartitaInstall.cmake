# What ./dev install PREFIX lays down: headers, libraries, the program, the CMake package, the pkg-config files, the documentation
# and the examples. The tree may be moved afterwards; what of the MPI and UCX is installed with it says PartitaBundle.cmake.

include(CMakePackageConfigHelpers)
include(PartitaBundle)

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

# The MPI as the package and the pkg-config files name it: relative to the prefix where it is installed there.
set(package_mpicc "${MPI_C_COMPILER}")
set(package_mpiexec "${PARTITA_MPIEXEC}")
set(pc_mpi_include_dirs ${MPI_C_INCLUDE_DIRS})
set(pc_mpi_libs ${MPI_C_LIBRARIES})
if(PARTITA_BUNDLED_MPI)
  set(package_mpicc "\${PACKAGE_PREFIX_DIR}/${CMAKE_INSTALL_LIBDIR}/partita/mpi/bin/mpicc")
  set(package_mpiexec "\${PACKAGE_PREFIX_DIR}/${CMAKE_INSTALL_LIBDIR}/partita/mpi/bin/mpiexec")
  set(pc_mpi_include_dirs "\${libdir}/partita/mpi/include")
  set(pc_mpi_libs "\${libdir}/partita/mpi/lib/libmpi.so" "-Wl,-rpath,\${libdir}/partita/mpi/lib")
endif()
configure_package_config_file(cmake/partita-config.cmake.in partita-config.cmake INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file(partita-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/partita-config.cmake" "${PROJECT_BINARY_DIR}/partita-config-version.cmake"
              cmake/PartitaWhichMpi.cmake DESTINATION "${package_dir}")

# pkg-config: the MPI's own flags are named, so that plain cc serves as well as the MPI's wrapper.
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig"
           OUTPUT_VARIABLE pc_prefix)
list(TRANSFORM pc_mpi_include_dirs PREPEND "-I" OUTPUT_VARIABLE pc_mpi_cflags)
list(TRANSFORM skip_cxx_bindings PREPEND "-D" OUTPUT_VARIABLE pc_definitions)
list(APPEND pc_mpi_cflags ${pc_definitions})
list(JOIN pc_mpi_cflags " " pc_mpi_cflags)
foreach(folder IN LISTS PARTITA_OUTSIDE)
  list(APPEND pc_mpi_libs "-Wl,-rpath,${folder}")
endforeach()
list(JOIN pc_mpi_libs " " pc_mpi_libs)
foreach(name partita partita-mpi)
  configure_file(cmake/${name}.pc.in ${name}.pc @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/${name}.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endforeach()

if(PARTITA_BUILD_PROGRAM)
  install(TARGETS partita_program RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
  # Beside the licences of what PartitaBundle.cmake installs. The text of the GPL is the system's, where it has it.
  if(TARGET PkgConfig::fftw3)
    set(fftw_licence "${CMAKE_INSTALL_DOCDIR}/licenses/fftw")
    configure_file(cmake/fftw-notice.txt.in fftw-notice.txt @ONLY)
    install(FILES "${PROJECT_BINARY_DIR}/fftw-notice.txt" DESTINATION "${fftw_licence}" RENAME NOTICE.txt)
    install(FILES /usr/share/common-licenses/GPL-2 DESTINATION "${fftw_licence}" OPTIONAL)
  endif()
endif()
if(TARGET partita_bench)
  install(FILES bench/report.py DESTINATION "${CMAKE_INSTALL_DATADIR}/partita")
  install(DIRECTORY bench/partita_report DESTINATION "${CMAKE_INSTALL_DATADIR}/partita" FILES_MATCHING PATTERN "*.py"
          PATTERN __pycache__ EXCLUDE)
endif()

# The pages link to one another, to the results, and to these sources beside them.
install(FILES LICENSE README.md CHANGELOG.md CITATION.cff CONTRIBUTING.md DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(DIRECTORY docs/api docs/design docs/guide docs/measurements DESTINATION "${CMAKE_INSTALL_DOCDIR}/docs")
install(DIRECTORY examples DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(FILES bench/results.schema.json DESTINATION "${CMAKE_INSTALL_DOCDIR}/bench")
install(FILES include/partita/device.cuh DESTINATION "${CMAKE_INSTALL_DOCDIR}/include/partita")
install(DIRECTORY examples DESTINATION "${CMAKE_INSTALL_DATADIR}/partita")

# Last: the list of all that was installed, for ./dev uninstall, and what it needs of the machine, for ./dev install.
list(JOIN PARTITA_OUTSIDE "\\n" outside)
string(CONFIGURE [[
set(record "${CMAKE_INSTALL_PREFIX}/@CMAKE_INSTALL_DATADIR@/partita")
set(files "${CMAKE_INSTALL_MANIFEST_FILES}")
list(TRANSFORM files REPLACE "^${CMAKE_INSTALL_PREFIX}/" "")
list(APPEND files "@CMAKE_INSTALL_DATADIR@/partita/installed-files.txt" "@CMAKE_INSTALL_DATADIR@/partita/needs.txt")
list(JOIN files "\n" files)
file(WRITE "$ENV{DESTDIR}${record}/installed-files.txt" "${files}\n")
file(WRITE "$ENV{DESTDIR}${record}/needs.txt" "@outside@\n")
]] record_script @ONLY)
install(CODE "${record_script}")
