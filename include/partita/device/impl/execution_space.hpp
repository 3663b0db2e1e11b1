// Where a function runs: the macros of the device API. Compiles by nvcc, NVRTC and any C++20 compiler.
#pragma once

/// Before a function that uses the device API: for GPU threads under nvcc and NVRTC, for CPU threads elsewhere.
#if defined(__CUDACC__)
#define MPIX_Device __device__
#else
#define MPIX_Device
#endif

/// Before a function for the host and for kernels.
#if defined(__CUDACC__)
#define PARTITA_HOST_DEVICE __host__ __device__
#else
#define PARTITA_HOST_DEVICE
#endif

/// Before a body of the device API that takes a request, or lies on the way of a partition.
#if defined(__CUDACC__)
#define PARTITA_DEVICE_INLINE __device__ __forceinline__
#else
#define PARTITA_DEVICE_INLINE inline
#endif

/// Before a body that lies off that way: called, so that its registers are not its callers'.
#if defined(__CUDACC__)
#define PARTITA_DEVICE_OUT_OF_LINE __device__ __noinline__ inline
#else
#define PARTITA_DEVICE_OUT_OF_LINE inline
#endif
