#include "core/node_folder.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <vector>

#include "core/error.hpp"
#include "core/node_socket.hpp"

namespace partita {
namespace {

/// "/" and a rank, and the zero behind it.
constexpr std::size_t socket_name_bytes = 12;

/// Names this start of this machine: on a file system that several machines share, and after a restart, sockets of
/// another one answer nobody here. Nothing where the system does not tell it.
std::string machine_mark() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  file >> id;
  return id.substr(0, 8);
}

/// "partita-UID-MARK-", before the six random letters.
std::string folder_prefix() {
  return fmt::format("partita-{}-{}-", ::geteuid(), machine_mark());
}

std::vector<std::string> names_in(int folder) {
  std::vector<std::string> names;
  const int again = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* const entries = again < 0 ? nullptr : ::fdopendir(again);
  if (entries == nullptr) {
    if (again >= 0) ::close(again);
    return names;
  }
  while (const dirent* entry = ::readdir(entries)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  ::closedir(entries);
  return names;
}

/// Whether `name` is a socket that no process holds any more. A process that is stopped or busy holds its own.
bool is_dead_socket(int folder, const std::string& name) {
  struct stat found{};
  if (::fstatat(folder, name.c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISSOCK(found.st_mode)) return false;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = fmt::format("/proc/self/fd/{}/{}", folder, name);
  if (path.size() >= sizeof address.sun_path) return false;
  path.copy(address.sun_path, path.size());
  const UniqueFd probe(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return probe.get() >= 0 && ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 &&
         errno == ECONNREFUSED;
}

/// Removes the folder `name` of `parent` where its job is gone: no socket in it is held, and nothing was made in it for
/// a minute, in which a job that begins binds its first.
void remove_if_left_behind(int parent, const std::string& name) {
  constexpr time_t least_age_s = 60;
  const UniqueFd folder(::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat found{};
  if (folder.get() < 0 || ::fstat(folder.get(), &found) != 0 || found.st_uid != ::geteuid()) return;
  if (::time(nullptr) - found.st_mtime < least_age_s) return;
  const std::vector<std::string> sockets = names_in(folder.get());
  const auto is_dead = [&](const std::string& socket) { return is_dead_socket(folder.get(), socket); };
  if (!std::all_of(sockets.begin(), sockets.end(), is_dead)) return;
  for (const std::string& socket : sockets) ::unlinkat(folder.get(), socket.c_str(), 0);
  ::unlinkat(parent, name.c_str(), AT_REMOVEDIR);
}

/// What jobs of this user that were killed have left in `parent`. What cannot be looked at or removed stays.
void remove_what_is_left_behind(const char* parent) {
  const UniqueFd folder(::open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() < 0 || machine_mark().empty()) return;
  const std::string prefix = folder_prefix();
  for (const std::string& name : names_in(folder.get())) {
    if (name.starts_with(prefix)) remove_if_left_behind(folder.get(), name);
  }
}

}  // namespace

std::string make_node_folder() {
  std::string tried;
  for (const char* parent : {static_cast<const char*>(std::getenv("XDG_RUNTIME_DIR")),
                             static_cast<const char*>(std::getenv("TMPDIR")), "/tmp"}) {
    if (parent == nullptr || parent[0] != '/') continue;
    remove_what_is_left_behind(parent);
    std::string path = fmt::format("{}/{}XXXXXX", parent, folder_prefix());
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
