# The other libraries; docs/design/dependencies.md says what each is for. All come from the system's packages.

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(fmt 9 REQUIRED)

# fmt without its shared library, and without compiling its engine in every file that formats a sentence, which is what
# fmt::fmt-header-only does (three times the build time): one file holds the engine.
add_library(partita_fmt STATIC "${PROJECT_SOURCE_DIR}/src/core/fmt_engine.cpp")
target_include_directories(partita_fmt SYSTEM PUBLIC
  $<TARGET_PROPERTY:fmt::fmt-header-only,INTERFACE_INCLUDE_DIRECTORIES>)

if(PARTITA_BUILD_PROGRAM)
  find_package(CLI11 2 REQUIRED)           # CLI11::CLI11
  find_package(nlohmann_json 3 REQUIRED)   # nlohmann_json::nlohmann_json
  find_package(PNG REQUIRED)               # PNG::PNG
  find_package(OpenMP REQUIRED)            # OpenMP::OpenMP_CXX
  include(PartitaFftw)                     # PkgConfig::fftw3, or nothing
endif()
if(PARTITA_BUILD_TESTS)
  find_package(GTest REQUIRED)             # GTest::gtest
  include(PartitaPytest)                   # PARTITA_PYTEST
endif()
