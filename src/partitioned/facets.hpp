// What an operation allows to be done with its partitions. One may have several facets.
#pragma once

#include <cstdint>
#include <optional>

#include "core/error.hpp"
#include "partita/device/prequest.h"

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

/// Kernels mark or await the partitions, by a device request, of which there is one at a time. One thread at a time,
/// unless said otherwise. Throws Error.
class KernelUsable {
 public:
  /// Whether all is known that a device request is made of. Throws Error if it never will be.
  virtual bool can_make_device_request() = 0;
  /// MPIX_Prequest_create.
  virtual const Partita_Prequest& make_device_request() = 0;
  /// MPIX_Prequest_free: no kernel uses it any more. Gives what a kernel did wrong and nobody was told.
  virtual std::optional<Error> free_device_request() = 0;
  /// Whether there is one, with a peer.
  virtual bool has_device_request() const = 0;
  /// Whether `view` is the device request that was made last and not freed. Any thread.
  virtual bool has_device_request(const Partita_Prequest& view) const = 0;
  /// What a kernel did wrong and nobody was told, who is told now.
  virtual std::optional<Error> untold_mistake() const = 0;

 protected:
  ~KernelUsable() = default;
};

/// Null: the operation has none.
struct Facets {
  Markable* markable = nullptr;
  Awaitable* awaitable = nullptr;
  KernelUsable* kernel_usable = nullptr;
};

}  // namespace partita
