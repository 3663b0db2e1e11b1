#include "core/node_folder.hpp"

#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "core/error.hpp"

namespace partita {
namespace {

/// "/" and a rank, and the zero behind it.
constexpr std::size_t socket_name_bytes = 12;

}  // namespace

std::string make_node_folder() {
  std::string tried;
  for (const char* parent : {static_cast<const char*>(std::getenv("XDG_RUNTIME_DIR")),
                             static_cast<const char*>(std::getenv("TMPDIR")), "/tmp"}) {
    if (parent == nullptr || parent[0] != '/') continue;
    std::string path = fmt::format("{}/partita-{}-XXXXXX", parent, ::geteuid());
    const bool too_long = path.size() + socket_name_bytes > sizeof(sockaddr_un::sun_path);
    if (!too_long && ::mkdtemp(path.data()) != nullptr) {
      if (is_private_folder(path)) return path;
      ::rmdir(path.c_str());
    }
    tried += fmt::format("{}{}: {}", tried.empty() ? "" : "; ", parent,
                         too_long ? "its name is too long for a socket's" : std::strerror(errno));
  }
  throw Error(ErrorClass::other,
              "cannot make a folder for the sockets of this node's ranks ({}); expected is a writable folder named by "
              "XDG_RUNTIME_DIR or TMPDIR, or /tmp",
              tried);
}

bool is_private_folder(const std::string& path) {
  struct stat found{};
  return ::lstat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode) && found.st_uid == ::geteuid() &&
         (found.st_mode & 077) == 0;
}

}  // namespace partita
