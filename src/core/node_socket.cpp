#include "core/node_socket.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <utility>

#include "core/error.hpp"

namespace partita {
namespace {

struct Datagram {
  std::int32_t from;
  DescriptorKind kind;
  std::uint64_t segment;
  std::uint64_t size_bytes;
};

struct Address {
  sockaddr_un un{};
  socklen_t length = 0;
};

/// An abstract name: no file, gone with the process.
Address abstract_address(const std::string& name) {
  Address address;
  address.un.sun_family = AF_UNIX;
  std::memcpy(address.un.sun_path + 1, name.data(), name.size());
  address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
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

NodeSocket::NodeSocket(std::uint64_t job_id, int rank) : job_id_(job_id), rank_(rank), socket_(open_socket()) {
  const int on = 1;
  if (::setsockopt(socket_.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0) {
    throw Error(ErrorClass::other, "cannot ask for credentials on a Unix-domain socket: {}", std::strerror(errno));
  }
  const Address address = abstract_address(name_of(rank));
  if (::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address.un), address.length) != 0) {
    throw Error(ErrorClass::other, "cannot bind the Unix-domain socket {}: {}", name_of(rank), std::strerror(errno));
  }
  OpenSockets::instance().add(this);
}

NodeSocket::~NodeSocket() {
  OpenSockets::instance().remove(this);
}

std::string NodeSocket::name_of(int peer) const {
  return fmt::format("partita-{:016x}-{}", job_id_, peer);
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
  Datagram datagram{rank_, waiting.kind, waiting.segment, waiting.size_bytes};
  iovec part{&datagram, sizeof datagram};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  const Address address = abstract_address(name_of(peer));
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
  if (errno == ECONNREFUSED) return true;
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

bool NodeSocket::take_in_all() {
  for (bool any = false;; any = true) {
    Datagram datagram{};
    iovec part{&datagram, sizeof datagram};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(ucred))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    ssize_t received = -1;
    do {
      received = ::recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC);
    } while (received < 0 && errno == EINTR);
    if (received < 0) return any;

    UniqueFd fd;
    bool same_user = false;
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
      if (header->cmsg_level != SOL_SOCKET) continue;
      if (header->cmsg_type == SCM_RIGHTS) {
        int passed = -1;
        std::memcpy(&passed, CMSG_DATA(header), sizeof passed);
        fd = UniqueFd(passed);
      } else if (header->cmsg_type == SCM_CREDENTIALS) {
        ucred credentials{};
        std::memcpy(&credentials, CMSG_DATA(header), sizeof credentials);
        same_user = credentials.uid == ::geteuid();
      }
    }
    const auto kind = static_cast<std::size_t>(datagram.kind);
    if (received != static_cast<ssize_t>(sizeof datagram) || !same_user || kind >= arrived_.size()) continue;
    if (fd.get() < 0) {
      if ((message.msg_flags & MSG_CTRUNC) != 0) lost_.insert({datagram.kind, datagram.from, datagram.segment});
      continue;
    }
    arrived_[kind].push_back({datagram.from, datagram.segment, datagram.size_bytes, std::move(fd)});
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

bool NodeSocket::alive(int peer) const {
  const UniqueFd probe(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (probe.get() < 0) return true;  // this process has no descriptors left to ask with
  const Address address = abstract_address(name_of(peer));
  return ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address.un), address.length) == 0 ||
         errno != ECONNREFUSED;
}

}  // namespace partita
