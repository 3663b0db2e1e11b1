#include "core/peer_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "core/error.hpp"

namespace partita {

FileName file_name_of(int fd) {
  struct stat found{};
  if (::fstat(fd, &found) != 0) {
    throw Error(ErrorClass::other, "cannot look at a shared-memory file: {}", std::strerror(errno));
  }
  return {fd, found.st_ino};
}

UniqueFd open_file_of(pid_t pid, FileName name) {
  if (name.number < 0) return {};
  const std::string path = fmt::format("/proc/{}/fd/{}", pid, name.number);
  const auto is_it = [&](int result, const struct stat& found) {
    return result == 0 && S_ISREG(found.st_mode) && found.st_ino == name.inode;
  };
  // Looked at before it is opened: to open a pipe or a device may do something.
  struct stat found{};
  if (!is_it(::stat(path.c_str(), &found), found)) return {};
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (fd.get() < 0 || !is_it(::fstat(fd.get(), &found), found)) return {};
  if (::fcntl(fd.get(), F_GET_SEALS) < 0) return {};  // a file of some file system
  return fd;
}

}  // namespace partita
