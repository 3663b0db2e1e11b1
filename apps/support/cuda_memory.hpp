// Owners of what an app takes from CUDA. All of the current device; destructors ignore errors.
#pragma once

#include <cstddef>
#include <utility>

#include "apps/support/cuda_check.hpp"

namespace partita::apps {

/// `count` zeroed objects in GPU memory of cudaMalloc, which other processes of the node can map.
template <class T>
class DeviceMemory {
 public:
  explicit DeviceMemory(std::size_t count) : count_(count) {
    PARTITA_APPS_CUDA(cudaMalloc(reinterpret_cast<void**>(&data_), count * sizeof(T)));
    PARTITA_APPS_CUDA(cudaMemset(data_, 0, count * sizeof(T)));
    PARTITA_APPS_CUDA(cudaStreamSynchronize(cudaStreamLegacy));  // for which a Stream does not wait
  }
  ~DeviceMemory() { cudaFree(data_); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  T* data() const { return data_; }
  std::size_t bytes() const { return count_ * sizeof(T); }

 private:
  T* data_ = nullptr;
  std::size_t count_;
};

/// `count` objects in page-locked host memory, which the GPU reaches by the same address.
template <class T>
class PinnedMemory {
 public:
  explicit PinnedMemory(std::size_t count) : count_(count) {
    PARTITA_APPS_CUDA(cudaHostAlloc(reinterpret_cast<void**>(&data_), count * sizeof(T), cudaHostAllocPortable));
    for (std::size_t i = 0; i < count; ++i) data_[i] = T{};
  }
  ~PinnedMemory() { cudaFreeHost(data_); }
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  T* data() const { return data_; }
  std::size_t bytes() const { return count_ * sizeof(T); }

 private:
  T* data_ = nullptr;
  std::size_t count_;
};

/// A stream that does not wait for the default stream.
class Stream {
 public:
  enum class Priority { usual, highest };

  explicit Stream(Priority priority = Priority::usual) {
    int least = 0, highest = 0;
    PARTITA_APPS_CUDA(cudaDeviceGetStreamPriorityRange(&least, &highest));
    PARTITA_APPS_CUDA(
        cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, priority == Priority::highest ? highest : least));
  }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  cudaStream_t get() const { return stream_; }
  /// Waits for all work on the stream, keeping a core busy.
  void synchronise() const { PARTITA_APPS_CUDA(cudaStreamSynchronize(stream_)); }

 private:
  cudaStream_t stream_ = nullptr;
};

/// A mark in a stream, for which another stream waits, or the host.
class StreamEvent {
 public:
  StreamEvent() { PARTITA_APPS_CUDA(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming)); }
  ~StreamEvent() { cudaEventDestroy(event_); }
  StreamEvent(const StreamEvent&) = delete;
  StreamEvent& operator=(const StreamEvent&) = delete;

  void record(const Stream& stream) { PARTITA_APPS_CUDA(cudaEventRecord(event_, stream.get())); }
  /// What is put into `stream` from now on waits for the mark as it was recorded last; for nothing if it never was.
  void hold_back(const Stream& stream) const { PARTITA_APPS_CUDA(cudaStreamWaitEvent(stream.get(), event_, 0)); }
  /// Waits for the mark as it was recorded last, keeping a core busy.
  void synchronise() const { PARTITA_APPS_CUDA(cudaEventSynchronize(event_)); }

 private:
  cudaEvent_t event_ = nullptr;
};

/// A mark in a stream; who waits for it sleeps.
class SleepingEvent {
 public:
  SleepingEvent() {
    PARTITA_APPS_CUDA(cudaEventCreateWithFlags(&event_, cudaEventBlockingSync | cudaEventDisableTiming));
  }
  ~SleepingEvent() { cudaEventDestroy(event_); }
  SleepingEvent(const SleepingEvent&) = delete;
  SleepingEvent& operator=(const SleepingEvent&) = delete;

  void record(const Stream& stream) { PARTITA_APPS_CUDA(cudaEventRecord(event_, stream.get())); }
  void wait() const { PARTITA_APPS_CUDA(cudaEventSynchronize(event_)); }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace partita::apps
