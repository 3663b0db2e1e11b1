// How many offers wait for a rank to do something.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "memory/host_address.hpp"
#include "partitioned/request_services.hpp"

namespace partita {

/// Two counts in shared memory of each rank's. Senders of its node raise that of unmet offers before they send one, and
/// it falls when that is met or withdrawn: while it is zero no receive can have got an offer. Receivers raise that of
/// wishes when they wish the rank to stage an offer, and it falls when that is begun, or needed no more. So nobody
/// needs to look at all that is posted or offered. The first may stay above zero for good where somebody receives an
/// offer past the drop-in. Any thread.
class OfferCounts {
 public:
  struct Counts {
    std::atomic<std::int64_t> unmet{0};   ///< offered to the rank
    std::atomic<std::int64_t> wishes{0};  ///< of what the rank has offered
  };

  /// `are_offered`: whether there will be offers; the same on all ranks. Collective over the world then. Throws
  /// SharedError.
  OfferCounts(const RequestServices& services, bool are_offered);
  ~OfferCounts();
  OfferCounts(const OfferCounts&) = delete;
  OfferCounts& operator=(const OfferCounts&) = delete;

  /// Those of this rank, where there are offers at all.
  Counts& own() { return *own_; }
  bool any_unmet() const { return own_->unmet.load(std::memory_order_relaxed) > 0; }
  bool any_wishes() const { return own_->wishes.load(std::memory_order_relaxed) > 0; }
  /// Those of `peer`, another rank of this node. Throws Error where they cannot be mapped.
  Counts& of(int peer);

 private:
  void exchange_addresses(MPI_Comm node);
  void pass_on(MPI_Comm node);

  const RequestServices& services_;
  std::byte* block_ = nullptr;
  Counts* own_ = nullptr;
  std::map<int, memory::HostAddress> addresses_;  ///< of the ranks of this node
  std::mutex mutex_;                              ///< of the next one
  std::map<int, Counts*> mapped_;
};

}  // namespace partita
