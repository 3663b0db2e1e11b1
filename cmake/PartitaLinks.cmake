# The links, from the one list of them, src/link/links.inc. Sets
#   PARTITA_LINKS            their names
#   PARTITA_OTHER_LINKS      those without the first, which is `auto` on a node
#   PARTITA_BUILT_LINKS      those that this build has in truth
#   PARTITA_LINK_SOURCES     what to compile
#   PARTITA_LINK_LIBRARIES   what to link with
# A link's sources are all of its folder. One that needs something has a file find.cmake there: it has the option
# PARTITA_NAME, sets PARTITA_HAVE_NAME to TRUE or FALSE and, where it is TRUE, may make the target partita_NAME, which is
# linked. Where it is FALSE absent.cpp.in stands in for the folder.

set(list "${PROJECT_SOURCE_DIR}/src/link/links.inc")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${list}")
file(STRINGS "${list}" PARTITA_LINKS REGEX "^PARTITA_LINK\\([a-z0-9_]+\\)$")
list(TRANSFORM PARTITA_LINKS REPLACE "^PARTITA_LINK\\((.*)\\)$" "\\1")
list(SUBLIST PARTITA_LINKS 1 -1 PARTITA_OTHER_LINKS)

set(PARTITA_BUILT_LINKS "")
set(PARTITA_LINK_SOURCES "")
set(PARTITA_LINK_LIBRARIES "")
foreach(link IN LISTS PARTITA_LINKS)
  set(folder "${PROJECT_SOURCE_DIR}/src/link/${link}")
  string(TOUPPER "${link}" upper)
  include("${folder}/find.cmake" OPTIONAL RESULT_VARIABLE needs)
  if(needs AND NOT PARTITA_HAVE_${upper})
    set(sources "${PROJECT_BINARY_DIR}/absent_${link}.cpp")
    configure_file("${PROJECT_SOURCE_DIR}/src/link/absent.cpp.in" "${sources}" @ONLY)
  else()
    file(GLOB sources CONFIGURE_DEPENDS "${folder}/*.cpp")
    list(APPEND PARTITA_BUILT_LINKS ${link})
    if(TARGET partita_${link})
      list(APPEND PARTITA_LINK_LIBRARIES partita_${link})
    endif()
  endif()
  list(APPEND PARTITA_LINK_SOURCES ${sources})
endforeach()
