// Ordinary persistent requests on GPU memory, and queues of CUDA streams for them. Both free what they made.
#pragma once

#include <cuda_runtime_api.h>
#include <partita/partita.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "bench/failure.hpp"
#include "bench/subject.hpp"

namespace partita::bench::gpu {

using bench::check;

enum class Way : std::uint8_t { send, ready_send, receive };

/// A request on MPI_COMM_WORLD; match it before anything else.
class PersistentMessage {
 public:
  PersistentMessage(Way way, std::byte* buffer, std::int64_t size_bytes, int peer, int tag);
  ~PersistentMessage() { Partita_Request_free(&request_); }
  PersistentMessage(const PersistentMessage&) = delete;
  PersistentMessage& operator=(const PersistentMessage&) = delete;

  Partita_Request handle() const { return request_; }
  void start() { check(Partita_Start(&request_), "Partita_Start"); }
  void wait() { check(Partita_Wait(&request_, MPI_STATUS_IGNORE), "Partita_Wait"); }
  LinkUsed link_used() const;

 private:
  Partita_Request request_ = PARTITA_REQUEST_NULL;
};

/// Matches all of them; both ranks call it for their sides.
void match(std::vector<Partita_Request> requests);

/// A queue of `stream`, which outlives it.
class StreamQueue {
 public:
  explicit StreamQueue(cudaStream_t stream) {
    check(Partita_Queue_init(&queue_, PARTITA_QUEUE_CUDA, &stream), "Partita_Queue_init");
  }
  ~StreamQueue() { Partita_Queue_free(&queue_); }
  StreamQueue(const StreamQueue&) = delete;
  StreamQueue& operator=(const StreamQueue&) = delete;

  void start(Partita_Request request) { check(Partita_Enqueue_start(queue_, &request), "Partita_Enqueue_start"); }
  void wait(Partita_Request request) { check(Partita_Enqueue_wait(queue_, &request), "Partita_Enqueue_wait"); }
  void start_all(std::span<Partita_Request> requests) {
    check(Partita_Enqueue_startall(queue_, static_cast<int>(requests.size()), requests.data()),
          "Partita_Enqueue_startall");
  }
  void wait_all(std::span<Partita_Request> requests) {
    check(Partita_Enqueue_waitall(queue_, static_cast<int>(requests.size()), requests.data()),
          "Partita_Enqueue_waitall");
  }
  /// Blocks until all that is enqueued has run.
  void finish() { check(Partita_Queue_wait(queue_), "Partita_Queue_wait"); }

 private:
  Partita_Queue queue_ = PARTITA_QUEUE_NULL;
};

}  // namespace partita::bench::gpu
