// What it costs to ask, before each copy into another process's memory, whether that process still is the one that was
// met: the look alone, and whole copies by size. Prints JSON: nanoseconds a call, the least of several batches.
//
//   partita_remote_copy_cost
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <vector>

#include "link/direct/remote_process.hpp"

namespace {

using namespace partita;

constexpr std::size_t sizes[] = {64, 4096, 16384, 65536, 1048576};
constexpr std::size_t most_bytes = 1048576;

template <class Call>
double least_ns(Call call) {
  constexpr int batches = 31, calls = 2000;
  double least = std::numeric_limits<double>::max();
  for (int batch = 0; batch < batches; ++batch) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) call();
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    least = std::min(least, took.count() / calls);
  }
  return least;
}

/// A copy of this process with pages of its own behind `memory`, until it is killed.
pid_t start_other(std::byte* memory) {
  int ready[2];
  if (::pipe(ready) != 0) return -1;
  const pid_t other = ::fork();
  if (other == 0) {
    std::fill_n(memory, most_bytes, std::byte{1});
    if (::write(ready[1], "", 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }
  char told = 0;
  const bool is_ready = ::read(ready[0], &told, 1) == 1;
  return is_ready ? other : -1;
}

}  // namespace

int main() {
  void* const mapped = ::mmap(nullptr, most_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return 1;
  link::direct::ReachProbe probe = link::direct::own_probe();
  const pid_t other = start_other(static_cast<std::byte*>(mapped));
  if (other < 0) return 1;
  probe.pid = other;
  const link::direct::RemoteProcess process(0, probe);
  const std::vector<std::byte> from(most_bytes);
  bool ended = false;
  std::printf("{\"look\": %.0f", least_ns([&] { ended |= process.ended(); }));
  for (const std::size_t size_bytes : sizes) {
    const auto copy = [&] { process.write(reinterpret_cast<std::uint64_t>(mapped), from.data(), size_bytes); };
    std::printf(", \"%zu\": %.0f", size_bytes, least_ns(copy));
  }
  std::printf("}\n");
  ::kill(other, SIGKILL);
  ::waitpid(other, nullptr, 0);
  return ended ? 1 : 0;
}
