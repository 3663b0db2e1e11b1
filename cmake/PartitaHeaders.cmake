# The target partita_headers compiles every header by itself: the public ones as C and as C++, the internal ones as C++.
# It is not part of `all`; ./dev test --all builds it.

function(partita_header_units list header language)
  string(MAKE_C_IDENTIFIER "${header}" unit)
  set(unit "${PROJECT_BINARY_DIR}/headers/${unit}.${language}")
  file(CONFIGURE OUTPUT "${unit}" CONTENT "#include \"@PROJECT_SOURCE_DIR@/@header@\"\n" @ONLY)
  set(${list} ${${list}} "${unit}" PARENT_SCOPE)
endfunction()

file(GLOB_RECURSE public_headers RELATIVE "${PROJECT_SOURCE_DIR}" CONFIGURE_DEPENDS include/*.h)
file(GLOB_RECURSE internal_headers RELATIVE "${PROJECT_SOURCE_DIR}" CONFIGURE_DEPENDS include/*.hpp src/*.hpp src/*.h)
if(PARTITA_BUILD_PROGRAM)
  file(GLOB_RECURSE program_headers RELATIVE "${PROJECT_SOURCE_DIR}" CONFIGURE_DEPENDS
       apps/*.hpp bench/*.hpp program/*.hpp)
  if(NOT PARTITA_CUDA)
    list(FILTER program_headers EXCLUDE REGEX "^(apps/jacobi2d/gpu|bench/gpu)/|^apps/support/nccl")
  endif()
endif()
if(PARTITA_BUILD_TESTS)
  file(GLOB_RECURSE test_headers RELATIVE "${PROJECT_SOURCE_DIR}" CONFIGURE_DEPENDS tests/support/*.hpp)
endif()
if(NOT PARTITA_HAVE_UCX)
  list(FILTER internal_headers EXCLUDE REGEX "^src/link/ucx/")
endif()
if(NOT PARTITA_CUDA)
  list(FILTER internal_headers EXCLUDE REGEX "^src/memory/cuda/")
endif()

set(units "")
foreach(header IN LISTS public_headers)
  partita_header_units(units "${header}" c)
  partita_header_units(units "${header}" cpp)
endforeach()
foreach(header IN LISTS internal_headers program_headers test_headers)
  partita_header_units(units "${header}" cpp)
endforeach()

add_library(partita_headers OBJECT EXCLUDE_FROM_ALL ${units})
target_include_directories(partita_headers PRIVATE "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src"
                           "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/tests")
target_link_libraries(partita_headers PRIVATE MPI::MPI_C partita_fmt Threads::Threads)
foreach(library partita_ucx CLI11::CLI11 nlohmann_json::nlohmann_json PNG::PNG OpenMP::OpenMP_CXX GTest::gtest
                CUDA::cudart_static)
  if(TARGET ${library})
    target_link_libraries(partita_headers PRIVATE ${library})
  endif()
endforeach()
target_compile_options(partita_headers PRIVATE -O0 -g0)
