// The threads of the sender that compute and mark partitions.
#pragma once

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

namespace partita::bench {

/// A fork-join team: the calling thread is member 0, the others wait for work, at first spinning, then asleep.
class Team {
 public:
  explicit Team(int threads);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int size() const { return static_cast<int>(workers_.size()) + 1; }

  /// Runs `body(member)` on every member; returns when all have ended. `body` must not throw.
  template <class Body>
  void run(const Body& body) {
    if (workers_.empty()) {
      body(0);
      return;
    }
    const std::function<void(int)> task = [&body](int member) { body(member); };
    fork(task);
    body(0);
    join();
  }

 private:
  void fork(const std::function<void(int)>& task);
  void join();
  void work(int member);

  const std::function<void(int)>* task_ = nullptr;  ///< written before generation_ is raised; null ends the team
  std::atomic<unsigned> generation_{0};             ///< release in fork() pairs with acquire in work()
  std::atomic<int> running_{0};                     ///< release in work() pairs with acquire in join()
  std::vector<std::thread> workers_;
};

/// The half-open run of `items` that member `member` of `members` handles; runs differ by one item at most.
struct Share {
  int begin;
  int end;
};
inline Share share_of(int items, int member, int members) {
  const auto bound = [&](int m) { return static_cast<int>(static_cast<long long>(items) * m / members); };
  return {bound(member), bound(member + 1)};
}

}  // namespace partita::bench
