#include "link/direct/remote_process.hpp"

#include <poll.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <tuple>

#include "core/error.hpp"

namespace partita::link::direct {
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

enum class Look : std::uint8_t { found, another_process, not_allowed };

Look look(const ReachProbe& probe) {
  std::uint64_t seen = 0;
  const iovec local{&seen, sizeof seen};
  const iovec remote{reinterpret_cast<void*>(probe.address), sizeof seen};
  const ssize_t copied = ::process_vm_readv(probe.pid, &local, 1, &remote, 1, 0);
  if (copied < 0 && errno != ESRCH && errno != EFAULT) return Look::not_allowed;
  return copied == static_cast<ssize_t>(sizeof seen) && seen == probe.expected ? Look::found : Look::another_process;
}

int open_pidfd(pid_t pid) {
#if defined(SYS_pidfd_open)
  return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));  // closed on exec
#else
  return -1;
#endif
}

}  // namespace

ReachProbe own_probe() {
  return {::getpid(), reinterpret_cast<std::uint64_t>(&secret()), secret()};
}

bool can_reach(const ReachProbe& probe) {
  return look(probe) == Look::found;
}

bool can_read(const ReachProbe& probe, std::uint64_t address, std::int64_t size_bytes) {
  if (!can_reach(probe)) return false;
  std::byte ends[2];
  const auto read = [&](std::byte& byte, std::uint64_t from) {
    return !copy_whole(::process_vm_readv, probe.pid, &byte, from, 1);
  };
  return size_bytes == 0 ||
         (read(ends[0], address) && read(ends[1], address + static_cast<std::uint64_t>(size_bytes) - 1));
}

RemoteProcess::RemoteProcess(int rank, const ReachProbe& probe)
    : rank_(rank), probe_(probe), pidfd_(open_pidfd(probe.pid)) {
  was_another_ = look(probe_) == Look::another_process;  // after the pidfd: from here on it is the one that was seen
}

bool RemoteProcess::ended() const {
  if (was_another_) return true;
  if (pidfd_.get() < 0) return look(probe_) == Look::another_process;
  pollfd end{pidfd_.get(), POLLIN, 0};
  return ::poll(&end, 1, 0) > 0;
}

void RemoteProcess::write(std::uint64_t address, const std::byte* from, std::size_t size_bytes) const {
  if (ended()) {
    throw Error(ErrorClass::other, "cannot copy {} bytes into the memory of rank {}: its process {} has ended",
                size_bytes, rank_, probe_.pid);
  }
  const auto failure = copy_whole(::process_vm_writev, probe_.pid, const_cast<std::byte*>(from), address, size_bytes);
  if (failure) {
    throw Error(ErrorClass::other, "cannot copy {} bytes into the memory of rank {} (process {}): {}",
                failure->left_bytes, rank_, probe_.pid, failure->reason());
  }
}

bool RemoteProcess::read(std::uint64_t address, std::byte* to, std::size_t size_bytes) const {
  if (ended()) return false;
  const auto failure = copy_whole(::process_vm_readv, probe_.pid, to, address, size_bytes);
  if (failure && failure->error_number == ESRCH) return false;
  if (failure) {
    throw Error(ErrorClass::other, "cannot copy {} bytes from the memory of rank {} (process {}): {}",
                failure->left_bytes, rank_, probe_.pid, failure->reason());
  }
  return true;
}

std::shared_ptr<const RemoteProcess> remote_process(int rank, const ReachProbe& probe) {
  struct Known {
    std::mutex mutex;
    std::map<std::tuple<int, pid_t, std::uint64_t>, std::weak_ptr<const RemoteProcess>> processes;
  };
  static auto& known = *new Known;  // never destroyed
  const std::lock_guard lock(known.mutex);
  std::erase_if(known.processes, [](const auto& entry) { return entry.second.expired(); });
  auto& entry = known.processes[{rank, probe.pid, probe.expected}];
  auto process = entry.lock();
  if (process == nullptr) {
    process = std::make_shared<const RemoteProcess>(rank, probe);
    entry = process;
  }
  return process;
}

}  // namespace partita::link::direct
