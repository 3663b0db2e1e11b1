// UCX started for this process: its context, its worker, its address.
#pragma once

#include <ucp/api/ucp.h>

#include <cstdint>

#include "core/wire.hpp"

namespace partita::link::ucx {

/// Owns the handles. Calls on the worker are serialised by whoever uses it.
class Context {
 public:
  /// Takes milliseconds; throws Error.
  Context();
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  ucp_context_h handle() const { return context_; }
  ucp_worker_h worker() const { return worker_; }
  /// What others connect to.
  const wire::Bytes& address() const { return address_; }
  /// Whether this UCX reads and writes memory of `type`.
  bool reaches(ucs_memory_type_t type) const { return (memory_types_ & (std::uint64_t{1} << type)) != 0; }

 private:
  void start();
  void stop() noexcept;

  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  std::uint64_t memory_types_ = 0;
  wire::Bytes address_;
};

}  // namespace partita::link::ucx
