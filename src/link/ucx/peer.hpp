// The connection of this process to another rank, and what travels over it.
#pragma once

#include <ucp/api/ucp.h>

#include <array>
#include <atomic>
#include <span>

#include "link/ucx/transfer.hpp"

namespace partita::link::ucx {

class Peer;

/// One transfer; its owner keeps it, and what it points to, in place until tally->outstanding is zero. The bytes are
/// put and, when they lie at the target, the flags' new values; or all goes in one eager message.
struct Transfer {
  Transfer* next = nullptr;  ///< in the one list that holds it
  Peer* peer = nullptr;
  Tally* tally = nullptr;
  const std::byte* source = nullptr;
  ucp_mem_h source_handle = nullptr;  ///< of the source's registration where that is GPU memory; else null
  std::size_t size_bytes = 0;
  Target data;
  std::span<const Epoch> flag_values;
  Target flags;
  bool eager = false;
  bool wants_prompt_steps = false;  ///< UCX has not put all bytes yet
  EagerHeader header;
};

using TransferList = List<Transfer>;
using TransferInbox = Inbox<Transfer>;

/// Waits until all that was put towards the peer lies there.
struct Flush {
  Peer* peer = nullptr;
  Flush* next_free = nullptr;
  TransferList transfers;           ///< their flags follow; empty where the flush only sees off flags and messages
  bool wants_prompt_steps = false;  ///< it has not ended, and flags are due behind it
  bool wants_progress = false;      ///< likewise, but none are, and no open epoch of a request sees it through
};

/// Touched only by the thread that holds the worker's gate, but for the failure, which anyone may ask.
class Peer {
 public:
  explicit Peer(int rank);
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

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
