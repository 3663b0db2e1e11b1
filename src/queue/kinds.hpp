// What runs queues: a kind each.
#pragma once

#include <functional>
#include <memory>

#include "partitioned/request_services.hpp"
#include "queue/queue.hpp"

namespace partita {

/// What queues build on.
struct QueueServices {
  const RequestServices* requests;  ///< null: there are only the host's queues
  /// Blocks until `done` returns true, making progress; watched. Throws Error.
  std::function<void(const Waiting&, const std::function<bool()>& done)> wait_until;
  /// Blocks until the open epoch is over, and closes it; watched. Throws Error.
  std::function<void(Operation&)> complete;
};

// Throw Error where `stream` is none of the kind's.
#define PARTITA_QUEUE_KIND(name, type) \
  std::unique_ptr<Queue> make_##name##_queue(const QueueServices& services, void* stream);
#include "queue/kinds.inc"
#undef PARTITA_QUEUE_KIND

/// A queue of the kind `type`, a Partita_Queue_type. Throws Error where there is no such kind.
std::unique_ptr<Queue> make_queue(int type, const QueueServices& services, void* stream);

}  // namespace partita
