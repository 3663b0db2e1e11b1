# The suites of host memory with GPU memory on either side or both: hosts mark and await it over each link.

if(NOT TARGET partita_mpi)
  return()
endif()

partita_test(gpu_datatypes RANKS 2 LINKS auto ${PARTITA_OTHER_LINKS} GPUS 1 LIBRARIES partita_mpi ENV PARTITA_TIMEOUT=20)

set(in_gpu_memory PARTITEST_GPUS=1 PARTITEST_MEMORY=gpu PARTITA_TIMEOUT=20)
foreach(suite property matching completion early threads soak)
  set(less)
  if(suite STREQUAL "property")
    set(less PARTITEST_ITERATIONS=25)
  elseif(suite STREQUAL "matching")
    set(less PARTITEST_ROUNDS=200)
  elseif(suite STREQUAL "soak")
    set(less PARTITEST_EPOCHS=6000)
  endif()
  partita_test_variant(${suite} gpu RANKS 2 LINKS auto ${PARTITA_LINKS} LABELS gpu ENV ${in_gpu_memory} ${less})
  partita_test_program(${suite} program chosen_files)
  list(APPEND programs ${program})
endforeach()
partita_test_variant(property gpu RANKS 1 4 LABELS gpu ENV ${in_gpu_memory} PARTITEST_ITERATIONS=10)
# Gathered by streams or by the engine; scattered by hosts, by way of their memory.
partita_test_variant(halo gpu RANKS 1 2 LINKS auto ${PARTITA_OTHER_LINKS} LABELS gpu TIMEOUT 240 ENV ${in_gpu_memory})
partita_test_variant(halo gpu RANKS 4 LABELS gpu TIMEOUT 240 ENV ${in_gpu_memory} GTEST_FILTER=-*three_dimensions*)
partita_test_program(halo program chosen_files)
list(APPEND programs ${program})
# Link mpi moves no GPU memory itself.
set(links ${PARTITA_LINKS})
list(REMOVE_ITEM links mpi)
partita_test_variant(link_contract gpu RANKS 2 LINKS ${links} LABELS contract gpu ENV ${in_gpu_memory})

# Collectives have a suite of their own: the one of host memory has datatypes with gaps and operations of the program's.
partita_test(gpu_collectives RANKS 1 2 4 LINKS auto ${PARTITA_LINKS} GPUS 1 DEFINITIONS PARTITEST_C_ONLY TIMEOUT 120
             LIBRARIES partita ENV PARTITA_TIMEOUT=20)

# What these entries run is built with the GPU tests.
partita_test_program(link_contract program chosen_files)
add_custom_target(gpu_suites ALL DEPENDS ${programs} ${program})
