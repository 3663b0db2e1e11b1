// How many messages were offered to a rank that it has not met yet.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "memory/host_address.hpp"
#include "partitioned/request_services.hpp"

namespace partita {

/// A count in shared memory of each rank's, which the senders of its node raise before they send an offer, and which
/// falls when that is met or withdrawn. While it is zero no receive can have got an offer, and nobody needs to look.
/// It may stay above zero for good where somebody receives an offer past the drop-in. Any thread.
class UnmetOffers {
 public:
  using Count = std::atomic<std::int64_t>;

  /// `are_offered`: whether there will be offers; the same on all ranks. Collective over the world then. Throws
  /// SharedError.
  UnmetOffers(const RequestServices& services, bool are_offered);
  ~UnmetOffers();
  UnmetOffers(const UnmetOffers&) = delete;
  UnmetOffers& operator=(const UnmetOffers&) = delete;

  /// Whether some were offered to this rank.
  bool any() const { return own_ != nullptr && own_->load(std::memory_order_relaxed) > 0; }
  /// The count of this rank.
  Count& own() { return *own_; }
  /// That of `receiver`, another rank of this node. Throws Error where it cannot be mapped.
  Count& of(int receiver);

 private:
  void exchange_addresses(MPI_Comm node);
  void pass_on(MPI_Comm node);

  const RequestServices& services_;
  std::byte* block_ = nullptr;
  Count* own_ = nullptr;
  std::map<int, memory::HostAddress> addresses_;  ///< of the ranks of this node
  std::mutex mutex_;                              ///< of the next one
  std::map<int, Count*> mapped_;
};

}  // namespace partita
