// Small messages between ranks on private traffic: requests find and release each other with them.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <map>
#include <mutex>

#include "core/progress.hpp"
#include "core/wire.hpp"
#include "core/world.hpp"

namespace partita {

/// Messages between two ranks arrive in the order in which they were posted.
class Mailbox {
 public:
  using Handler = std::function<void(int from, wire::Reader message)>;

  Mailbox(World& world, Progress& progress) : world_(world), progress_(progress) {}
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  /// Calls `handler` for messages whose first byte is `kind`. Before the first progress.
  void on(std::uint8_t kind, Handler handler) { handlers_[kind] = std::move(handler); }

  /// Who posts: some MPIs let themselves be called by threads of the program alone (see World::thread_level).
  enum class Caller : std::uint8_t { may_call_the_mpi, may_not };

  /// Sends `message` (its first byte is the kind) after all descriptors passed to `peer` so far. Never blocks. From a
  /// caller who may not call the MPI, it leaves with the next step.
  void post(int peer, wire::Bytes message, Caller caller = Caller::may_call_the_mpi);

  /// A step of the progress engine.
  bool progress();

  /// Collective: returns when no message of any rank is undelivered. Throws Error after `timeout_s` (0: never).
  void drain(double timeout_s);

 private:
  struct Outgoing {
    int peer;
    wire::Bytes bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  void send_first(std::list<Outgoing>& queue);
  bool send_held();
  bool take_in_descriptors();
  bool receive_one();
  bool complete_sent();

  World& world_;
  Progress& progress_;
  std::map<std::uint8_t, Handler> handlers_;
  std::mutex mutex_;
  std::map<int, std::list<Outgoing>> held_;  ///< by peer; wait for descriptors to go first
  int steps_until_look_ = 0;                 ///< into the node socket
  MPI_Message taken_ = MPI_MESSAGE_NULL;     ///< matched, but there was no memory for its bytes yet
  MPI_Status taken_status_{};
  std::atomic<std::int64_t> posted_{0};
  std::atomic<std::int64_t> received_{0};
  std::list<Outgoing> flying_;  ///< with the MPI, which has not taken their bytes yet
};

}  // namespace partita
