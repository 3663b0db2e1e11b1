// The connection of this process to another rank.
#pragma once

#include <ucp/api/ucp.h>

#include <array>
#include <atomic>

#include "link/ucx/transfer.hpp"

namespace partita::link::ucx {

class Worker;
class Peer;

/// Waits until all that was put towards the peer lies there.
struct Flush {
  Peer* peer = nullptr;
  Flush* next_free = nullptr;
  TransferList transfers;       ///< their flags follow; empty where the flush only sees off flags and messages
  bool wants_progress = false;  ///< no open epoch of a request sees it through
};

/// Touched only by the thread that holds the worker's gate, but for the failure, which anyone may ask.
class Peer {
 public:
  Peer(Worker& worker, int rank);
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  Worker& worker() const { return worker_; }
  int rank() const { return rank_; }
  ucp_ep_h endpoint() const { return endpoint_; }

  bool failed() const { return failure_.load(std::memory_order_acquire) != UCS_OK; }
  /// Keeps the first failure; nothing is sent to this peer any more.
  void fail(ucs_status_t status, const char* where);
  /// Throws the Error that names the rank; for the owners of transfers.
  [[noreturn]] void throw_failure() const;

  /// Closes the connection at once; UCX ends what is under way, with an error, before closing() turns false.
  void close() noexcept;
  bool closing() noexcept;

 private:
  friend class Worker;
  static constexpr int most_flushes = 16;

  Worker& worker_;
  const int rank_;
  ucp_ep_h endpoint_ = nullptr;  ///< null once closed
  void* close_request_ = nullptr;
  std::atomic<ucs_status_t> failure_{UCS_OK};
  std::atomic<const char*> failed_call_{""};

  TransferList put_;          ///< data was put; a flush and the flag are due
  bool unconfirmed_ = false;  ///< flags or messages were sent that no flush covers yet: UCX may still hold them back
  int flushes_under_way_ = 0;
  std::array<Flush, most_flushes> flushes_;
  Flush* free_flush_ = nullptr;
  bool listed_ = false;  ///< in the worker's list of peers with something due
  Peer* next_listed_ = nullptr;
};

}  // namespace partita::link::ucx
