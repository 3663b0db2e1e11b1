// The folder in which the ranks of a node have their sockets: nobody but their user gets in.
#pragma once

#include <string>

namespace partita {

/// Makes one, with mode 0700 and a random name, in $XDG_RUNTIME_DIR, $TMPDIR or /tmp: the first of them where that can
/// be done, and whose name leaves room for a socket's. Removes there what killed jobs of this user and machine have
/// left behind. Throws Error.
std::string make_node_folder();

/// Whether `path` is a folder, no link to one, of this user's, and closed to all others.
bool is_private_folder(const std::string& path);

}  // namespace partita
