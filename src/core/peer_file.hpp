// A shared-memory file of another process of this node, opened by its descriptor there: nothing has to be sent for it.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "core/node_socket.hpp"

namespace partita {

/// Names an open shared-memory file in the process that holds it. The inode tells it from what the number may stand for
/// later.
struct FileName {
  std::int32_t number = -1;  ///< -1: none
  std::uint64_t inode = 0;
};

FileName file_name_of(int fd);

/// The file `name` of process `pid`, or none: the kernel does not allow it (other user, other process-id namespace, no
/// /proc), or the process does not hold it any more.
UniqueFd open_file_of(pid_t pid, FileName name);

}  // namespace partita
