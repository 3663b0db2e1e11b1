// What all requests of a process on link ucx share.
#pragma once

#include "link/ucx/region.hpp"
#include "link/ucx/words.hpp"
#include "link/ucx/worker.hpp"

namespace partita::link::ucx {

/// Lives as long as the link or any request on it.
struct Process {
  Process(Progress& progress, memory::DeviceMemory& device_memory) : worker(progress, device_memory) {}
  ~Process() { worker.close(); }  // before the memory goes that transfers under way may touch

  Worker worker;
  UnmapWatch unmap_watch;
  RegionCache regions{worker, unmap_watch};
  WordStore words{worker};
};

}  // namespace partita::link::ucx
