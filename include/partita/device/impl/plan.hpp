// How the partitions of the two sides and the transfers between them lie over one another. One arithmetic for the
// library and for kernels.
#pragma once

#include <partita/device/prequest.h>
#include <partita/device/impl/execution_space.hpp>

namespace partita::device {

/// Half-open range [begin, end).
struct Range {
  partita_i64 begin = 0;
  partita_i64 end = 0;

  PARTITA_HOST_DEVICE constexpr partita_i64 size() const { return end - begin; }
  PARTITA_HOST_DEVICE friend constexpr bool operator==(const Range& a, const Range& b) {
    return a.begin == b.begin && a.end == b.end;
  }
  PARTITA_HOST_DEVICE friend constexpr bool operator!=(const Range& a, const Range& b) { return !(a == b); }
};

#if defined(__CUDACC__)
/// A GPU divides in a subroutine, the slower the longer the numbers are.
PARTITA_DEVICE_OUT_OF_LINE partita_i64 divide_on_gpu(partita_i64 a, partita_i64 b) {
  if (((a | b) >> 32) == 0) return static_cast<partita_u32>(a) / static_cast<partita_u32>(b);
  return a / b;
}
#endif

/// a / b for a >= 0, b >= 1.
PARTITA_HOST_DEVICE constexpr partita_i64 divide(partita_i64 a, partita_i64 b) {
#if defined(__CUDA_ARCH__)
  return divide_on_gpu(a, b);
#else
  return a / b;
#endif
}

/// The arithmetic of one matched request: `send_partitions` and `recv_partitions` user partitions over the same
/// `total_bytes` of packed data, moved in `transport_partitions` transfers, each a run of send partitions.
/// Exact integers throughout, so any ratio works and zero bytes too: positions are compared on a
/// common grid of send_partitions × recv_partitions units (< 2^62) instead of in bytes.
class Plan {
 public:
  constexpr Plan() = default;
  /// 1 <= transport_partitions <= send_partitions; total_bytes divides by both user counts.
  PARTITA_HOST_DEVICE constexpr Plan(partita_i32 send_partitions, partita_i32 recv_partitions,
                                     partita_i32 transport_partitions, partita_i64 total_bytes)
      : send_(send_partitions), recv_(recv_partitions), transport_(transport_partitions), total_bytes_(total_bytes) {}

  PARTITA_HOST_DEVICE constexpr partita_i32 send_partitions() const { return static_cast<partita_i32>(send_); }
  PARTITA_HOST_DEVICE constexpr partita_i32 recv_partitions() const { return static_cast<partita_i32>(recv_); }
  PARTITA_HOST_DEVICE constexpr partita_i32 transport_partitions() const {
    return static_cast<partita_i32>(transport_);
  }
  PARTITA_HOST_DEVICE constexpr partita_i64 total_bytes() const { return total_bytes_; }
  PARTITA_HOST_DEVICE constexpr partita_i64 send_partition_bytes() const { return divide(total_bytes_, send_); }
  PARTITA_HOST_DEVICE constexpr partita_i64 recv_partition_bytes() const { return divide(total_bytes_, recv_); }

  /// The send partitions that travel in transport partition `t`; never empty.
  PARTITA_HOST_DEVICE constexpr Range send_run(partita_i64 t) const {
    if (transport_ == 1) return {0, send_};
    if (transport_ == send_) return {t, t + 1};
    return {divide(t * send_, transport_), divide((t + 1) * send_, transport_)};
  }

  /// The packed bytes that transport partition `t` moves.
  PARTITA_HOST_DEVICE constexpr Range bytes(partita_i64 t) const {
    const Range run = send_run(t);
    return {run.begin * send_partition_bytes(), run.end * send_partition_bytes()};
  }

  /// The transport partition in which send partition `s` travels.
  PARTITA_HOST_DEVICE constexpr partita_i32 transport_of_send(partita_i64 s) const {
    if (transport_ == 1) return 0;
    if (transport_ == send_) return static_cast<partita_i32>(s);
    return static_cast<partita_i32>(divide((s + 1) * transport_ - 1, send_));
  }

  /// The transport partitions that carry bytes of receive partition `r`; it has arrived when all of them have.
  PARTITA_HOST_DEVICE constexpr Range transports_of_recv(partita_i64 r) const {
    if (transport_ == 1) return {0, 1};
    if (send_ == recv_) return {transport_of_send(r), transport_of_send(r) + partita_i64{1}};
    const partita_i64 first_send = divide(r * send_, recv_);
    const partita_i64 last_send = divide((r + 1) * send_ - 1, recv_);
    return {transport_of_send(first_send), transport_of_send(last_send) + partita_i64{1}};
  }

  PARTITA_HOST_DEVICE friend constexpr bool operator==(const Plan& a, const Plan& b) {
    return a.send_ == b.send_ && a.recv_ == b.recv_ && a.transport_ == b.transport_ && a.total_bytes_ == b.total_bytes_;
  }
  PARTITA_HOST_DEVICE friend constexpr bool operator!=(const Plan& a, const Plan& b) { return !(a == b); }

 private:
  partita_i64 send_ = 1;
  partita_i64 recv_ = 1;
  partita_i64 transport_ = 1;
  partita_i64 total_bytes_ = 0;
};

}  // namespace partita::device
