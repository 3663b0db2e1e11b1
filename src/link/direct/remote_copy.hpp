// Copies between this process's memory and another's that is not mapped here, by the kernel's process_vm_writev and
// process_vm_readv.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace partita::link {

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

/// Copies to `address` in process `pid`, which is world rank `rank`; complete on return. Throws Error.
void copy_to_process(int rank, pid_t pid, std::uint64_t address, const std::byte* from, std::size_t size_bytes);

/// Copies from `address` in process `pid`, which is world rank `rank`; complete on return. False if that process has
/// ended, whatever was copied by then. Throws Error.
bool copy_from_process(int rank, pid_t pid, std::uint64_t address, std::byte* to, std::size_t size_bytes);

}  // namespace partita::link
