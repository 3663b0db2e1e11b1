#include "memory/cuda/drain.hpp"

#include <sched.h>

#include <chrono>
#include <optional>

#include "core/log.hpp"
#include "memory/cuda/check.hpp"

namespace partita::memory::cuda {
namespace {

using DrainClock = std::chrono::steady_clock;

/// The largest copies take a second or two.
constexpr auto looks_like_a_hang = std::chrono::seconds(20);
constexpr auto time_between_calls = std::chrono::milliseconds(50);
constexpr unsigned looks_a_yield = 64;
constexpr unsigned looks_a_clock = 1024;

}  // namespace

/// Queries, as fast as the driver's own wait, which could say nothing.
void drain(CUstream stream, int device, const std::function<void(int)>& meanwhile) {
  std::optional<DrainClock::time_point> since;
  DrainClock::time_point next_call{};
  bool told = false;
  for (unsigned looks = 1;; ++looks) {
    const CUresult result = driver().cuStreamQuery(stream);
    if (result != CUDA_ERROR_NOT_READY) return check_driver(driver(), result, "cuStreamQuery");
    if (looks % looks_a_yield == 0) ::sched_yield();  // to a rank that shares the core
    if (looks % looks_a_clock != 0) continue;
    const auto now = DrainClock::now();
    if (!since) {
      since = now;
      next_call = now + time_between_calls;
    }
    if (now >= next_call) {
      next_call = now + time_between_calls;
      if (meanwhile) meanwhile(device);
    }
    if (told || now - *since < looks_like_a_hang) continue;
    told = true;
    log("a copy on GPU {} has not ended for {} s. Another stream may stand in its way: streams share the GPU's work "
        "queues, and one that waits holds up its own. CUDA_DEVICE_MAX_CONNECTIONS=8, or more, gives this process more",
        device, std::chrono::duration_cast<std::chrono::seconds>(looks_like_a_hang).count());
  }
}

}  // namespace partita::memory::cuda
