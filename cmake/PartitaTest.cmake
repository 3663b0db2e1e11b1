# partita_test(): a test is a file and one line. docs/design/testing.md tells the rules of the suites.
#
#   partita_test(NAME
#     [RANKS 1 2 4]         rank counts, one ctest entry each (see PARTITA_TEST_FEW_RANKS); without it a plain process, no MPI
#                           started
#     [GPUS n]              GPUs that the machine must have; skipped with the reason where it has fewer
#     [DISTINCT_GPUS]       it is about different GPUs: ranks must not share one (PARTITEST_SHARE_GPU)
#     [LINKS auto mpi ...]  one entry per link (PARTITA_LINK); auto alone where not given
#     [LEVELS single ...]   one entry per MPI thread level; multiple alone where not given
#     [SOURCE a.cpp]        instead of NAME_test.cpp
#     [SOURCES b.cpp ...]   beside it
#     [TOGETHER group]      where PARTITA_TEST_GROUPS is on, part of one program with the other tests of that group
#     [DEFINITIONS D ...]   for the compiler
#     [LIBRARIES t ...]     what to link
#     [LABELS l ...]        for ctest -L
#     [TIMEOUT s]           for one entry; 60 where not given
#     [COMPUTES]            it mostly computes: optimised, as no other test is
#     [WAITS]               its ranks mostly wait for a time limit: whatever their number they count as one processor
#     [ENV A=1 ...])
#
# A test ends with 0 (passed), 77 (every case in it skipped; the reason stands in its output as a line
# "skipped: ...") or anything else (failed).

option(PARTITA_TEST_GROUPS "Compile and link tests of a group together: half the time, but a change compiles many of them" OFF)
set(few_ranks OFF)
if(PARTITA_SANITIZE)
  set(few_ranks ON)
endif()
option(PARTITA_TEST_FEW_RANKS "Run tests that need no GPU on one number of ranks each: three where they have that, else two, or four of collectives" ${few_ranks})
set(PARTITA_TEST_TIME_FACTOR 1 CACHE STRING "Multiplies the time limits of all tests (slow machines, valgrind)")

# What a file of pytest is given to start jobs: the launcher.
list(JOIN PARTITA_MPIEXEC_FLAGS " " _flags)
set(PARTITA_PYTEST_LAUNCHER "mpiexec=${PARTITA_MPIEXEC}" "mpiexec_flags=${_flags}")

# What every test process finds in its environment, beside what its own line adds.
set(PARTITA_TEST_ENVIRONMENT ${PARTITA_MPI_ENVIRONMENT})
if(PARTITA_MPI_VENDOR STREQUAL "openmpi")
  # Four ranks on two cores must yield; containers refuse process_vm_readv.
  list(APPEND PARTITA_TEST_ENVIRONMENT OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl_base_warn_component_unused=0
       OMPI_MCA_btl_vader_single_copy_mechanism=none PMIX_MCA_gds=hash)
endif()
if(PARTITA_SANITIZE)
  set(_support "${PROJECT_SOURCE_DIR}/tests/support")
  list(APPEND PARTITA_TEST_ENVIRONMENT
       # With less history the stack of an earlier access may be gone, and the suppressions that name it are in vain.
       "TSAN_OPTIONS=suppressions=${_support}/tsan.supp second_deadlock_stack=1 history_size=7"
       "LSAN_OPTIONS=suppressions=${_support}/lsan.supp print_suppressions=0"
       "ASAN_OPTIONS=allocator_may_return_null=1"
       "UBSAN_OPTIONS=print_stacktrace=1"
       UCX_MEM_MMAP_HOOK_MODE=none)
endif()

# partita_computes(TARGET): a test, or a library of tests, that takes longer to run than to compile. The precompiled header
# holds for the flags of the others.
function(partita_computes target)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-O1>)
  set_target_properties(${target} PROPERTIES DISABLE_PRECOMPILE_HEADERS ON)
endfunction()

# partita_test_command(OUT RANKS command...): the command line that starts `command` on RANKS ranks.
function(partita_test_command out ranks)
  set(${out} "${PARTITA_MPIEXEC}" -n ${ranks} ${PARTITA_MPIEXEC_FLAGS} ${ARGN} PARENT_SCOPE)
endfunction()

# partita_add_test_entry(NAME PROCESSORS n COST c TIMEOUT s LABELS ... ENV ... COMMAND ...): one ctest entry with the rules above.
function(partita_add_test_entry name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "PROCESSORS;COST;TIMEOUT" "LABELS;ENV;COMMAND")
  # UCX learns of unmapped memory by patching mmap and its like, which takes 0.4 s of every start (UCX 1.22). Entries that
  # have nothing to do with link ucx do without. (Its other way, the libraries' tables of calls, frees with one allocator
  # what came from another.)
  if(NOT PARTITA_SANITIZE AND NOT name MATCHES "ucx|^(hosts|fault)" AND NOT arg_ENV MATCHES "UCX_" AND NOT "gpu" IN_LIST arg_LABELS)
    list(APPEND arg_ENV UCX_MEM_MMAP_HOOK_MODE=none)
  endif()
  if(NOT arg_PROCESSORS)
    set(arg_PROCESSORS 1)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 60)
  endif()
  # By this label ./dev gpu-test knows whose ranks must share a GPU where there are fewer than ranks. compute-sanitizer does
  # not run under the service that lets them.
  if("gpu" IN_LIST arg_LABELS AND NOT "sanitizer" IN_LIST arg_LABELS)
    list(APPEND arg_LABELS ranks${arg_PROCESSORS})
  endif()
  math(EXPR limit "${arg_TIMEOUT} * ${PARTITA_TEST_TIME_FACTOR}")
  if(PARTITA_SANITIZE)
    math(EXPR limit "${limit} * 4")
  endif()
  # CTest begins with those of the highest cost. Beside jobs of three or four ranks there is room for those of one.
  set(cost ${arg_PROCESSORS})
  if(arg_COST)
    set(cost ${arg_COST})
  endif()
  add_test(NAME ${name} COMMAND ${arg_COMMAND})
  set_tests_properties(${name} PROPERTIES
    SKIP_RETURN_CODE 77
    TIMEOUT ${limit}
    PROCESSORS ${arg_PROCESSORS}
    COST ${cost}
    LABELS "${arg_LABELS}"
    ENVIRONMENT "${PARTITA_TEST_ENVIRONMENT};PARTITEST_LIMIT=${limit};${arg_ENV}")
  # Kernels that wait for one another on a GPU that another test occupies may wait for ever.
  if("gpu" IN_LIST arg_LABELS)
    set_tests_properties(${name} PROPERTIES RESOURCE_LOCK gpus)
  endif()
endfunction()

# partita_add_pytest(NAME FILE [CASES expression] [GIVEN name=value ...] and what partita_add_test_entry takes but COMMAND): one
# ctest entry for the cases of FILE, a file of pytest in this folder, whose names `expression` takes (pytest -k); all without it.
# They find the values of GIVEN by the fixture `given` (tests/support/given.py).
function(partita_add_pytest name file)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "PROCESSORS;TIMEOUT;CASES" "GIVEN;LABELS;ENV")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "partita_add_pytest(${name}): unknown arguments: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  set(limits "")
  foreach(limit PROCESSORS TIMEOUT)
    if(arg_${limit})
      list(APPEND limits ${limit} ${arg_${limit}})
    endif()
  endforeach()
  set(command ${PARTITA_PYTEST} "${CMAKE_CURRENT_SOURCE_DIR}/${file}")
  if(arg_CASES)
    list(APPEND command -k "${arg_CASES}")
  endif()
  foreach(value IN LISTS arg_GIVEN)
    list(APPEND command --given "${value}")
  endforeach()
  partita_add_test_entry(${name} ${limits} LABELS ${arg_LABELS} ENV ${arg_ENV} COMMAND ${command})
endfunction()

# partita_test_program(NAME PROGRAM ENV): the target that has the test NAME, and what its entries find in their environment:
# of a group the files of which each runs the cases (tests/support/chosen_files.hpp).
function(partita_test_program name program env)
  get_property(target GLOBAL PROPERTY PARTITA_PROGRAM_OF_${name})
  get_property(files GLOBAL PROPERTY PARTITA_FILES_OF_${name})
  set(${program} ${target} PARENT_SCOPE)
  set(${env} ${files} PARENT_SCOPE)
endfunction()

# partita_ranks_to_run(LIST NAME LABEL...): leaves of several rank counts the one on which the test runs here: three, where the
# neighbours of a rank are two others, else two, or four of collectives, whose algorithms have another round there. What is
# alike on it and on more or fewer runs on all of them elsewhere.
function(partita_ranks_to_run list name)
  set(counts ${${list}})
  list(LENGTH counts length)
  if(PARTITA_TEST_FEW_RANKS AND length GREATER 1 AND NOT "gpu" IN_LIST ARGN)
    set(few ${counts})
    if(name MATCHES "collective")
      list(FILTER few INCLUDE REGEX "^[234]$")
    else()
      list(FILTER few INCLUDE REGEX "^[23]$")
    endif()
    if(3 IN_LIST few)
      set(counts 3)
    elseif(few)
      list(GET few -1 counts)
    else()
      list(REMOVE_ITEM counts 1)
    endif()
  endif()
  set(${list} ${counts} PARENT_SCOPE)
endfunction()

# partita_test_variant(NAME VARIANT RANKS ... [LINKS ...] [LEVELS ...] [LABELS ...] [TIMEOUT s] [WAITS] [ENV ...]): more
# entries of the test NAME, called NAME.VARIANT.ranksN..., with another environment.
function(partita_test_variant name variant)
  cmake_parse_arguments(PARSE_ARGV 2 arg "WAITS" "TIMEOUT" "RANKS;LINKS;LEVELS;LABELS;ENV")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_RANKS)
    message(FATAL_ERROR "partita_test_variant(${name} ${variant}): RANKS is missing, or unknown arguments: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 60)
  endif()
  set(links "-")
  if(arg_LINKS)
    set(links ${arg_LINKS})
  endif()
  set(levels "-")
  if(arg_LEVELS)
    set(levels ${arg_LEVELS})
  endif()
  partita_test_program(${name} program chosen_files)
  get_property(is_left_out GLOBAL PROPERTY PARTITA_LEFT_OUT_${name})
  if(is_left_out)
    return()
  endif()
  partita_ranks_to_run(arg_RANKS ${name} ${arg_LABELS})
  foreach(ranks IN LISTS arg_RANKS)
    partita_test_command(command ${ranks} $<TARGET_FILE:${program}>)
    set(processors ${ranks})
    set(cost ${ranks})
    if(arg_WAITS)
      set(processors 1)
      set(cost 2.5)  # beside the large ones, in front of the small
    endif()
    foreach(link IN LISTS links)
      foreach(level IN LISTS levels)
        set(entry ${name})
        set(env ${chosen_files} ${arg_ENV})
        if(variant)
          string(APPEND entry .${variant})
        endif()
        string(APPEND entry .ranks${ranks})
        if(NOT link STREQUAL "-")
          string(APPEND entry .${link})
          list(APPEND env PARTITA_LINK=${link})
        endif()
        if(NOT level STREQUAL "-")
          string(APPEND entry .${level})
          list(APPEND env PARTITEST_THREAD_LEVEL=${level})
        endif()
        partita_add_test_entry(${entry} PROCESSORS ${processors} COST ${cost} TIMEOUT ${arg_TIMEOUT} LABELS mpi ${arg_LABELS}
                               ENV ${env} COMMAND ${command})
      endforeach()
    endforeach()
  endforeach()
endfunction()

# partita_test_executable(TARGET): a program of tests, still without sources.
function(partita_test_executable target)
  add_executable(${target})
  target_compile_features(${target} PRIVATE cxx_std_20)
  # The watchdog prints the names of the functions in which a rank hangs.
  set_target_properties(${target} PROPERTIES ENABLE_EXPORTS ON CXX_VISIBILITY_PRESET default)
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/tests" "${PROJECT_SOURCE_DIR}/src"
                             "${PROJECT_SOURCE_DIR}/include")
  target_precompile_headers(${target} REUSE_FROM partita_test_headers)
endfunction()

function(partita_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "DISTINCT_GPUS;WAITS;COMPUTES" "GPUS;TIMEOUT;SOURCE;TOGETHER" "RANKS;LINKS;LEVELS;SOURCES;DEFINITIONS;LIBRARIES;LABELS;ENV")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "partita_test(${name}): unknown arguments: ${arg_UNPARSED_ARGUMENTS}")
  endif()

  if(arg_TOGETHER MATCHES "^fake_gpu" AND NOT PARTITA_TEST_WITHOUT_MPI)
    set_property(GLOBAL PROPERTY PARTITA_LEFT_OUT_${name} ON)
    return()
  endif()
  set(target ${name}_test)
  if(NOT arg_SOURCE)
    set(arg_SOURCE ${name}_test.cpp)
  endif()
  set(chosen_files "")
  if(PARTITA_TEST_GROUPS AND arg_TOGETHER)
    set(target ${arg_TOGETHER}_tests)
    set(files ${arg_SOURCE} ${arg_SOURCES})
    list(TRANSFORM files REPLACE ".*/" "")
    list(JOIN files "," files)
    set(chosen_files PARTITEST_FILES=${files})
  endif()
  set_property(GLOBAL PROPERTY PARTITA_PROGRAM_OF_${name} ${target})
  set_property(GLOBAL PROPERTY PARTITA_FILES_OF_${name} "${chosen_files}")
  if(NOT TARGET ${target})
    partita_test_executable(${target})
    if(chosen_files)
      partita_in_groups(${target})
    endif()
  endif()
  target_sources(${target} PRIVATE ${arg_SOURCE} ${arg_SOURCES})
  target_compile_definitions(${target} PRIVATE ${arg_DEFINITIONS})
  target_link_libraries(${target} PRIVATE ${arg_LIBRARIES})
  if(arg_COMPUTES)
    partita_computes(${target})
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 60)
  endif()
  if(arg_GPUS)
    list(APPEND arg_LABELS gpu)
    list(APPEND arg_ENV PARTITEST_GPUS=${arg_GPUS})
    if(arg_DISTINCT_GPUS)
      list(APPEND arg_ENV PARTITEST_DISTINCT_GPUS=1)
    endif()
  endif()

  if(NOT arg_RANKS)
    target_link_libraries(${target} PRIVATE partita_unit_main)
    partita_add_test_entry(${name} TIMEOUT "${arg_TIMEOUT}" LABELS unit ${arg_LABELS} ENV ${chosen_files} ${arg_ENV}
                           COMMAND ${target})
    return()
  endif()

  target_link_libraries(${target} PRIVATE partita_test_support)
  set(waits "")
  if(arg_WAITS)
    set(waits WAITS)
  endif()
  partita_test_variant(${name} "" ${waits} RANKS ${arg_RANKS} LINKS ${arg_LINKS} LEVELS ${arg_LEVELS} LABELS ${arg_LABELS}
                       TIMEOUT ${arg_TIMEOUT} ENV ${arg_ENV})
endfunction()
