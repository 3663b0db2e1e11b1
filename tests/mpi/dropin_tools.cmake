# Profiling libraries in front of the drop-in, behind it, and at both sides, by link order and by preloading.
check_symbol_exists(PMPIX_Request_is_complete mpi.h PARTITA_MPI_TELLS_REQUEST_IS_COMPLETE)

foreach(tool a b)
  add_library(dropin_tool_${tool} SHARED dropin_tool.c)
  target_compile_definitions(dropin_tool_${tool} PRIVATE TOOL_NAME="${tool}")
  target_link_libraries(dropin_tool_${tool} PRIVATE MPI::MPI_C)
  set_target_properties(dropin_tool_${tool} PROPERTIES C_VISIBILITY_PRESET default)
endforeach()

# partita_tool_program(NAME libraries in their order)
function(partita_tool_program name)
  add_executable(${name} dropin_completions.c)
  target_link_options(${name} PRIVATE LINKER:--no-as-needed)
  target_link_libraries(${name} PRIVATE ${ARGN})
  if(PARTITA_MPI_TELLS_REQUEST_IS_COMPLETE)
    target_compile_definitions(${name} PRIVATE PARTITEST_REQUEST_IS_COMPLETE)
  endif()
endfunction()
partita_tool_program(dropin_completions partita_mpi)
partita_tool_program(dropin_completions_in_front dropin_tool_a partita_mpi)
partita_tool_program(dropin_completions_behind partita_mpi dropin_tool_b)

# partita_tool_entry(NAME PROGRAM FRONT PRELOADED): FRONT names the tools that must see the calls.
function(partita_tool_entry name program front preloaded)
  partita_test_command(command 2 ${CMAKE_COMMAND} -E env "LD_PRELOAD=${preloaded}" $<TARGET_FILE:${program}>)
  partita_add_test_entry(dropin_tools.${name} PROCESSORS 2 LABELS mpi ENV PARTITEST_TOOL_IN_FRONT=${front} COMMAND ${command})
endfunction()
partita_tool_entry(none dropin_completions "" "")
partita_tool_entry(in_front.linked dropin_completions_in_front a "")
partita_tool_entry(behind.linked dropin_completions_behind "" "")
if(NOT PARTITA_SANITIZE)  # whose libraries must come first
  partita_tool_entry(in_front.preloaded dropin_completions a $<TARGET_FILE:dropin_tool_a>)
  partita_tool_entry(both dropin_completions_behind a $<TARGET_FILE:dropin_tool_a>)
  partita_tool_entry(two_in_front dropin_completions_in_front b $<TARGET_FILE:dropin_tool_b>)
  if(PARTITA_MPI_IS_PARTITIONED)
    partita_tool_program(dropin_completions_of_the_mpi MPI::MPI_C)
    partita_tool_entry(in_front.all_preloaded dropin_completions_of_the_mpi a
                       "$<TARGET_FILE:dropin_tool_a>:$<TARGET_FILE:partita_mpi>")
    partita_tool_entry(behind.all_preloaded dropin_completions_of_the_mpi ""
                       "$<TARGET_FILE:partita_mpi>:$<TARGET_FILE:dropin_tool_b>")
  endif()
endif()

# Fortran's wrappers call the profiling names. Where the MPI's Fortran compiler wrapper, beside its launcher, knows mpi_f08;
# Fortran is no language of this project for one program's sake.
string(REGEX REPLACE "mpi(run|exec)" "mpifort" mpifort "${PARTITA_MPIEXEC}")
set(fortran_works 1)
if(EXISTS "${mpifort}" AND NOT PARTITA_SANITIZE)
  execute_process(COMMAND "${mpifort}" -fsyntax-only "${CMAKE_CURRENT_SOURCE_DIR}/dropin_fortran.f90"
                  WORKING_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}" RESULT_VARIABLE fortran_works OUTPUT_QUIET ERROR_QUIET)
endif()
if(fortran_works EQUAL 0)
  add_library(dropin_fortran_part OBJECT dropin_fortran_part.c)
  target_link_libraries(dropin_fortran_part PRIVATE partita_mpi)
  set(program "${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/dropin_fortran")
  add_custom_command(OUTPUT "${program}"
    COMMAND "${mpifort}" "${CMAKE_CURRENT_SOURCE_DIR}/dropin_fortran.f90" $<TARGET_OBJECTS:dropin_fortran_part>
            $<TARGET_FILE:partita_mpi> -Wl,-rpath,$<TARGET_FILE_DIR:partita_mpi>
            -Wl,-rpath-link,$<TARGET_FILE_DIR:partita> -o "${program}"
    DEPENDS dropin_fortran.f90 dropin_fortran_part partita_mpi
    COMMAND_EXPAND_LISTS VERBATIM)
  add_custom_target(dropin_fortran ALL DEPENDS "${program}")
  partita_test_command(command 2 "${program}")
  partita_add_test_entry(dropin_fortran PROCESSORS 2 LABELS mpi COMMAND ${command})
elseif(PARTITA_MPI_VENDOR STREQUAL "openmpi" AND NOT PARTITA_SANITIZE)
  set(reason "skipped: no module mpi_f08 behind ${mpifort}, or no Fortran compiler (gfortran)")
  partita_add_test_entry(dropin_fortran LABELS mpi COMMAND sh -c "echo '${reason}'; exit 77")
else()
  message(STATUS "No test of Fortran: the MPI's compiler wrapper has no mpi_f08")
endif()
