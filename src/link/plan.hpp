// How the partitions of the two sides and the transfers between them lie over one another.
#pragma once

#include <cstdint>

namespace partita::link {

/// Half-open range [begin, end).
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

/// The arithmetic of one matched request: `send_partitions` and `recv_partitions` user partitions over the same
/// `total_bytes` of packed data, moved in `transport_partitions` transfers, each a run of send partitions.
/// Exact integers throughout, so any ratio works and zero bytes too: positions are compared on a
/// common grid of send_partitions × recv_partitions units (< 2^62) instead of in bytes.
class Plan {
 public:
  Plan() = default;
  /// 1 <= transport_partitions <= send_partitions; total_bytes divides by both user counts.
  Plan(std::int32_t send_partitions, std::int32_t recv_partitions, std::int32_t transport_partitions,
       std::int64_t total_bytes)
      : send_(send_partitions), recv_(recv_partitions), transport_(transport_partitions), total_bytes_(total_bytes) {}

  std::int32_t send_partitions() const { return static_cast<std::int32_t>(send_); }
  std::int32_t recv_partitions() const { return static_cast<std::int32_t>(recv_); }
  std::int32_t transport_partitions() const { return static_cast<std::int32_t>(transport_); }
  std::int64_t total_bytes() const { return total_bytes_; }
  std::int64_t send_partition_bytes() const { return total_bytes_ / send_; }
  std::int64_t recv_partition_bytes() const { return total_bytes_ / recv_; }

  /// The send partitions that travel in transport partition `t`; never empty.
  Range send_run(std::int64_t t) const { return {t * send_ / transport_, (t + 1) * send_ / transport_}; }

  /// The packed bytes that transport partition `t` moves.
  Range bytes(std::int64_t t) const {
    const Range run = send_run(t);
    return {run.begin * send_partition_bytes(), run.end * send_partition_bytes()};
  }

  /// The transport partition in which send partition `s` travels.
  std::int32_t transport_of_send(std::int64_t s) const {
    if (transport_ == 1) return 0;
    if (transport_ == send_) return static_cast<std::int32_t>(s);
    return static_cast<std::int32_t>(((s + 1) * transport_ - 1) / send_);
  }

  /// The transport partitions that carry bytes of receive partition `r`; it has arrived when all of them have.
  Range transports_of_recv(std::int64_t r) const {
    const std::int64_t first_send = r * send_ / recv_;
    const std::int64_t last_send = ((r + 1) * send_ - 1) / recv_;
    return {transport_of_send(first_send), transport_of_send(last_send) + std::int64_t{1}};
  }

  bool operator==(const Plan&) const = default;

 private:
  std::int64_t send_ = 1;
  std::int64_t recv_ = 1;
  std::int64_t transport_ = 1;
  std::int64_t total_bytes_ = 0;
};

}  // namespace partita::link
