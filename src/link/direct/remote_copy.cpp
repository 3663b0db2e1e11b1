#include "link/direct/remote_copy.hpp"

#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
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

/// process_vm_readv or process_vm_writev.
using KernelCopy = decltype(&::process_vm_readv);

struct Failure {
  std::size_t left_bytes;
  int error_number;  ///< 0 where the kernel gave none

  const char* reason() const { return error_number == 0 ? "nothing was copied" : std::strerror(error_number); }
};

/// Between `own` memory and `address` in process `pid`; the kernel may need several calls.
std::optional<Failure> copy_whole(KernelCopy copy, pid_t pid, std::byte* own, std::uint64_t address,
                                  std::size_t size_bytes) {
  while (size_bytes > 0) {
    const iovec local{own, size_bytes};
    const iovec remote{reinterpret_cast<void*>(address), size_bytes};
    const ssize_t copied = copy(pid, &local, 1, &remote, 1, 0);
    if (copied < 0 && errno == EINTR) continue;
    if (copied <= 0) return Failure{size_bytes, copied == 0 ? 0 : errno};
    own += copied;
    address += static_cast<std::uint64_t>(copied);
    size_bytes -= static_cast<std::size_t>(copied);
  }
  return std::nullopt;
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
  const auto failure = copy_whole(::process_vm_writev, pid, const_cast<std::byte*>(from), address, size_bytes);
  if (failure) {
    throw Error(ErrorClass::other, "cannot copy {} bytes into the memory of rank {} (process {}): {}",
                failure->left_bytes, rank, pid, failure->reason());
  }
}

bool copy_from_process(int rank, pid_t pid, std::uint64_t address, std::byte* to, std::size_t size_bytes) {
  const auto failure = copy_whole(::process_vm_readv, pid, to, address, size_bytes);
  if (failure && failure->error_number == ESRCH) return false;
  if (failure) {
    throw Error(ErrorClass::other, "cannot copy {} bytes from the memory of rank {} (process {}): {}",
                failure->left_bytes, rank, pid, failure->reason());
  }
  return true;
}

}  // namespace partita::link
