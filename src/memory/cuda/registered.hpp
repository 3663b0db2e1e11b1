// Segments of host memory that GPUs may address.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>

#include "memory/cuda/context.hpp"
#include "memory/host.hpp"

namespace partita::memory::cuda {

/// A segment stays registered until HostMemory unmaps it. Any thread may call.
class RegisteredSegments {
 public:
  RegisteredSegments(HostMemory& host_memory, Contexts& contexts);
  ~RegisteredSegments();
  RegisteredSegments(const RegisteredSegments&) = delete;
  RegisteredSegments& operator=(const RegisteredSegments&) = delete;

  /// See DeviceMemory.
  std::byte* device_pointer(int device, std::byte* host);

 private:
  struct Segment {
    std::size_t size_bytes = 0;
    CUcontext context = nullptr;
    bool ours = true;                   ///< not registered by the program
    std::map<int, std::byte*> address;  ///< of the base, by GPU
  };
  Segment& segment_at(std::byte* base, std::size_t size_bytes, CUcontext context);
  void forget(std::byte* base);

  HostMemory& host_memory_;
  Contexts& contexts_;
  std::mutex mutex_;  ///< never held while HostMemory is called, which calls forget() under its own
  std::map<std::byte*, Segment> segments_;
};

}  // namespace partita::memory::cuda
