#include "link/direct/remote_copy.hpp"

#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>

#include "core/error.hpp"

namespace partita::link {
namespace {

/// A number that no other process has at the same address by chance.
const std::uint64_t& secret() {
  static const std::uint64_t number = [] {
    std::random_device device;
    return (std::uint64_t{device()} << 32) | device();
  }();
  return number;
}

}  // namespace

ReachProbe own_probe() {
  return {::getpid(), reinterpret_cast<std::uint64_t>(&secret()), secret()};
}

bool can_reach(const ReachProbe& probe) {
  std::uint64_t seen = 0;
  const iovec local{&seen, sizeof seen};
  const iovec remote{reinterpret_cast<void*>(probe.address), sizeof seen};
  return ::process_vm_readv(probe.pid, &local, 1, &remote, 1, 0) == static_cast<ssize_t>(sizeof seen) &&
         seen == probe.expected;
}

void copy_to_process(int rank, pid_t pid, std::uint64_t address, const std::byte* from, std::size_t size_bytes) {
  while (size_bytes > 0) {
    const iovec local{const_cast<std::byte*>(from), size_bytes};
    const iovec remote{reinterpret_cast<void*>(address), size_bytes};
    const ssize_t copied = ::process_vm_writev(pid, &local, 1, &remote, 1, 0);
    if (copied < 0 && errno == EINTR) continue;
    if (copied <= 0) {
      throw Error(ErrorClass::other, "cannot copy {} bytes into the memory of rank {} (process {}): {}", size_bytes,
                  rank, pid, copied == 0 ? "nothing was copied" : std::strerror(errno));
    }
    from += copied;
    address += static_cast<std::uint64_t>(copied);
    size_bytes -= static_cast<std::size_t>(copied);
  }
}

}  // namespace partita::link
