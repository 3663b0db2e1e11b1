// The functions of the CUDA driver that Partita calls. Nothing links libcuda, so that programs start where there is
// none.
#pragma once

#include <cuda.h>

#include <string>

// The driver has several versions of some functions; cuda.h defines these names as the versions that it declares.
#define PARTITA_DRIVER_FUNCTIONS(X)              \
  X(cuGetErrorName)                              \
  X(cuGetErrorString)                            \
  X(cuInit)                                      \
  X(cuDriverGetVersion)                          \
  X(cuDeviceGetCount)                            \
  X(cuDeviceGet)                                 \
  X(cuDeviceGetName)                             \
  X(cuDeviceGetAttribute)                        \
  X(cuDeviceTotalMem)                            \
  X(cuDeviceCanAccessPeer)                       \
  X(cuDevicePrimaryCtxRetain)                    \
  X(cuDevicePrimaryCtxRelease)                   \
  X(cuCtxPushCurrent)                            \
  X(cuCtxPopCurrent)                             \
  X(cuCtxGetDevice)                              \
  X(cuCtxEnablePeerAccess)                       \
  X(cuCtxGetStreamPriorityRange)                 \
  X(cuThreadExchangeStreamCaptureMode)           \
  X(cuPointerGetAttribute)                       \
  X(cuPointerGetAttributes)                      \
  X(cuMemAlloc)                                  \
  X(cuMemFree)                                   \
  X(cuMemHostRegister)                           \
  X(cuMemHostUnregister)                         \
  X(cuMemHostGetDevicePointer)                   \
  X(cuIpcGetMemHandle)                           \
  X(cuIpcOpenMemHandle)                          \
  X(cuIpcCloseMemHandle)                         \
  X(cuMemGetAddressRange)                        \
  X(cuMemRetainAllocationHandle)                 \
  X(cuMemExportToShareableHandle)                \
  X(cuMemImportFromShareableHandle)              \
  X(cuMemRelease)                                \
  X(cuMemAddressReserve)                         \
  X(cuMemAddressFree)                            \
  X(cuMemMap)                                    \
  X(cuMemUnmap)                                  \
  X(cuMemSetAccess)                              \
  X(cuModuleLoadData)                            \
  X(cuModuleUnload)                              \
  X(cuModuleGetFunction)                         \
  X(cuFuncGetAttribute)                          \
  X(cuLaunchKernel)                              \
  X(cuLaunchCooperativeKernel)                   \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor) \
  X(cuEventCreate)                               \
  X(cuEventDestroy)                              \
  X(cuEventRecord)                               \
  X(cuEventQuery)                                \
  X(cuStreamCreateWithPriority)                  \
  X(cuStreamDestroy)                             \
  X(cuStreamQuery)                               \
  X(cuStreamGetCtx)                              \
  X(cuStreamIsCapturing)                         \
  X(cuStreamWaitEvent)                           \
  X(cuStreamBatchMemOp)                          \
  X(cuMemcpyAsync)                               \
  X(cuMemsetD8Async)

namespace partita::memory::cuda {

struct Driver {
// NOLINTNEXTLINE(bugprone-macro-parentheses): the declared name takes none.
#define PARTITA_DRIVER_MEMBER(name) decltype(&::name) name = nullptr;
  PARTITA_DRIVER_FUNCTIONS(PARTITA_DRIVER_MEMBER)
#undef PARTITA_DRIVER_MEMBER
};

/// Loads and initialises the driver at first. Throws Error where there is none or no GPU. Makes no context.
const Driver& driver();

/// CUDA's own text for a result, with its name.
std::string text_of(const Driver& driver, CUresult result);

/// Throws Error, which names `call`, unless `result` is success.
void check_driver(const Driver& driver, CUresult result, const char* call);

/// Whether somebody in this process has initialised CUDA; changes nothing, and costs little where nobody has.
bool cuda_in_use();

}  // namespace partita::memory::cuda
