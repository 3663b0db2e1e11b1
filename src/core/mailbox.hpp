// Small messages between ranks on private traffic: requests find and release each other with them.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <map>
#include <mutex>

#include "core/mail.hpp"
#include "core/progress.hpp"
#include "core/wire.hpp"
#include "core/world.hpp"

namespace partita {

/// Travels over the MPI.
class Mailbox final : public Mail {
 public:
  Mailbox(World& world, Progress& progress) : world_(world), progress_(progress) {}
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  void on(std::uint8_t kind, Handler handler) override { handlers_[kind] = std::move(handler); }
  void post(int peer, wire::Bytes message, Caller caller = Caller::may_call_the_mpi) override;

  /// A step of the progress engine.
  bool progress();

  /// Collective: returns when no message of any rank is undelivered. Throws Error after `timeout_s` (0: never). Calls
  /// `once_all_are_here` when every rank has come, so that none waits for another anywhere else; it may post.
  void drain(double timeout_s, const std::function<void()>& once_all_are_here);

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
