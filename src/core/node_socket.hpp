// The Unix-domain datagram socket of this rank: passes file descriptors to the other ranks of the node and tells
// whether they still live.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>

namespace partita {

/// A file descriptor that closes itself.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept;
  ~UniqueFd();

  int get() const { return fd_; }
  int release();

 private:
  int fd_ = -1;
};

/// A descriptor that a rank of this node passed to us.
struct PassedDescriptor {
  int from = -1;              ///< world rank
  std::uint64_t segment = 0;  ///< the sender's name for it
  std::uint64_t size_bytes = 0;
  UniqueFd fd;
};

/// Any thread may call; nothing blocks.
class NodeSocket {
 public:
  /// Binds the socket of `rank` in job `job_id`. Throws Error.
  NodeSocket(std::uint64_t job_id, int rank);

  /// Passes a duplicate of `fd` to `peer`, at once or, where the peer's queue is full, in a later flush().
  void pass(int peer, std::uint64_t segment, std::uint64_t size_bytes, int fd);
  /// Sends what had to wait. True if nothing for `peer` waits any more.
  bool flush(int peer);
  /// Takes all descriptors that have come in.
  void receive(const std::function<void(PassedDescriptor)>& sink);
  /// Whether the process of `peer` still holds its socket; false means that the process has ended.
  bool alive(int peer) const;

 private:
  struct Waiting {
    std::uint64_t segment;
    std::uint64_t size_bytes;
    UniqueFd fd;
  };
  bool try_pass(int peer, const Waiting& waiting);
  std::string name_of(int peer) const;

  std::uint64_t job_id_;
  int rank_;
  UniqueFd socket_;
  std::mutex mutex_;
  std::map<int, std::deque<Waiting>> waiting_;
};

}  // namespace partita
