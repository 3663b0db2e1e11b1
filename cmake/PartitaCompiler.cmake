# Language level, warnings, sanitizers and where built files lie: for every target below.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Debug, RelWithDebInfo or Release" FORCE)
endif()

# Symbols are exported by name only (PARTITA_EXPORT, and the library's version script, below), so that nothing internal can clash
# with a program's own.
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

# The shared library shows those of its symbols with PARTITA_EXPORT that the version script `map` names, and no others.
function(partita_export_only target map)
  target_link_options(${target} PRIVATE "LINKER:--version-script=${map}")
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS "${map}")
endfunction()

# partita_in_groups(TARGET): with PARTITA_UNITY the sources of the target are compiled several at a time, as one that includes
# them. Names in anonymous namespaces therefore differ within a target. Kernels stay apart: some choose what
# <partita/device.cuh> shall cost.
function(partita_in_groups target)
  if(PARTITA_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 48)
    # GCC takes a group for a header, in which types of anonymous namespaces would be amiss.
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
    get_target_property(kernels ${target} SOURCES)
    list(FILTER kernels INCLUDE REGEX "\\.cu$")
    set_source_files_properties(${kernels} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()

set(CMAKE_POSITION_INDEPENDENT_CODE ON)

# One place for programs and one for libraries: in the build tree as in the installed one.
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")

# Libraries from unusual places stay where they are; CMake leaves out those inside the source tree, which cmake/PartitaBundle.cmake
# takes care of.
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)

add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:-Wall;-Wextra;-Wpedantic>")
if(PARTITA_WARNINGS_AS_ERRORS)
  add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:-Werror>")
endif()

if(PARTITA_SANITIZE)
  list(JOIN PARTITA_SANITIZE "," sanitizers)
  if(NOT sanitizers MATCHES "^(address|undefined|address,undefined|thread)$")
    message(FATAL_ERROR "PARTITA_SANITIZE is '${PARTITA_SANITIZE}'; it takes address, undefined, 'address;undefined' or thread")
  endif()
  add_compile_options(-fsanitize=${sanitizers} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${sanitizers})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    # Its runtime is a library, as GCC's is: libraries of ours are linked that need it. Loops that an instrument keeps from
    # being vectorised are none of our business.
    add_compile_options(-Wno-pass-failed)
    execute_process(COMMAND "${CMAKE_CXX_COMPILER}" "--print-file-name=libclang_rt.asan-${CMAKE_SYSTEM_PROCESSOR}.so"
                    OUTPUT_VARIABLE runtime OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
    if(NOT IS_ABSOLUTE "${runtime}")
      message(FATAL_ERROR "the runtime of this compiler's sanitizers was not found (Debian's is in libclang-rt-dev)")
    endif()
    cmake_path(GET runtime PARENT_PATH runtime)
    add_link_options(-shared-libsan "LINKER:-rpath,${runtime}")
  endif()
endif()
