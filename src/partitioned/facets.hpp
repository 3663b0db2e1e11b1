// What partitions of an operation allow: to be marked, to be awaited. An operation may have both.
#pragma once

#include <cstdint>

namespace partita {

/// The caller's data leave, partition by partition. Any thread, several at once. Never blocks; throws Error.
class Markable {
 public:
  /// Marks one partition, or all of [first, last]: a second mark in an epoch is an error.
  virtual void mark(std::int64_t partition) = 0;
  virtual void mark(std::int64_t first, std::int64_t last) = 0;

 protected:
  ~Markable() = default;
};

/// Data arrive, partition by partition. Any thread, several at once. Never blocks; throws Error.
class Awaitable {
 public:
  /// Whether partition `partition` lies in the user's buffer. Makes progress.
  virtual bool arrived(std::int64_t partition) = 0;

 protected:
  ~Awaitable() = default;
};

/// Null: the operation has none.
struct Facets {
  Markable* markable = nullptr;
  Awaitable* awaitable = nullptr;
};

}  // namespace partita
