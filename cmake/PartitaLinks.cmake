# The links, from the one list of them, src/link/links.inc. Sets
#   PARTITA_LINKS         their names
#   PARTITA_BUILT_LINKS   those that this build has in truth
#   PARTITA_LINK_SOURCES  what to compile
# A link's sources are all of its folder. One that has a file absent.cpp needs something: without PARTITA_HAVE_NAME that
# file is compiled alone.

set(list "${PROJECT_SOURCE_DIR}/src/link/links.inc")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${list}")
file(STRINGS "${list}" PARTITA_LINKS REGEX "^PARTITA_LINK\\([a-z0-9_]+\\)$")
list(TRANSFORM PARTITA_LINKS REPLACE "^PARTITA_LINK\\((.*)\\)$" "\\1")

set(PARTITA_BUILT_LINKS "")
set(PARTITA_LINK_SOURCES "")
foreach(link IN LISTS PARTITA_LINKS)
  set(folder "${PROJECT_SOURCE_DIR}/src/link/${link}")
  file(GLOB sources CONFIGURE_DEPENDS "${folder}/*.cpp")
  string(TOUPPER "${link}" upper)
  if(EXISTS "${folder}/absent.cpp" AND NOT PARTITA_HAVE_${upper})
    set(sources "${folder}/absent.cpp")
  else()
    list(REMOVE_ITEM sources "${folder}/absent.cpp")
    list(APPEND PARTITA_BUILT_LINKS ${link})
  endif()
  list(APPEND PARTITA_LINK_SOURCES ${sources})
endforeach()
