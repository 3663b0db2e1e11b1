# The CUDA language for the folders that hold .cu files; they ask `if(PARTITA_CUDA)`. No GPU is needed to build.

if(PARTITA_CUDA)
  if(CMAKE_VERSION VERSION_LESS 3.28)
    message(FATAL_ERROR "PARTITA_CUDA is ON, but this is CMake ${CMAKE_VERSION}: the GPU parts need 3.28 or later, which knows "
                        "C++20 in CUDA and where CUDA 13 lies. ./dev brings one (.venv/bin/cmake), pip install cmake another")
  endif()
  if(NOT CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
    set(CMAKE_CUDA_ARCHITECTURES 90)
  endif()
  enable_language(CUDA)
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  set(CMAKE_CUDA_EXTENSIONS OFF)
  find_package(CUDAToolkit 12.4 REQUIRED)

  # For kernels of which it only counts that they compile. CUDA 12.4 has no such option.
  set(PARTITA_QUICK_KERNEL_OPTIONS "")
  if(PARTITA_QUICK_KERNELS)
    include(CheckCompilerFlag)
    check_compiler_flag(CUDA -Ofc=max PARTITA_NVCC_COMPILES_QUICKLY)
    if(PARTITA_NVCC_COMPILES_QUICKLY)
      set(PARTITA_QUICK_KERNEL_OPTIONS $<$<COMPILE_LANGUAGE:CUDA>:-Ofc=max>)
    else()
      message(STATUS "PARTITA_QUICK_KERNELS: this nvcc has no -Ofc, kernels compile as slowly as ever")
    endif()
  endif()

  # For kernels that are measured: all that they need is in registers, or the compiler says what is not. Their launch
  # bounds are made for sm_90 and CUDA 13; elsewhere, and before, ptxas may find that kernels need more than they leave.
  set(PARTITA_SPILL_OPTIONS $<$<COMPILE_LANGUAGE:CUDA>:-Xptxas=--warn-on-spills>)
  if(PARTITA_WARNINGS_AS_ERRORS AND CMAKE_CUDA_ARCHITECTURES STREQUAL "90"
     AND CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
    list(APPEND PARTITA_SPILL_OPTIONS $<$<COMPILE_LANGUAGE:CUDA>:-Xptxas=--warning-as-error>)
  endif()

  # What the library's own kernels are compiled for: each GPU from sm_75 on that this nvcc knows, and, for those to come,
  # the newest as PTX. Where it only counts that they compile, the oldest, the GPUs that all else is compiled for, and the
  # PTX: the widest choice in a quarter of the time.
  execute_process(COMMAND "${CMAKE_CUDA_COMPILER}" --list-gpu-code OUTPUT_VARIABLE known_gpus COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[0-9]+" known_gpus "${known_gpus}")
  list(FILTER known_gpus EXCLUDE REGEX "^([0-9]|[0-6][0-9]|7[0-4])$")
  list(SORT known_gpus COMPARE NATURAL)
  list(GET known_gpus -1 newest_gpu)
  if(PARTITA_QUICK_KERNELS)
    list(GET known_gpus 0 oldest_gpu)
    set(given_gpus ${CMAKE_CUDA_ARCHITECTURES})
    list(TRANSFORM given_gpus REPLACE "-(real|virtual)$" "")
    set(words ${given_gpus})
    list(FILTER words EXCLUDE REGEX "^[0-9]+[a-z]?$")  # native, all, …
    if(NOT words)
      set(known_gpus ${oldest_gpu} ${given_gpus})
      list(REMOVE_DUPLICATES known_gpus)
    endif()
  endif()
  list(TRANSFORM known_gpus APPEND "-real" OUTPUT_VARIABLE PARTITA_KERNEL_ARCHITECTURES)
  list(APPEND PARTITA_KERNEL_ARCHITECTURES "${newest_gpu}-virtual")
endif()
