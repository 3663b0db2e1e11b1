# The revision of the sources, as partita::apps::revision() tells it: an abbreviated commit, with "-dirty" where tracked files had
# changes, or "unknown" where the sources are no git checkout. It is looked up in every build, since a commit configures nothing
# anew, and one small file holds it, which is written only when it differs: a commit compiles that file and links, no more.
#
#   partita_add_revision(TARGET)    compiles it into TARGET

if(CMAKE_SCRIPT_MODE_FILE)  # in a build: cmake -D SOURCE=folder -D OUTPUT=file -D GIT=program -D REVISION=text -P this
  cmake_minimum_required(VERSION 3.25)
  if(NOT REVISION)
    set(REVISION unknown)
    # Sources that lie unpacked inside somebody else's checkout are not of its revision.
    execute_process(COMMAND "${GIT}" -C "${SOURCE}" rev-parse --show-cdup
                    OUTPUT_VARIABLE way_to_top RESULT_VARIABLE failed ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(NOT failed AND way_to_top STREQUAL "")
      execute_process(COMMAND "${GIT}" --no-optional-locks -C "${SOURCE}" describe --always --dirty --exclude=* --abbrev=12
                      OUTPUT_VARIABLE described RESULT_VARIABLE failed ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
      if(NOT failed)
        set(REVISION "${described}")
      endif()
    endif()
  endif()
  file(CONFIGURE OUTPUT "${OUTPUT}" @ONLY CONTENT [[
// Written by cmake/PartitaRevision.cmake.
#include "apps/support/revision.hpp"

std::string_view partita::apps::revision() {
  return "@REVISION@";
}
]])
  return()
endif()

set(PARTITA_REVISION "" CACHE STRING "The revision that result files name; empty: that of the git checkout")
if(NOT PARTITA_REVISION MATCHES "^[-A-Za-z0-9._+/]*$")
  message(FATAL_ERROR "PARTITA_REVISION is '${PARTITA_REVISION}'; it takes letters, digits and any of . _ + / -")
endif()
find_package(Git QUIET)

function(partita_add_revision target)
  set(source "${CMAKE_CURRENT_BINARY_DIR}/revision.cpp")
  add_custom_target(partita_revision BYPRODUCTS "${source}" VERBATIM COMMENT "Looking up the revision of the sources"
    COMMAND "${CMAKE_COMMAND}" -D "SOURCE=${PROJECT_SOURCE_DIR}" -D "OUTPUT=${source}" -D "GIT=${GIT_EXECUTABLE}"
            -D "REVISION=${PARTITA_REVISION}" -P "${PROJECT_SOURCE_DIR}/cmake/PartitaRevision.cmake")
  add_dependencies(${target} partita_revision)
  target_sources(${target} PRIVATE "${source}")
endfunction()
