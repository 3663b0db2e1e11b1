// How the partitions of the two sides and the transfers between them lie over one another.
#pragma once

#include <partita/device/impl/plan.hpp>

#include <cstdint>
#include <utility>

#include "link/partitioning.hpp"

namespace partita::link {

/// The plan of one matched transfer: the same packed bytes as the partitions of the sender and of the receiver divide
/// them, moved in transport partitions, each a run of the sender's. Runs are counted in partitions, whatever the size
/// of these, so a mark finds its run without a table. Where both sides are even all is device::Plan's arithmetic, which
/// kernels share; they know no other plans. Cheap to copy.
class Plan {
 public:
  Plan() = default;
  /// 1 <= transport_partitions <= send.count(); equal bytes on both sides.
  Plan(Partitioning send, Partitioning recv, std::int32_t transport_partitions)
      : runs_(send.count(), recv.count(), transport_partitions, send.total_bytes()),
        send_(std::move(send)),
        recv_(std::move(recv)) {}
  /// A plan whose partitions are of one size on each side.
  Plan(std::int32_t send_partitions, std::int32_t recv_partitions, std::int32_t transport_partitions,
       std::int64_t total_bytes)
      : Plan(Partitioning(send_partitions, total_bytes), Partitioning(recv_partitions, total_bytes),
             transport_partitions) {}

  const Partitioning& send() const { return send_; }
  const Partitioning& recv() const { return recv_; }
  std::int32_t send_partitions() const { return runs_.send_partitions(); }
  std::int32_t recv_partitions() const { return runs_.recv_partitions(); }
  std::int32_t transport_partitions() const { return runs_.transport_partitions(); }
  std::int64_t total_bytes() const { return runs_.total_bytes(); }

  /// The send partitions that travel in transport partition `t`; never empty.
  Range send_run(std::int64_t t) const { return runs_.send_run(t); }
  /// The packed bytes that transport partition `t` moves.
  Range bytes(std::int64_t t) const { return send_.bytes(send_run(t)); }
  /// The transport partition in which send partition `s` travels.
  std::int32_t transport_of_send(std::int64_t s) const { return runs_.transport_of_send(s); }
  /// The transport partitions from the first to the last that carries bytes of receive partition `r`: it has arrived
  /// when all of them have. None where one side is uneven and `r` has no bytes; so an epoch is over when all transport
  /// partitions have arrived, not when all receive partitions have.
  Range transports_of_recv(std::int64_t r) const {
    if (send_.even() && recv_.even()) return runs_.transports_of_recv(r);
    return transports_of_bytes(recv_.bytes({r, r + 1}));
  }

  friend bool operator==(const Plan&, const Plan&) = default;

 private:
  Range transports_of_bytes(Range bytes) const {
    if (bytes.size() == 0) return {};
    return {transport_of_send(send_.partition_at(bytes.begin)),
            transport_of_send(send_.partition_at(bytes.end - 1)) + std::int64_t{1}};
  }

  device::Plan runs_;
  Partitioning send_;
  Partitioning recv_;
};

/// The first of `run` for which `passes` is false, or run.end; asked one after the other, and no further.
template <class Passes>
std::int64_t first_not(Range run, Passes passes) {
  std::int64_t t = run.begin;
  while (t < run.end && passes(t)) ++t;
  return t;
}

/// The packed bytes of neighbouring transport partitions, at least one.
inline Range bytes_of(const Plan& plan, Range run) {
  return {plan.bytes(run.begin).begin, plan.bytes(run.end - 1).end};
}

}  // namespace partita::link
