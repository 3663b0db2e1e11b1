# The other libraries; docs/design/dependencies.md says what each is for. All come from the system's packages.

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(fmt 9 REQUIRED)

# fmt without its shared library, and without compiling its engine in every file that formats a sentence, which is what
# its own header-only target does (three times the build time): one file holds the engine.
add_library(partita_fmt STATIC "${PROJECT_SOURCE_DIR}/src/core/fmt_engine.cpp")
set_property(TARGET fmt::fmt-header-only PROPERTY INTERFACE_COMPILE_DEFINITIONS "")
target_link_libraries(partita_fmt PRIVATE fmt::fmt-header-only)
target_link_libraries(fmt::fmt-header-only INTERFACE partita_fmt)

if(PARTITA_BUILD_PROGRAM)
  find_package(CLI11 2 REQUIRED)           # CLI11::CLI11
  find_package(nlohmann_json 3 REQUIRED)   # nlohmann_json::nlohmann_json
  find_package(PNG REQUIRED)               # PNG::PNG
  find_package(OpenMP REQUIRED)            # OpenMP::OpenMP_CXX
endif()
if(PARTITA_BUILD_TESTS)
  find_package(GTest REQUIRED)             # GTest::gtest
endif()
