// The Unix-domain datagram socket of this rank: passes file descriptors to the other ranks of the node and tells
// whether they still live.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "core/node_datagram.hpp"

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
  /// Binds the socket of `rank` in `folder`, which is this user's alone (node_folder.hpp) and goes with the last socket
  /// in it. Throws Error.
  NodeSocket(std::string folder, int rank);
  ~NodeSocket();
  NodeSocket(const NodeSocket&) = delete;
  NodeSocket& operator=(const NodeSocket&) = delete;

  /// Passes a duplicate of `fd` to `peer`, at once or, where the peer's queue is full, in a later flush(). A socket
  /// that another user has bound gets nothing.
  void pass(int peer, DescriptorKind kind, std::uint64_t segment, std::uint64_t size_bytes, int fd);
  /// Sends what had to wait. True if nothing for `peer` waits any more.
  bool flush(int peer);
  /// Empties the socket into this object, so that peers can pass on. True if there was something.
  bool take_in();
  /// Takes all descriptors of `kind` that have come in, in their order. Where `sink` throws, those after that one stay.
  void receive(DescriptorKind kind, const std::function<void(PassedDescriptor)>& sink);
  /// Why a descriptor of `peer` that came in is not there: a sentence's end, or nothing where none was lost.
  std::string why_lost(DescriptorKind kind, int peer, std::uint64_t segment);
  /// Whether the socket of `peer` can be reached from here; not where this process has no descriptor left to try with.
  bool reaches(int peer) const;
  /// Whether the process of `peer` still holds its socket; false means that the process has ended. True where this
  /// process has no descriptor left to ask with.
  bool alive(int peer) const;

 private:
  friend class OpenSockets;
  struct Waiting {
    DescriptorKind kind;
    std::uint64_t segment;
    std::uint64_t size_bytes;
    UniqueFd fd;
  };
  bool try_pass(int peer, const Waiting& waiting);
  bool take_in_all();
  std::optional<bool> next_is_ours();
  std::string path_of(int peer) const;

  std::string folder_;
  int rank_;
  UniqueFd socket_;
  std::mutex mutex_;
  std::map<int, std::deque<Waiting>> waiting_;
  std::mutex arrived_mutex_;
  std::array<std::vector<PassedDescriptor>, descriptor_kind_count> arrived_;  ///< not yet received, by kind
  std::set<std::tuple<DescriptorKind, int, std::uint64_t>> lost_;             ///< came in while no descriptor was free
};

}  // namespace partita
