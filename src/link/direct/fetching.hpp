// The receiver's part of merging by time: it fetches what its sender holds for too long.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <vector>

#include "link/capabilities.hpp"
#include "link/direct/remote_process.hpp"
#include "link/direct/way.hpp"
#include "link/hold_board.hpp"

namespace partita::link::direct {

/// Whoever looks for an arrival looks at what waits at the sender, too: what still waits unchanged a little later is
/// read out of the sender's memory. So nothing has to run at the sender. Any thread may call, but for open().
class Fetching {
 public:
  /// The packed bytes lie at address `data` of world rank `rank`, which is `probe`'s process: can_read(). Those of even
  /// and of odd epochs land at `landings`.
  Fetching(const Plan& plan, HoldBoard board, int rank, const ReachProbe& probe, std::uint64_t data,
           std::array<std::byte*, 2> landings);

  /// The receiver opens `epoch`.
  void open(Epoch epoch);
  /// Whether transport partition `t` of `epoch` was fetched to where it lands, by this call at the latest. For who asks
  /// for that partition, maybe once. Throws Error, again and again, but not where the sender's process has ended.
  bool fetched(std::int32_t t, Epoch epoch, Arrivals& arrivals) {
    if (has(t, epoch)) return true;
    if (!board_.holds(epoch)) return false;
    look(t, epoch, arrivals);
    return has(t, epoch);
  }
  /// As fetched(), for who waits for the whole epoch: nothing is complete for it before the neighbours are, so the
  /// sender's words are left alone as long as most transfers take.
  bool fetched_meanwhile(std::int32_t t, Epoch epoch, Arrivals& arrivals) {
    if (has(t, epoch)) return true;
    return wait_is_long(epoch) && fetched(t, epoch, arrivals);
  }

 private:
  using Clock = std::chrono::steady_clock;

  /// So long who waits for the whole epoch leaves the sender's words alone, by a clock that is read at one poll of so
  /// many.
  static constexpr std::chrono::microseconds left_alone{5};
  static constexpr std::uint32_t polls_each_clock = 8;
  /// So long they are left alone between two looks: each takes them from the thread that marks.
  static constexpr std::chrono::nanoseconds between_looks{500};
  /// So long a set of partitions may wait without another joining it, and so long it may wait in all.
  static constexpr std::chrono::microseconds patience{3};
  static constexpr std::chrono::microseconds longest_wait{40};
  /// Who looks more seldom stays that long in a look.
  static constexpr std::chrono::microseconds seldom{20};
  /// A look copies one transport partition, and more up to here.
  static constexpr std::int64_t bytes_a_look = 128 * kib;

  bool has(std::int32_t t, Epoch epoch) const {
    return fetched_[static_cast<std::size_t>(t)].load(std::memory_order_acquire) == epoch;
  }
  bool wait_is_long(Epoch epoch);
  void look(std::int32_t t, Epoch epoch, Arrivals& arrivals);
  std::uint64_t what_waits(Epoch epoch) const;
  bool waits_too_long(std::uint64_t waiting, Epoch epoch, Clock::time_point now);
  bool outlasts_patience(std::uint64_t waiting, std::int32_t t, Epoch epoch, Arrivals& arrivals) const;
  void fetch(Epoch epoch);
  void fetch_run(Range run, Epoch epoch);

  Plan plan_;
  HoldBoard board_;
  int rank_;
  ReachProbe probe_;
  std::uint64_t data_;
  std::array<std::byte*, 2> landings_;
  std::shared_ptr<const RemoteProcess> sender_;  ///< from the first fetch on: it takes a descriptor
  std::vector<std::atomic<Epoch>> fetched_;      ///< per transport partition: the last epoch in which it was
  Epoch open_ = no_epoch;
  std::atomic<Epoch> waited_epoch_{no_epoch};  ///< in which somebody has waited in vain
  std::atomic<std::uint32_t> polls_{0};        ///< then
  std::atomic<Clock::rep> waited_since_{0};    ///< by the clock; 0: it was not read yet
  std::atomic<bool> looking_{false};           ///< one thread looks; what follows is its own
  std::exception_ptr failure_;                 ///< what was claimed and could not be read is moved by nobody else
  Clock::time_point last_look_;
  std::uint64_t seen_ = 0;  ///< what waited at the last look, as a number; 0: nothing
  Epoch seen_epoch_ = no_epoch;
  Clock::time_point seen_since_;
  Clock::time_point waiting_since_;
};

}  // namespace partita::link::direct
