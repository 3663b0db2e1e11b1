# NVSHMEM, a peer of the GPU benchmarks: PARTITA_NVSHMEM names the folder with its include/ and lib/ (that of the wheel
# nvidia-nvshmem-cu13, for instance). Empty: the benchmarks have no NVSHMEM.

set(PARTITA_NVSHMEM "" CACHE PATH "Folder of NVSHMEM, to measure beside it; empty: without")
set(PARTITA_HAVE_NVSHMEM FALSE)
if(PARTITA_CUDA AND PARTITA_NVSHMEM)
  find_path(PARTITA_NVSHMEM_INCLUDE nvshmem.h PATHS "${PARTITA_NVSHMEM}/include" NO_DEFAULT_PATH)
  find_file(PARTITA_NVSHMEM_DEVICE libnvshmem_device.a PATHS "${PARTITA_NVSHMEM}/lib" NO_DEFAULT_PATH)
  find_file(PARTITA_NVSHMEM_HOST NAMES libnvshmem_host.so libnvshmem_host.so.3 PATHS "${PARTITA_NVSHMEM}/lib" NO_DEFAULT_PATH)
  if(NOT (PARTITA_NVSHMEM_INCLUDE AND PARTITA_NVSHMEM_DEVICE AND PARTITA_NVSHMEM_HOST))
    message(FATAL_ERROR "PARTITA_NVSHMEM is ${PARTITA_NVSHMEM}; expected there are include/nvshmem.h, "
                        "lib/libnvshmem_device.a and lib/libnvshmem_host.so")
  endif()
  set(PARTITA_HAVE_NVSHMEM TRUE)
  message(STATUS "NVSHMEM: ${PARTITA_NVSHMEM}")
endif()
