// What a benchmark compares: one way of sending the same buffer again and again.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace partita::bench {

/// One message in one direction, as each side sees it. `bytes.size()` divides by `partitions`.
struct Message {
  std::span<std::byte> bytes;
  int partitions = 1;
  int peer = 0;
  int tag = 0;
};

/// How a subject moved its bytes, as far as it tells; empty and 0 where it does not.
struct LinkUsed {
  std::string link;
  std::string reason;
  int transport_partitions = 0;
  std::string gpu_copy{};  ///< who moved what kernels marked: kernel, packets or engine; empty without kernels
};

/// The sending side. One epoch is start, mark for every partition, release, wait.
class Sending {
 public:
  virtual ~Sending() = default;
  virtual void start() = 0;
  /// Marks partitions `first` to `last` - 1 one by one. Any thread of the team.
  virtual void mark(int first, int last) = 0;
  /// All partitions are marked and the marking threads joined: what can send only whole messages sends now.
  virtual void release() = 0;
  virtual void wait() = 0;
  /// Whether nothing of the message can travel before release.
  virtual bool sends_at_release() const { return false; }
  virtual LinkUsed link_used() const { return {}; }
};

/// The receiving side. One epoch is start, arrived as often as wanted, wait.
class Receiving {
 public:
  virtual ~Receiving() = default;
  virtual void start() = 0;
  virtual bool arrived(int partition) = 0;
  virtual void wait() = 0;
  virtual LinkUsed link_used() const { return {}; }
};

/// Memory for message buffers, given back to where it came from.
class Buffer {
 public:
  Buffer(void* base, std::size_t size_bytes, std::function<void(void*)> give_back)
      : memory_(static_cast<std::byte*>(base), std::move(give_back)), size_bytes_(size_bytes) {}
  std::span<std::byte> bytes() const { return {memory_.get(), size_bytes_}; }

 private:
  std::unique_ptr<std::byte, std::function<void(void*)>> memory_;
  std::size_t size_bytes_;
};

/// Page-aligned memory of malloc's.
Buffer plain_buffer(std::size_t size_bytes);

class Subject {
 public:
  virtual ~Subject() = default;
  /// Unique in a run; stands in every table.
  virtual std::string name() const = 0;
  virtual Buffer allocate(std::size_t size_bytes) = 0;
  virtual std::unique_ptr<Sending> sending(const Message& message) = 0;
  virtual std::unique_ptr<Receiving> receiving(const Message& message) = 0;
  /// Whether the link of a message must be learnt from another subject's message of the same shape, because this one's
  /// requests do not tell; null if not.
  virtual Subject* link_teller() { return nullptr; }
};

}  // namespace partita::bench
