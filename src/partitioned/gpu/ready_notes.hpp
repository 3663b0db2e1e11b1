// Tells GPUs of receivers that are ready, so that their kernels need not look at the host's word.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "core/epoch.hpp"
#include "memory/blocks.hpp"

namespace partita {

/// The notes of all requests on a GPU go through one stream of Partita's, in order. A note is a help: where one is left
/// out, or comes late, a kernel looks for itself. Any thread.
class ReadyNotes {
 public:
  ReadyNotes(memory::HostMemory& host_memory, memory::DeviceMemory& device_memory)
      : host_memory_(host_memory), device_memory_(device_memory) {}
  ~ReadyNotes();
  ReadyNotes(const ReadyNotes&) = delete;
  ReadyNotes& operator=(const ReadyNotes&) = delete;

  /// Notes can be sent to GPU `device` from now on. Throws Error where it has no stream.
  void set_up(int device);
  /// After set_up: GPU `device` stores `epoch` into `word`, which lies in its memory. Does not block: left out where
  /// many notes before it have not come to an end, as when their stream stands behind work of the program's, or the GPU
  /// works no longer.
  void send(int device, Epoch* word, Epoch epoch);
  /// Blocks until no note is on its way to GPU `device`: the memory of its word is about to go.
  void drain(int device) noexcept;

 private:
  struct Queue {
    Queue(memory::HostMemory& host_memory, memory::DeviceMemory& device_memory, int device);
    Epoch under_way() const;

    memory::HostBlock landed;  ///< a word: the newest note that has come to its end
    Epoch* landed_on_gpu;      ///< the same word
    std::unique_ptr<memory::CopyQueue> stream;
    Epoch issued = no_epoch;  ///< the newest note
  };
  static void drain(Queue& queue) noexcept;

  memory::HostMemory& host_memory_;
  memory::DeviceMemory& device_memory_;
  std::mutex mutex_;
  std::map<int, Queue> queues_;  ///< by GPU
};

}  // namespace partita
