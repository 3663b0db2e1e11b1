#include "core/node_socket.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <span>
#include <utility>

#include "core/error.hpp"

namespace partita {
namespace {

struct Address {
  sockaddr_un un{};
  socklen_t length = 0;
};

Address address_of(const std::string& path) {
  Address address;
  address.un.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.un.sun_path) {
    throw Error(ErrorClass::other,
                "the name of the Unix-domain socket {} is too long: it has {} bytes, {} are possible", path,
                path.size(), sizeof address.un.sun_path - 1);
  }
  std::memcpy(address.un.sun_path, path.data(), path.size());
  address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
  return address;
}

/// Whether somebody else has bound the socket at `path`. The folder is this user's alone, so that nobody puts another
/// one there between this look and what is sent.
bool is_another_users(const std::string& path) {
  struct stat found{};
  return ::lstat(path.c_str(), &found) == 0 && (!S_ISSOCK(found.st_mode) || found.st_uid != ::geteuid());
}

int open_socket() {
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) throw Error(ErrorClass::other, "cannot open a Unix-domain socket: {}", std::strerror(errno));
  return fd;
}

}  // namespace

/// The sockets of this process. A child of a fork closes them: as long as it held them, a rank that has died would pass
/// as alive. (A child that executes another program loses them anyway.)
class OpenSockets {
 public:
  /// Never destroyed: a process may fork until its end.
  static OpenSockets& instance() {
    static auto& sockets = *new OpenSockets;
    return sockets;
  }
  void add(NodeSocket* socket) {
    const std::lock_guard lock(mutex_);
    sockets_.insert(socket);
  }
  void remove(NodeSocket* socket) {
    const std::lock_guard lock(mutex_);
    sockets_.erase(socket);
  }

 private:
  OpenSockets() {
    ::pthread_atfork([] { instance().mutex_.lock(); }, [] { instance().mutex_.unlock(); },
                     [] {
                       for (NodeSocket* socket : instance().sockets_) socket->socket_ = UniqueFd();
                       instance().mutex_.unlock();
                     });
  }

  std::mutex mutex_;
  std::set<NodeSocket*> sockets_;
};

UniqueFd& UniqueFd::operator=(UniqueFd&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = other.release();
  }
  return *this;
}

UniqueFd::~UniqueFd() {
  if (fd_ >= 0) ::close(fd_);
}

int UniqueFd::release() {
  const int fd = fd_;
  fd_ = -1;
  return fd;
}

NodeSocket::NodeSocket(std::string folder, int rank) : folder_(std::move(folder)), rank_(rank), socket_(open_socket()) {
  const int on = 1;
  if (::setsockopt(socket_.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0) {
    throw Error(ErrorClass::other, "cannot ask for credentials on a Unix-domain socket: {}", std::strerror(errno));
  }
  const Address address = address_of(path_of(rank));
  if (::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address.un), address.length) != 0) {
    throw Error(ErrorClass::other, "cannot bind the Unix-domain socket {}: {}", path_of(rank), std::strerror(errno));
  }
  OpenSockets::instance().add(this);
}

/// A child of a fork, whose socket is closed, leaves the names to its parent.
NodeSocket::~NodeSocket() {
  OpenSockets::instance().remove(this);
  if (socket_.get() < 0) return;
  ::unlink(path_of(rank_).c_str());
  ::rmdir(folder_.c_str());  // the last rank finds it empty
}

std::string NodeSocket::path_of(int peer) const {
  return fmt::format("{}/{}", folder_, peer);
}

void NodeSocket::pass(int peer, DescriptorKind kind, std::uint64_t segment, std::uint64_t size_bytes, int fd) {
  Waiting entry{kind, segment, size_bytes, UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 0))};
  if (entry.fd.get() < 0)
    throw Error(ErrorClass::other, "cannot duplicate a file descriptor: {}", std::strerror(errno));
  {
    const std::lock_guard lock(mutex_);
    waiting_[peer].push_back(std::move(entry));
  }
  flush(peer);
}

bool NodeSocket::flush(int peer) {
  const std::lock_guard lock(mutex_);
  const auto queue = waiting_.find(peer);
  if (queue == waiting_.end()) return true;
  while (!queue->second.empty()) {
    if (!try_pass(peer, queue->second.front())) return false;
    queue->second.pop_front();
  }
  waiting_.erase(queue);
  return true;
}

bool NodeSocket::try_pass(int peer, const Waiting& waiting) {
  if (is_another_users(path_of(peer))) return true;  // who gets nothing; the rank itself is not there any more
  NodeDatagram datagram{rank_, waiting.kind, waiting.segment, waiting.size_bytes};
  iovec part{&datagram, sizeof datagram};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  const Address address = address_of(path_of(peer));
  msghdr message{};
  message.msg_name = const_cast<sockaddr_un*>(&address.un);
  message.msg_namelen = address.length;
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  const int fd = waiting.fd.get();
  std::memcpy(CMSG_DATA(header), &fd, sizeof fd);

  if (::sendmsg(socket_.get(), &message, MSG_NOSIGNAL) >= 0) return true;
  // A peer that has ended needs no descriptor; whoever waits for it will notice.
  if (errno == ECONNREFUSED || errno == ENOENT) return true;
  if (errno == EAGAIN || errno == ENOBUFS || errno == EINTR || errno == ETOOMANYREFS) return false;
  throw Error(ErrorClass::other, "cannot pass a file descriptor to rank {}: {}", peer, std::strerror(errno));
}

void NodeSocket::receive(DescriptorKind kind, const std::function<void(PassedDescriptor)>& sink) {
  std::vector<PassedDescriptor> received;
  {
    const std::lock_guard lock(arrived_mutex_);
    take_in_all();
    received.swap(arrived_[static_cast<std::size_t>(kind)]);
  }
  auto next = received.begin();
  try {
    while (next != received.end()) sink(std::move(*next++));
  } catch (...) {
    const std::lock_guard lock(arrived_mutex_);
    auto& kept = arrived_[static_cast<std::size_t>(kind)];
    kept.insert(kept.begin(), std::make_move_iterator(next), std::make_move_iterator(received.end()));
    throw;
  }
}

bool NodeSocket::take_in() {
  const std::lock_guard lock(arrived_mutex_);
  return take_in_all();
}

/// Whether a process of this user has sent the next datagram, if there is one. Looked at before anything of it is
/// taken: descriptors that come with it would be this process's already.
std::optional<bool> NodeSocket::next_is_ours() {
  std::byte first{};
  iovec part{&first, sizeof first};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred))] = {};  // no room for descriptors behind the credentials
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_LEN(sizeof(ucred));
  ssize_t seen = -1;
  do {
    seen = ::recvmsg(socket_.get(), &message, MSG_PEEK);
  } while (seen < 0 && errno == EINTR);
  if (seen < 0) return std::nullopt;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_CREDENTIALS) return false;
  ucred credentials{};
  std::memcpy(&credentials, CMSG_DATA(header), sizeof credentials);
  return credentials.uid == ::geteuid();
}

bool NodeSocket::take_in_all() {
  constexpr std::size_t most_descriptors = 2;  // what fits, by the alignment of control messages
  for (bool any = false;; any = true) {
    std::array<std::byte, sizeof(NodeDatagram) + 1> bytes{};  // one more than is right, to see what is too long
    iovec part{bytes.data(), bytes.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(ucred))] = {};
    static_assert(CMSG_SPACE(sizeof(int)) == CMSG_LEN(most_descriptors * sizeof(int)));
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    const auto ours = next_is_ours();
    if (!ours) return any;
    if (*ours) {
      message.msg_control = control;
      message.msg_controllen = sizeof control;
    }
    ssize_t received = -1;
    do {
      received = ::recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC);
    } while (received < 0 && errno == EINTR);
    if (received < 0) return any;

    std::vector<UniqueFd> fds;  // what is not kept is closed
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
      if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
      for (std::size_t i = 0; CMSG_LEN((i + 1) * sizeof(int)) <= header->cmsg_len; ++i) {
        int passed = -1;
        std::memcpy(&passed, CMSG_DATA(header) + i * sizeof passed, sizeof passed);
        fds.emplace_back(passed);
      }
    }
    const auto datagram = read_node_datagram(std::span(bytes).first(static_cast<std::size_t>(received)));
    if (!*ours || !datagram) continue;
    if (fds.empty()) {
      if ((message.msg_flags & MSG_CTRUNC) != 0) lost_.insert({datagram->kind, datagram->from, datagram->segment});
      continue;
    }
    if (fds.size() > 1) continue;
    const auto kind = static_cast<std::size_t>(datagram->kind);
    arrived_[kind].push_back({datagram->from, datagram->segment, datagram->size_bytes, std::move(fds.front())});
  }
}

std::string NodeSocket::why_lost(DescriptorKind kind, int peer, std::uint64_t segment) {
  const std::lock_guard lock(arrived_mutex_);
  if (!lost_.contains({kind, peer, segment})) return {};
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return fmt::format("this process had no file descriptor free when it came in: it may have {} open (ulimit -n)",
                     limit.rlim_cur);
}

bool NodeSocket::reaches(int peer) const {
  const UniqueFd probe(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const Address address = address_of(path_of(peer));
  return probe.get() >= 0 && !is_another_users(path_of(peer)) &&
         ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address.un), address.length) == 0;
}

bool NodeSocket::alive(int peer) const {
  const UniqueFd probe(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (probe.get() < 0) return true;  // this process has no descriptors left to ask with
  const Address address = address_of(path_of(peer));
  return ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address.un), address.length) == 0 ||
         errno != ECONNREFUSED;
}

}  // namespace partita
