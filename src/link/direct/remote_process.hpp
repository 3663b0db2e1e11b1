// Copies between this process's memory and another's that is not mapped here, by the kernel's process_vm_writev and
// process_vm_readv.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/node_socket.hpp"
#include "link/plan.hpp"

namespace partita::link::direct {

/// What a process tells so that another can try whether it may reach its memory.
struct ReachProbe {
  pid_t pid = 0;
  std::uint64_t address = 0;  ///< of a word that holds `expected`
  std::uint64_t expected = 0;
};

/// This process's probe; valid as long as the process lives.
ReachProbe own_probe();

/// Whether this process may read the probe's process, and so reach its memory: same user, same process-id namespace, no
/// tracing restriction between them.
bool can_reach(const ReachProbe& probe);
/// Whether this process may read the probe's process, and in it the first and the last of `size_bytes` at `address`:
/// the kernel refuses memory that drivers have mapped.
bool can_read(const ReachProbe& probe, std::uint64_t address, std::int64_t size_bytes);

/// Another process whose memory is copied from and to. Its number may be another process's once it has ended: who it is
/// is settled here, by its secret word, and looked at again, by a pidfd, before each copy. Where there is none (an
/// older kernel, no descriptor free) the secret word is. Any thread may call.
class RemoteProcess {
 public:
  /// `probe` is that of world rank `rank`.
  RemoteProcess(int rank, const ReachProbe& probe);

  bool ended() const;
  /// Copies to `address` there; complete on return. Throws Error, also where the process has ended.
  void write(std::uint64_t address, const std::byte* from, std::size_t size_bytes) const;
  /// Copies from `address` there; complete on return. False if the process has ended, whatever was copied by then.
  /// Throws Error.
  bool read(std::uint64_t address, std::byte* to, std::size_t size_bytes) const;

 private:
  int rank_;
  ReachProbe probe_;
  UniqueFd pidfd_;
  bool was_another_ = false;
};

/// One a process, whatever the number of requests: it holds a descriptor.
std::shared_ptr<const RemoteProcess> remote_process(int rank, const ReachProbe& probe);

/// The packed data of a request in another process.
struct RemoteBytes {
  std::shared_ptr<const RemoteProcess> process;
  std::uint64_t address = 0;

  /// Copies `bytes` of `packed`, the same data here, to their place there.
  void write(const std::byte* packed, Range bytes) const {
    process->write(address + static_cast<std::uint64_t>(bytes.begin), packed + bytes.begin,
                   static_cast<std::size_t>(bytes.size()));
  }
};

}  // namespace partita::link::direct
